package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// faultsOf decodes and validates one document and lists its errors without the object's name.
func faultsOf(t *testing.T, doc string) []string {
	t.Helper()
	obj, err := Decode([]byte(doc))
	var problems []Problem
	var rejected *Rejected
	switch {
	case errors.As(err, &rejected):
		problems = rejected.Problems
	case err != nil:
		t.Fatalf("%v in\n%s", err, doc)
	default:
		problems = validate(KeyOf(obj), obj)
	}
	var faults []string
	for _, p := range problems {
		if p.Severity == Error {
			faults = append(faults, p.text())
		}
	}
	return faults
}

// invalid is a document's spec, and the beginning of what must be said of it; nothing: it is valid.
type invalid struct{ spec, fault string }

func checkInvalid(t *testing.T, apiVersion, kind string, tests []invalid) {
	t.Helper()
	for _, tt := range tests {
		doc := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x, namespace: default}\nspec: {%s}", apiVersion, kind, tt.spec)
		faults := faultsOf(t, doc)
		switch {
		case tt.fault == "" && len(faults) > 0:
			t.Errorf("%s {%s}: %q, want it to be valid", kind, tt.spec, faults)
		case tt.fault != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.HasPrefix(f, tt.fault) }):
			t.Errorf("%s {%s}:\n got %q\nwant %q", kind, tt.spec, faults, tt.fault)
		}
	}
}

