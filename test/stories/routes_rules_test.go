package stories

import (
	"strings"
	"testing"
)

// leadsTo is a rule for a path prefix that leads to a pod's Service.
func leadsTo(prefix, pod string) string { return prefixed(prefix, "", toPod(pod)) }

// matching is a rule with one match of any kind.
func matching(match, pod string) string {
	return "{matches: [{" + match + "}], backendRefs: [" + toPod(pod) + "]}"
}

// The order of rules by what they match, as HTTPRouteRule.matches has it. Each
// pair of rules stands in both orders, so that nothing is decided by chance.
func TestRulePrecedence(t *testing.T) {
	for name, tt := range map[string]struct{ better, worse, to, headers, method string }{
		"exact before a longer prefix":      {"path: {type: Exact, value: /a/b}", "path: {type: PathPrefix, value: /a/b}", "echo/a/b", "", ""},
		"exact before regular expression":   {"path: {type: Exact, value: /a/b}", `path: {type: RegularExpression, value: "/a/.*"}`, "echo/a/b", "", ""},
		"the longer prefix":                 {"path: {type: PathPrefix, value: /a/b}", "path: {type: PathPrefix, value: /a}, method: GET, headers: [{name: x, value: v}]", "echo/a/b", "x: v", ""},
		"a method":                          {"path: {type: PathPrefix, value: /a}, method: POST", "path: {type: PathPrefix, value: /a}, headers: [{name: x, value: v}, {name: z, value: v}]", "echo/a", "x: v | z: v", "POST"},
		"more headers":                      {"headers: [{name: x, value: v}, {name: z, value: v}]", "headers: [{name: x, value: v}], queryParams: [{name: q, value: v}, {name: r, value: v}]", "echo/a?q=v&r=v", "x: v | z: v", ""},
		"more query parameters":             {"queryParams: [{name: q, value: v}, {name: r, value: v}]", "queryParams: [{name: q, value: v}]", "echo/a?q=v&r=v", "", ""},
		"the prefix, its slash not counted": {"path: {type: PathPrefix, value: /ab}", "path: {type: PathPrefix, value: /}", "echo/ab", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTown(t, meshRoute("HTTPRoute", "one", "prod", "name: echo, port: 80", matching(tt.better, "echo-v1")+", "+matching(tt.worse, "echo-v2"))+
				meshRoute("HTTPRoute", "two", "prod", "name: echo, port: 8080", matching(tt.worse, "echo-v2")+", "+matching(tt.better, "echo-v1")), nil)
			for _, port := range []string{"echo", "echo:8080"} {
				c := call{to: port + tt.to[len("echo"):], headers: tt.headers, method: tt.method}
				w.check(c, w.send(c), want{app: "echo-v1"})
			}
		})
	}
}

// dated is a route made at a time.
func dated(name, created, parent, rules string) string {
	const head = "metadata: {name: "
	route := meshRoute("HTTPRoute", name, "prod", parent, rules)
	return replaceOnce(route, head, `metadata: {creationTimestamp: "`+created+`", name: `)
}

// Ties between routes: the oldest wins, then the first by name; within a route the
// first rule.
func TestRouteTies(t *testing.T) {
	w := newTown(t,
		dated("b-older", "2024-01-01T00:00:00Z", "name: echo", leadsTo("/age", "echo-v1"))+
			dated("a-younger", "2025-01-01T00:00:00Z", "name: echo", leadsTo("/age", "echo-v2")+", "+leadsTo("/more", "echo-v2"))+
			dated("d-same", "2025-06-01T00:00:00Z", "name: echo", leadsTo("/name", "echo-v2"))+
			dated("c-same", "2025-06-01T00:00:00Z", "name: echo", leadsTo("/name", "echo-v1")+", "+leadsTo("/name", "echo-v2")), nil)
	w.expect([]expectation{
		{"oldest", call{to: "echo/age"}, want{app: "echo-v1"}},
		{"the younger one still counts", call{to: "echo/more"}, want{app: "echo-v2"}},
		{"first by name", call{to: "echo/name"}, want{app: "echo-v1"}},
	})
}

// GEP-1294, and what else the conformance suite's mesh tests leave out.
func TestMeshRouting(t *testing.T) {
	for _, tt := range []struct {
		name   string
		routes string
		rows   []expectation
	}{
		{"no match is 404 and never the Service itself", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/a", "echo-v1")), []expectation{
			{"match", call{to: "echo/a/b"}, want{app: "echo-v1"}},
			{"no match", call{to: "echo/b"}, want{status: 404, app: "none", sent: "server: waypoint"}},
			{"not a segment", call{to: "echo/ab"}, want{status: 404, app: "none"}},
		}},
		{"a route without matches takes everything", meshRoute("HTTPRoute", "r", "prod", "name: echo", "{backendRefs: ["+toPod("echo-v2")+"]}"), []expectation{
			{"anything", call{to: "echo/x/y?z", method: "DELETE"}, want{app: "echo-v2", target: "/x/y?z", method: "DELETE"}},
		}},
		{"hostnames say nothing under a Service", withHostnames(meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/", "echo-v2")), "only.example"), []expectation{
			{"another host", call{to: "echo/", host: "echo.prod"}, want{app: "echo-v2"}},
			{"that host", call{to: "echo/", host: "only.example"}, want{app: "echo-v2"}},
		}},
		{"consumer routes replace the producer's", meshRoute("HTTPRoute", "producer", "prod", "name: echo", leadsTo("/producer", "echo-v1")+", "+leadsTo("/both", "echo-v1")) +
			meshRoute("HTTPRoute", "consumer", "consumer", "name: echo", leadsTo("/consumer", "echo-v2")+", "+leadsTo("/both", "echo-v2")), []expectation{
			{"the producer's clients", call{to: "echo/producer"}, want{app: "echo-v1"}},
			{"do not see the consumer's", call{to: "echo/consumer"}, want{status: 404}},
			{"have their own", call{to: "echo/both"}, want{app: "echo-v1"}},
			{"the consumer", call{to: "echo/consumer", from: "consumer/client"}, want{app: "echo-v2"}},
			{"does not see the producer's", call{to: "echo/producer", from: "consumer/client"}, want{status: 404}},
			{"replaces", call{to: "echo/both", from: "consumer/client"}, want{app: "echo-v2"}},
			{"a third namespace", call{to: "echo/both", from: "third/client"}, want{app: "echo-v1"}},
			{"a third namespace sees no consumer's", call{to: "echo/consumer", from: "third/client"}, want{status: 404}},
		}},
		{"backends in other namespaces need no grant under a Service", otherNamespace + meshRoute("HTTPRoute", "r", "prod", "name: echo", "{backendRefs: [{name: other, namespace: other, port: 80}]}"), []expectation{
			{"across", call{to: "echo/"}, want{app: "echo-v2"}},
		}},
		{"a route of another namespace cannot take the producer's clients", meshRoute("HTTPRoute", "thief", "third", "name: echo", leadsTo("/", "echo-v2")) + meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/", "echo-v1")), []expectation{
			{"prod", call{to: "echo/"}, want{app: "echo-v1"}},
			{"consumer", call{to: "echo/", from: "consumer/client"}, want{app: "echo-v1"}},
			{"third", call{to: "echo/", from: "third/client"}, want{app: "echo-v2"}},
		}},
		{"a backend's own routes do not run", meshRoute("HTTPRoute", "front", "prod", "name: echo", leadsTo("/", "echo-v1")) + meshRoute("HTTPRoute", "back", "prod", "name: echo-v1", "{filters: ["+redirect("statusCode: 302, hostname: loop.example")+"]}"), []expectation{
			{"front", call{to: "echo/"}, want{app: "echo-v1"}},
			{"back", call{to: "echo-v1/"}, want{status: 302, location: "http://loop.example/"}},
		}},
		{"methods", meshRoute("HTTPRoute", "r", "prod", "name: echo", matching("method: POST", "echo-v1")+", "+matching("method: GET", "echo-v2")), []expectation{
			{"POST", call{to: "echo/", method: "POST"}, want{app: "echo-v1"}},
			{"GET", call{to: "echo/", method: "GET"}, want{app: "echo-v2"}},
			{"DELETE", call{to: "echo/", method: "DELETE"}, want{status: 404}},
			{"HEAD is not GET", call{to: "echo/", method: "HEAD"}, want{status: 404}},
		}},
		{"regular expressions match the whole", meshRoute("HTTPRoute", "r", "prod", "name: echo",
			matching(`path: {type: RegularExpression, value: "/v[0-9]+"}`, "echo-v1")+", "+
				matching(`headers: [{type: RegularExpression, name: x-user, value: "[a-z]+"}]`, "echo-v2")+", "+
				matching(`queryParams: [{type: RegularExpression, name: id, value: "[0-9]{2}"}]`, "echo-v2")), []expectation{
			{"path", call{to: "echo/v12"}, want{app: "echo-v1"}},
			{"more path", call{to: "echo/v12/x"}, want{status: 404}},
			{"less path", call{to: "echo/x/v12"}, want{status: 404}},
			{"header", call{to: "echo/", headers: "x-user: joe"}, want{app: "echo-v2"}},
			{"more header", call{to: "echo/", headers: "x-user: joe1"}, want{status: 404}},
			{"query", call{to: "echo/?id=12"}, want{app: "echo-v2"}},
			{"more query", call{to: "echo/?id=123"}, want{status: 404}},
		}},
		{"all values of a header count", meshRoute("HTTPRoute", "r", "prod", "name: echo", matching("headers: [{name: x-role, value: \"a,b\"}]", "echo-v1")), []expectation{
			{"one line", call{to: "echo/", headers: "x-role: a,b"}, want{app: "echo-v1"}},
			{"two lines", call{to: "echo/", headers: "x-role: a | x-role: b"}, want{app: "echo-v1"}},
			{"the first alone", call{to: "echo/", headers: "x-role: a"}, want{status: 404}},
		}},
		{"the first of two like query parameters counts", meshRoute("HTTPRoute", "r", "prod", "name: echo", matching("queryParams: [{name: q, value: a}]", "echo-v1")), []expectation{
			{"first", call{to: "echo/?q=a&q=b"}, want{app: "echo-v1"}},
			{"second", call{to: "echo/?q=b&q=a"}, want{status: 404}},
			{"escaped", call{to: "echo/?%71=%61"}, want{app: "echo-v1", target: "/?%71=%61"}},
		}},
		{"a section is a port's name", meshRoute("HTTPRoute", "r", "prod", "name: echo, sectionName: http-alt", leadsTo("/", "echo-v2")), []expectation{
			{"that port", call{to: "echo:8080/"}, want{app: "echo-v2"}},
			{"a backend without routes of its own", call{to: "echo-v1:8080/"}, want{app: "echo-v1"}},
		}},
		{"a Service without endpoints may be routed", strings.Replace(townService("other", "app: nobody"), "selector: {app: nobody}", "selector: {}", 1) + meshRoute("HTTPRoute", "r", "prod", "name: other", leadsTo("/", "echo-v2")), []expectation{
			{"routed", call{to: "other/"}, want{app: "echo-v2"}},
		}},
		{"an ExternalName is no backend", externalName + meshRoute("HTTPRoute", "r", "prod", "name: echo", "{backendRefs: [{name: elsewhere, port: 80}]}"), []expectation{
			{"500", call{to: "echo/"}, want{status: 500, app: "none"}},
		}},
		{"paths have one form", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/admin", "echo-v1")), []expectation{
			{"dots", call{to: "echo/x/../admin"}, want{app: "echo-v1", target: "/admin"}},
			{"escaped dots", call{to: "echo/x/%2e%2E/admin/./y"}, want{app: "echo-v1", target: "/admin/y"}},
			{"slashes", call{to: "echo//admin//x"}, want{app: "echo-v1", target: "/admin/x"}},
			{"escaped letters", call{to: "echo/%61dmin"}, want{app: "echo-v1", target: "/admin"}},
			{"an escaped slash is none", call{to: "echo/admin%2Fx"}, want{status: 404}},
			{"beyond the root", call{to: "echo/../../admin"}, want{app: "echo-v1", target: "/admin"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newTown(t, tt.routes, nil).expect(tt.rows)
		})
	}
}

const externalName = `
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere, namespace: prod}
spec: {type: ExternalName, externalName: example.com, ports: [{port: 80}]}
`

// withHostnames adds hostnames to a route.
func withHostnames(route, names string) string {
	return replaceOnce(route, "spec:\n", "spec:\n  hostnames: ["+names+"]\n")
}

// otherNamespace has a Service that leads to echo-v2's pod.
const otherNamespace = `
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: other}
spec: {clusterIP: 10.0.1.1, clusterIPs: [10.0.1.1], ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: other-1, namespace: other, labels: {kubernetes.io/service-name: other}}
addressType: IPv4
endpoints: [{addresses: [127.66.0.22], conditions: {ready: true}, targetRef: {kind: Pod, name: echo-v2, namespace: prod}}]
ports: [{name: http, port: 8080}]
`