func TestInvalidHTTPRoutes(t *testing.T) {
	rule := func(s string) string { return "rules: [{" + s + "}]" }
	match := func(s string) string { return rule("matches: [{" + s + "}]") }
	filter := func(s string) string { return rule("filters: [{" + s + "}]") }
	setHeader := func(s string) string {
		return filter("type: RequestHeaderModifier, requestHeaderModifier: {set: [" + s + "]}")
	}
	redirect := func(s string) string { return filter("type: RequestRedirect, requestRedirect: {" + s + "}") }
	mirror := func(s string) string {
		return filter("type: RequestMirror, requestMirror: {backendRef: {name: a, port: 1}, " + s + "}")
	}
	cors := func(s string) string { return filter("type: CORS, cors: {" + s + "}") }
	rewrite := "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}"
	checkInvalid(t, "gateway.networking.k8s.io/v1", "HTTPRoute", []invalid{
		{"", ""},
		{"parentRefs: [{name: g, port: 65535}]", ""},
		{"parentRefs: [{kind: Service}]", "spec.parentRefs[0].name: must be set"},
		{"parentRefs: [{name: g, port: 65536}]", "spec.parentRefs[0].port: must be between 1 and 65535, got 65536"},
		{"parentRefs: {name: g}", "spec.parentRefs: must be a list, got an object"},
		{"hostnames: [A.example.com]", `spec.hostnames[0]: must be a host name, got "A.example.com"`},
		{"hostnames: [10.0.0.1]", "spec.hostnames[0]: must be a host name, not an IP address"},
		{`hostnames: ["*.example.com"]`, ""},
		{"rules: [{name: a}, {name: a}]", `spec.rules[1].name: must be unique within the route, "a" is there twice`},
		{"rules: [" + strings.Repeat("{},", 16) + "{}]", "spec.rules: must not have more than 16 items, has 17"},
		{rule("backends: []"), "spec.rules[0].backends: unknown field"},
		{match("path: {value: /a/b}"), ""},
		{match("path: {value: a}"), `spec.rules[0].matches[0].path.value: must start with "/", got "a"`},
		{match("path: {value: /a//b}"), `spec.rules[0].matches[0].path.value: must not contain "//"`},
		{match("path: {value: /a/../b}"), `spec.rules[0].matches[0].path.value: must not contain "/../"`},
		{match("path: {value: /a/..}"), `spec.rules[0].matches[0].path.value: must not end with "/.."`},
		{match("path: {value: /a%2Fb}"), `spec.rules[0].matches[0].path.value: must not contain "%2F"`},
		{match(`path: {value: "/a b"}`), "spec.rules[0].matches[0].path.value: must consist of the characters of an URL path"},
		{match("path: {value: /" + strings.Repeat("a", 1024) + "}"), "spec.rules[0].matches[0].path.value: must not be longer than 1024 bytes"},
		{match("path: {type: Prefix, value: /a}"), `spec.rules[0].matches[0].path.type: must be one of Exact, PathPrefix, RegularExpression, got "Prefix"`},
		{match(`path: {type: RegularExpression, value: "(a"}`), "spec.rules[0].matches[0].path.value: must be a regular expression in RE2 syntax"},
		{match(`path: {type: RegularExpression, value: "(?=a)"}`), "spec.rules[0].matches[0].path.value: must be a regular expression in RE2 syntax"},
		{match(`path: {type: RegularExpression, value: "((a{100}){10}){10}"}`), "spec.rules[0].matches[0].path.value: must be a regular expression"},
		{
			match(`path: {type: RegularExpression, value: "` + strings.Repeat("[a-z]{900}", 12) + `"}`),
			"spec.rules[0].matches[0].path.value: regular expression is too large",
		},
		{
			match(`path: {type: RegularExpression, value: "` + strings.Repeat("a", 5000) + `"}`),
			"spec.rules[0].matches[0].path.value: regular expression must not be longer than 4096 bytes",
		},
		{match(`headers: [{name: "a b", value: x}]`), `spec.rules[0].matches[0].headers[0].name: must be a header name (RFC 9110 token), got "a b"`},
		{match("headers: [{name: a}]"), "spec.rules[0].matches[0].headers[0].value: must be set"},
		{match(`headers: [{name: a, type: RegularExpression, value: "["}]`), "spec.rules[0].matches[0].headers[0].value: must be a regular expression"},
		{match("headers: [{name: a, type: Prefix, value: x}]"), "spec.rules[0].matches[0].headers[0].type: must be one of Exact, RegularExpression"},
		{match("queryParams: [{name: a, value: x}]"), ""},
		{match("queryParams: [{name: a, type: Regex, value: x}]"), "spec.rules[0].matches[0].queryParams[0].type: must be one of"},
		{match("method: get"), "spec.rules[0].matches[0].method: must be one of GET, HEAD"},
		{rule("backendRefs: [{name: a}]"), "spec.rules[0].backendRefs[0].port: must be set for a Service"},
		{rule("backendRefs: [{port: 80}]"), "spec.rules[0].backendRefs[0].name: must be set"},
		{rule("backendRefs: [{name: a, port: 80, weight: -1}]"), "spec.rules[0].backendRefs[0].weight: must be between 0 and 1000000, got -1"},
		{rule("backendRefs: [{name: a, port: 80, weight: 1000001}]"), "spec.rules[0].backendRefs[0].weight: must be between"},
		{rule("timeouts: {request: 1m30s, backendRequest: 500ms}"), ""},
		{rule("timeouts: {request: 0s, backendRequest: 5s}"), ""},
		{rule("timeouts: {request: 1.5s}"), `spec.rules[0].timeouts.request: must be a duration such as "1m30s" or "500ms" (GEP-2257), got "1.5s"`},
		{rule("timeouts: {request: 10}"), "spec.rules[0].timeouts.request: must be a string, got a number"},
		{rule("timeouts: {request: 1s, backendRequest: 2s}"), "spec.rules[0].timeouts.backendRequest: must not be longer than request (1s), got 2s"},
		{rule("retry: {attempts: 3, codes: [500, 599], backoff: 10ms}"), ""},
		{rule("retry: {codes: [399]}"), "spec.rules[0].retry.codes[0]: must be between 400 and 599, got 399"},
		{rule("retry: {attempts: -1}"), "spec.rules[0].retry.attempts: must be between 0"},
		{filter("type: Nothing"), "spec.rules[0].filters[0].type: must be one of RequestHeaderModifier"},
		{filter("type: CORS"), "spec.rules[0].filters[0].cors: must be set for a filter of type CORS"},
		{filter("type: CORS, cors: {}, urlRewrite: {}"), "spec.rules[0].filters[0].urlRewrite: must not be set for a filter of type CORS"},
		{rule("filters: [{type: CORS, cors: {}}, {type: CORS, cors: {}}]"), "spec.rules[0].filters[1]: CORS must not be repeated"},
		{
			rule("filters: [{type: URLRewrite, urlRewrite: {}}, {type: RequestRedirect, requestRedirect: {}}]"),
			"spec.rules[0].filters: must not have both a RequestRedirect and a URLRewrite",
		},
		{setHeader("{name: x-a, value: b}"), ""},
		{setHeader(`{name: "x a", value: b}`), "spec.rules[0].filters[0].requestHeaderModifier.set[0].name: must be a header name"},
		{setHeader(`{name: x-a, value: "b\r\nx: y"}`), "spec.rules[0].filters[0].requestHeaderModifier.set[0].value: must not contain control characters"},
		{setHeader("{name: x-a, value: b}, {name: X-A, value: c}"), "spec.rules[0].filters[0].requestHeaderModifier.set[1].name: X-A is listed twice"},
		{setHeader("{name: Content-Length, value: 1}"), "spec.rules[0].filters[0].requestHeaderModifier.set[0].value: must be a string, got a number"},
		{setHeader(`{name: Content-Length, value: "1"}`), "spec.rules[0].filters[0].requestHeaderModifier.set[0].name: Content-Length belongs to the framing"},
		{setHeader("{name: Host, value: a}"), "spec.rules[0].filters[0].requestHeaderModifier.set[0].name: the host is changed by a URLRewrite"},
		{
			filter("type: RequestHeaderModifier, requestHeaderModifier: {remove: [Connection]}"),
			"spec.rules[0].filters[0].requestHeaderModifier.remove[0]: Connection belongs to the framing",
		},
		{redirect("scheme: https, statusCode: 308, port: 443"), ""},
		{redirect("scheme: ftp"), "spec.rules[0].filters[0].requestRedirect.scheme: must be one of http, https"},
		{redirect("statusCode: 200"), "spec.rules[0].filters[0].requestRedirect.statusCode: must be 301, 302, 303, 307 or 308, got 200"},
		{redirect("hostname: '*.x'"), "spec.rules[0].filters[0].requestRedirect.hostname: must be a host name"},
		{redirect("path: {type: ReplaceFullPath}"), "spec.rules[0].filters[0].requestRedirect.path.replaceFullPath: must be set if and only if"},
		{redirect(`path: {type: ReplaceFullPath, replaceFullPath: "/a\nb"}`), "spec.rules[0].filters[0].requestRedirect.path.replaceFullPath: must not contain"},
		{rule("filters: [{type: RequestRedirect, requestRedirect: {}}], backendRefs: [{name: a, port: 1}]"), "spec.rules[0].backendRefs: must be empty beside"},
		{rule("filters: [" + rewrite + "]"), ""},
		{rule("matches: [{path: {value: /a}}], filters: [" + rewrite + "]"), ""},
		{rule("matches: [{path: {type: Exact, value: /a}}], filters: [" + rewrite + "]"), "spec.rules[0].matches: must be exactly one match with a PathPrefix"},
		{rule("matches: [{}, {}], backendRefs: [{name: a, port: 1, filters: [" + rewrite + "]}]"), "spec.rules[0].matches: must be exactly one match"},
		{mirror("percent: 100"), ""},
		{mirror("percent: 101"), "spec.rules[0].filters[0].requestMirror.percent: must be between 0 and 100, got 101"},
		{mirror("percent: 1, fraction: {numerator: 1}"), "spec.rules[0].filters[0].requestMirror: must not have both percent and fraction"},
		{mirror("fraction: {numerator: 5, denominator: 4}"), "spec.rules[0].filters[0].requestMirror.fraction.numerator: must be between 0 and 4, got 5"},
		{mirror("fraction: {numerator: 0, denominator: 0}"), "spec.rules[0].filters[0].requestMirror.fraction.denominator: must be between 1"},
		{cors("allowOrigins: ['https://*.example.com:8443', 'http://localhost', '*']"), ""},
		{cors("allowOrigins: [example.com]"), "spec.rules[0].filters[0].cors.allowOrigins[0]: must be"},
		{cors("allowMethods: [GOT]"), "spec.rules[0].filters[0].cors.allowMethods[0]: must be one of GET"},
		{cors("allowHeaders: ['a b']"), "spec.rules[0].filters[0].cors.allowHeaders[0]: must be a header name"},
		{cors("maxAge: -1"), "spec.rules[0].filters[0].cors.maxAge: must not be negative"},
	})
}

func TestInvalidOtherRoutes(t *testing.T) {
	checkInvalid(t, "gateway.networking.k8s.io/v1", "GRPCRoute", []invalid{
		{"rules: [{matches: [{method: {service: a.B, method: C}}]}]", ""},
		{"rules: [{matches: [{method: {}}]}]", "spec.rules[0].matches[0].method: must name a service or a method"},
		{"rules: [{matches: [{method: {service: a/b}}]}]", "spec.rules[0].matches[0].method.service: must be a gRPC service"},
		{"rules: [{matches: [{method: {method: a.b}}]}]", "spec.rules[0].matches[0].method.method: must be a gRPC method"},
		{"rules: [{matches: [{method: {type: RegularExpression, method: '('}}]}]", "spec.rules[0].matches[0].method.method: must be a regular"},
		{"rules: [{matches: [{method: {type: Prefix, method: a}}]}]", "spec.rules[0].matches[0].method.type: must be one of"},
		{"rules: [{backendRefs: [{name: a, port: 0}]}]", "spec.rules[0].backendRefs[0].port: must be between"},
		{"rules: [{filters: [{type: URLRewrite}]}]", "spec.rules[0].filters[0].urlRewrite: must be set"},
	})
	checkInvalid(t, "gateway.networking.k8s.io/v1", "TCPRoute", []invalid{
		{"rules: [{backendRefs: [{name: a, port: 1}]}]", ""},
		{"rules: []", "spec.rules: must have exactly one item, has 0"},
		{"rules: [{backendRefs: []}]", "spec.rules[0].backendRefs: must have at least one item"},
		{"hostnames: [a]", "spec.hostnames: unknown field"},
	})
	checkInvalid(t, "gateway.networking.k8s.io/v1alpha3", "TLSRoute", []invalid{
		{"hostnames: ['*.a'], rules: [{backendRefs: [{name: a, port: 1}]}]", ""},
		{"hostnames: ['a.*'], rules: [{backendRefs: [{name: a, port: 1}]}]", "spec.hostnames[0]: must be a host name"},
	})
	checkInvalid(t, "gateway.networking.k8s.io/v1", "ReferenceGrant", []invalid{
		{"from: [{group: '', kind: A, namespace: b}], to: [{group: '', kind: Service}]", ""},
		{"from: [{group: '', kind: A}], to: [{group: ''}]", "spec.from[0].namespace: must be set"},
	})
	checkInvalid(t, "gateway.networking.k8s.io/v1", "Gateway", []invalid{
		{"gatewayClassName: waypoint", ""},
		{"listeners: [{name: a, port: 0, protocol: HBONE}]", "spec.gatewayClassName: must be set"},
		{"gatewayClassName: a, listeners: [{name: a, port: 0, protocol: HBONE}]", "spec.listeners[0].port: must be between"},
		{
			"gatewayClassName: a, listeners: [{name: a, port: 1, protocol: X, allowedRoutes: {namespaces: {from: Here}}}]",
			"spec.listeners[0].allowedRoutes.namespaces.from: must be one of All, Selector, Same, None",
		},
		{
			"gatewayClassName: a, listeners: [{name: a, port: 1, protocol: X, allowedRoutes: {namespaces: {from: Selector}}}]",
			"spec.listeners[0].allowedRoutes.namespaces.selector: must be set",
		},
		{
			"gatewayClassName: a, listeners: [{name: a, port: 1, protocol: X, allowedRoutes: {namespaces: {selector: {matchExpressions: [{key: a, operator: Is}]}}}}]",
			"spec.listeners[0].allowedRoutes.namespaces.selector:",
		},
	})
}

func TestInvalidPolicies(t *testing.T) {
	source := func(s string) string { return "rules: [{from: [{source: {" + s + "}}]}]" }
	operation := func(s string) string { return "rules: [{to: [{operation: {" + s + "}}]}]" }
	when := func(s string) string { return "rules: [{when: [{" + s + "}]}]" }
	custom := "action: CUSTOM, provider: {name: p}, "
	checkInvalid(t, "security.istio.io/v1", "AuthorizationPolicy", []invalid{
		{"", ""},
		{"action: ALLOW", ""},
		{"action: DENY", "spec.rules: must have at least one item for action DENY"},
		{"action: 1, rules: [{}]", ""},
		{"action: 9", "spec.action: must be ALLOW, DENY, AUDIT or CUSTOM, got 9"},
		{"action: Deny", `spec.action: must be one of ALLOW, DENY, AUDIT, CUSTOM, got "Deny"`},
		{"action: CUSTOM, rules: [{}]", "spec.provider.name: must be set for action CUSTOM, and for no other"},
		{"provider: {name: p}", "spec.provider.name: must be set for action CUSTOM, and for no other"},
		{"rules: [null]", "spec.rules[0]: must not be null"},
		{"selector: {}, targetRef: {kind: Service, name: a}", "spec: must have only one of selector, targetRef and targetRefs"},
		{"targetRefs: [{kind: Service}]", "spec.targetRefs[0].name: must be set"},
		{"targetRefs: [{kind: Deployment, name: a}]", "spec.targetRefs[0].kind: must be Service, ServiceEntry, Gateway or GatewayClass"},
		{"targetRefs: [{kind: Gateway, name: a}]", "spec.targetRefs[0].kind: must be Service"},
		{"targetRef: {kind: Service, name: a, namespace: b}", "spec.targetRef.namespace: must be left out"},
		{"targetRefs: [" + strings.Repeat("{kind: Service, name: a},", 17) + "]", "spec.targetRefs: must not have more than 16 items"},
		{source(""), "spec.rules[0].from[0].source: must have at least one field"},
		{source("principals: [td/ns/a/sa/b, 'td/*', '*/sa/b', '*']"), ""},
		{source("notPrincipals: ['spiffe://td/ns/a/sa/b']"), ""},
		{source("notPrincipals: [td/ns/a]"), "spec.rules[0].from[0].source.notPrincipals[0]: must be"},
		{source("principals: [client]"), `spec.rules[0].from[0].source.principals[0]: must be "TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT"`},
		{source("principals: ['']"), "spec.rules[0].from[0].source.principals[0]: must not be empty"},
		{source("principals: a"), "spec.rules[0].from[0].source.principals: must be a list, got a string"},
		{source("ipBlocks: [10.0.0.0/8, '::1']"), ""},
		{source("ipBlocks: [10.0.0.0/33]"), "spec.rules[0].from[0].source.ipBlocks[0]: must be an IP address or a block"},
		{source("serviceAccounts: [a, b/c]"), ""},
		{source("serviceAccounts: [a/b/c]"), "spec.rules[0].from[0].source.serviceAccounts[0]: must be"},
		{source("serviceAccounts: [a], namespaces: [b]"), "spec.rules[0].from[0].source.serviceAccounts: must not stand beside"},
		{custom + source("principals: [a]"), "spec.rules[0].from[0].source: only IP blocks"},
		{custom + source("ipBlocks: [10.0.0.1]"), ""},
		{operation(""), "spec.rules[0].to[0].operation: must have at least one field"},
		{operation("ports: ['80']"), ""},
		{operation("ports: [80]"), "spec.rules[0].to[0].operation.ports[0]: must be a string, got a number"},
		{operation("ports: ['0']"), `spec.rules[0].to[0].operation.ports[0]: must be a port number, got "0"`},
		{operation("ports: ['65536']"), "spec.rules[0].to[0].operation.ports[0]: must be a port number"},
		{operation("paths: ['/a/{*}/b', '/a/{**}', '/a*', '*/b', '*']"), ""},
		{operation("paths: ['/a/{**}/b']"), "spec.rules[0].to[0].operation.paths[0]: {**} must be the last segment"},
		{operation("paths: ['/a/{**}/{**}']"), "spec.rules[0].to[0].operation.paths[0]: {**} must be the last segment"},
		{operation("paths: ['/a/x{*}']"), "spec.rules[0].to[0].operation.paths[0]: {*} must be a whole segment"},
		{operation("paths: ['/a/{*}/b*']"), "spec.rules[0].to[0].operation.paths[0]: must not mix templates"},
		{operation("notPaths: ['/a/{id}']"), "spec.rules[0].to[0].operation.notPaths[0]: must use {*} or {**} only"},
		{operation("paths: ['/a/{*']"), "spec.rules[0].to[0].operation.paths[0]: must use {*} or {**} only"},
		{when("key: 'request.headers[x-a]', values: [b]"), ""},
		{when("key: 'request.headers[]', values: [b]"), "spec.rules[0].when[0].key: must be an attribute"},
		{when("key: 'request.headers[a b]', values: [b]"), "spec.rules[0].when[0].key: must be a header name"},
		{when("key: source.ip, values: [x]"), "spec.rules[0].when[0].values[0]: must be an IP address"},
		{when("key: destination.port, notValues: [http]"), "spec.rules[0].when[0].notValues[0]: must be a port number"},
		{when("key: source.principal"), "spec.rules[0].when[0]: must have values or notValues"},
		{when("key: source.labels, values: [a]"), "spec.rules[0].when[0].key: must be an attribute"},
		{when("key: 'experimental.envoy.filters.x[y]', values: [a]"), "spec.rules[0].when[0].key: must be an attribute"},
		{when("key: 'request.auth.claims[a][b]', values: [a]"), ""},
		{custom + when("key: request.auth.principal, values: [a]"), "spec.rules[0].when[0].key: request.auth.principal cannot be matched"},
	})
}

func TestInvalidServices(t *testing.T) {
	checkInvalid(t, "v1", "Service", []invalid{
		{"clusterIP: None, ports: [{port: 80}]", ""},
		{"clusterIPs: [10.0.0]", `spec.clusterIPs[0]: must be an IP address, got "10.0.0"`},
		{"ports: [{port: 80}, {port: 81}]", "spec.ports[0].name: must be set when there are several ports"},
		{"ports: [{name: a, port: 80}, {name: b, port: 80}]", "spec.ports[1].port: 80 is listed twice"},
		{"ports: [{port: 80, targetPort: 70000}]", "spec.ports[0].targetPort: must be between"},
		{"ports: [{port: 80, targetPort: web}]", ""},
		{"type: Loadbalancer", "spec.type: must be one of ClusterIP"},
		{"type: [a]", "spec.type: must be a string, got a list"},
	})
	checkInvalid(t, "networking.istio.io/v1", "ServiceEntry", []invalid{
		{"hosts: [a.b], ports: [{number: 80, name: http}]", ""},
		{"", "spec.hosts: must have at least one item"},
		{"hosts: ['*']", `spec.hosts[0]: must not be "*"`},
		{"hosts: [a_b]", "spec.hosts[0]: must be a host name"},
		{"hosts: [a], addresses: [x]", "spec.addresses[0]: must be an IP address or a block"},
		{"hosts: [a], ports: [{number: 80}]", "spec.ports[0].name: must be set"},
		{"hosts: [a], ports: [{number: 0, name: a}]", "spec.ports[0].number: must be between"},
		{"hosts: [a], ports: [{number: 1, name: a}, {number: 1, name: b}]", "spec.ports[1]: the port's name and number must be unique"},
		{"hosts: [a], resolution: STATIC, endpoints: [{address: b.example.com}]", "spec.endpoints[0].address: must be an IP address with resolution STATIC"},
		{"hosts: [a], resolution: DNS, endpoints: [{address: b.example.com, ports: {http: 0}}]", "spec.endpoints[0].ports[http]: must be between"},
		{"hosts: [a], endpoints: [{address: 10.0.0.1}]", "spec.endpoints: must be empty with resolution NONE"},
		{"hosts: [a], resolution: STATIC, workloadSelector: {labels: {a: b}}, endpoints: [{address: 10.0.0.1}]", "spec: must have only one of"},
		{"hosts: ['*.a'], resolution: DNS", "spec.hosts[0]: must not have a wildcard"},
		{"hosts: [a], resolution: dns", "spec.resolution: must be one of NONE"},
		{"hosts: [a], host: b", "spec.host: unknown field"},
	})
	checkInvalid(t, "networking.istio.io/v1", "WorkloadEntry", []invalid{
		{"address: 10.0.0.1", ""},
		{"address: vm.example.com", ""},
		{"address: 'unix:///a'", "spec.address: a UNIX socket cannot be reached"},
		{"", `spec.address: must be a host name, got ""`},
	})
}

// TestDecode covers what is decided before validation.
func TestDecode(t *testing.T) {
	tests := []struct{ doc, key, fault string }{
		{"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: ignored}", "Namespace a", ""},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: a}", "Pod default/a", ""},
		{`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}`, "Pod b/a", ""},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: A}", "Pod default/A", ""}, // validation refuses the name
		{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}", "", ErrUnknownKind.Error()},
		{"apiVersion: v2\nkind: Pod\nmetadata: {name: a}", "", ErrUnknownKind.Error()},
		{"apiVersion: v1\nkind: Pod\nmetadata: {}", "", "Pod: metadata.name must be set"},
		{"kind: Pod\nmetadata: {name: a}", "", "not a Kubernetes object: it needs apiVersion and kind"},
		{"- a", "", "not a Kubernetes object"},
		{"a: [", "", "not YAML"},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nmetadata: {name: b}", "", "not YAML"},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodename: x}", "", "Pod default/a: spec.nodename: unknown field"},
		{
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "x", "nodeName": "y"}}`, "",
			"Pod default/a: spec.nodeName: duplicate field",
		},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: 1}}", "", "Pod default/a: metadata.labels[a]: must be a string, got a number"},
	}
	for _, tt := range tests {
		obj, err := Decode([]byte(tt.doc))
		switch {
		case tt.fault != "":
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("Decode(%q) gives error %v, want %q", tt.doc, err, tt.fault)
			}
		case err != nil:
			t.Errorf("Decode(%q): %v", tt.doc, err)
		case KeyOf(obj).String() != tt.key:
			t.Errorf("Decode(%q) is %s, want %s", tt.doc, KeyOf(obj), tt.key)
		}
	}
}
