package stories

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// policyOn is an AuthorizationPolicy with one target, "Kind name", and rules as
// YAML of the flow style. action may have more fields of the spec behind it.
func policyOn(target, name, namespace, action, rules string) string {
	kind, ref, _ := strings.Cut(target, " ")
	group := map[string]string{"Service": `""`, "ServiceEntry": "networking.istio.io", "Gateway": "gateway.networking.k8s.io", "GatewayClass": "gateway.networking.k8s.io"}[kind]
	return fmt.Sprintf(`
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: %s, namespace: %s}
spec:
  targetRefs: [{group: %s, kind: %s, name: %s}]
  action: %s
  rules: [%s]
`, name, namespace, group, kind, ref, action, rules)
}

func from(source string) string { return "{from: [{source: {" + source + "}}]}" }
func to(operation string) string {
	return "{to: [{operation: {" + operation + "}}]}"
}
func when(key, more string) string { return "{when: [{key: \"" + key + "\", " + more + "}]}" }

// Every field of a rule, over HTTP: what matches is allowed by an ALLOW policy and
// denied by a DENY one, and what does not the other way round.
func TestPolicyFields(t *testing.T) {
	trust := func(o *app.Options) {
		o.TrustedHops = []identity.ID{{TrustDomain: "cluster.local", Namespace: "gateways", ServiceAccount: "ingress"}}
	}
	const client, shop = "prod/client", "shop/web"
	rows := []struct {
		name, rule      string
		match, mismatch []call
	}{
		{"principals", from(`principals: ["cluster.local/ns/shop/sa/web"]`), []call{{from: shop}}, []call{{}, {from: "shop/web2"}}},
		{"principals by prefix", from(`principals: ["cluster.local/ns/shop/*"]`), []call{{from: shop}, {from: "shop/other"}}, []call{{}, {from: "shops/web"}}},
		{"principals by suffix", from(`principals: ["*/sa/web"]`), []call{{from: shop}, {from: "x/web"}}, []call{{}, {from: "shop/aweb"}}},
		{"any principal", from(`principals: ["*"]`), []call{{from: shop}, {}}, nil},
		{"notPrincipals", from(`notPrincipals: ["cluster.local/ns/shop/sa/web"]`), []call{{}}, []call{{from: shop}}},
		{"namespaces", from(`namespaces: [shop]`), []call{{from: shop}}, []call{{}, {from: "shops/web"}}},
		{"namespaces by prefix", from(`namespaces: ["sh*"]`), []call{{from: shop}, {from: "shops/web"}}, []call{{}}},
		{"notNamespaces", from(`notNamespaces: [shop]`), []call{{}}, []call{{from: shop}}},
		{"serviceAccounts", from(`serviceAccounts: [shop/web, client]`), []call{{from: shop}, {from: client}}, []call{{from: "shop/client"}, {from: "prod/web"}}},
		{"notServiceAccounts", from(`notServiceAccounts: [shop/web]`), []call{{}, {from: "prod/web"}}, []call{{from: shop}}},
		{"trustDomains", from(`trustDomains: [cluster.local]`), []call{{}}, nil},
		{"notTrustDomains", from(`notTrustDomains: [cluster.local]`), nil, []call{{}}},
		{"ipBlocks", from(`ipBlocks: [127.0.0.2/32, 10.0.0.0/8]`), []call{{from: client + "@127.0.0.2"}}, []call{{}, {from: client + "@127.0.0.3"}, {from: client + "@127.0.0.3", headers: "x-forwarded-for: 127.0.0.2"}}},
		{"notIpBlocks", from(`notIpBlocks: [127.0.0.2/31]`), []call{{}, {from: client + "@127.0.0.4"}}, []call{{from: client + "@127.0.0.2"}, {from: client + "@127.0.0.3"}}},
		{"remoteIpBlocks without a trusted hop", from(`remoteIpBlocks: [127.0.0.2]`), []call{{from: client + "@127.0.0.2"}, {from: client + "@127.0.0.2", headers: "x-forwarded-for: 9.9.9.9"}}, []call{{}, {headers: "x-forwarded-for: 127.0.0.2"}}},
		{
			"remoteIpBlocks behind a trusted hop", from(`remoteIpBlocks: [203.0.113.0/24]`),
			[]call{{from: "gateways/ingress", headers: "x-forwarded-for: 1.1.1.1, 203.0.113.9"}, {from: "gateways/ingress", headers: "x-forwarded-for: 1.1.1.1 | x-forwarded-for: 203.0.113.9"}},
			[]call{{headers: "x-forwarded-for: 203.0.113.9"}, {from: "gateways/ingress", headers: "x-forwarded-for: 203.0.113.9, 1.1.1.1"}, {from: "gateways/ingress", headers: "x-forwarded-for: 203.0.113.9, rubbish"}, {from: "gateways/ingress"}},
		},
		{"notRemoteIpBlocks", from(`notRemoteIpBlocks: [203.0.113.0/24]`), []call{{}, {headers: "x-forwarded-for: 203.0.113.9"}}, []call{{from: "gateways/ingress", headers: "x-forwarded-for: 203.0.113.9"}}},
		{"a source's fields together", from(`namespaces: [shop], ipBlocks: [127.0.0.2]`), []call{{from: shop + "@127.0.0.2"}}, []call{{from: shop}, {from: client + "@127.0.0.2"}}},
		{"sources are alternatives", `{from: [{source: {namespaces: [shop]}}, {source: {serviceAccounts: [client]}}]}`, []call{{from: shop}, {}}, []call{{from: "prod/other"}}},

		{"hosts", to(`hosts: [a.example, "*.b.example"]`), []call{{host: "a.example"}, {host: "A.EXAMPLE"}, {host: "x.b.example"}}, []call{{}, {host: "b.example"}, {host: "a.example.evil"}}},
		{"hosts with a port", to(`hosts: ["a.example:80"]`), []call{{host: "a.example:80"}}, []call{{host: "a.example:81"}}},
		{"notHosts", to(`notHosts: [a.example]`), []call{{}}, []call{{host: "a.Example"}}},
		{"ports", to(`ports: ["8080"]`), []call{{to: "echo:8080/"}}, []call{{to: "echo/"}}},
		{"notPorts", to(`notPorts: ["8080"]`), []call{{to: "echo/"}}, []call{{to: "echo:8080/"}}},
		{"methods", to(`methods: [GET, HEAD]`), []call{{}, {method: "HEAD"}}, []call{{method: "POST"}, {method: "get"}}},
		{"methods by prefix", to(`methods: ["P*"]`), []call{{method: "PUT"}, {method: "POST"}}, []call{{}}},
		{"notMethods", to(`notMethods: [DELETE]`), []call{{}}, []call{{method: "DELETE"}}},
		{
			"paths", to(`paths: [/health, "/api/*", "*.css"]`),
			[]call{{to: "echo/health"}, {to: "echo/health?x=1"}, {to: "echo/api/"}, {to: "echo/api/x/y"}, {to: "echo/s/main.css"}, {to: "echo/x/../health"}, {to: "echo//health"}},
			[]call{{to: "echo/health%3Fx=1"}, {to: "echo/health/"}, {to: "echo/api"}, {to: "echo/main.css2"}, {to: "echo/?/health"}},
		},
		{
			"path templates", to(`paths: ["/users/{*}/orders", "/files/{**}"]`),
			[]call{{to: "echo/users/joe/orders"}, {to: "echo/files/"}, {to: "echo/files/a/b/c"}},
			[]call{{to: "echo/users/joe/x/orders"}, {to: "echo/users//orders"}, {to: "echo/users/joe/orders/"}, {to: "echo/filesx"}},
		},
		{"path templates with more", to(`paths: ["/t/{*}/x/{**}"]`), []call{{to: "echo/t/a/x/y/z"}}, []call{{to: "echo/t/x/y"}}},
		{"notPaths", to(`notPaths: ["/admin*"]`), []call{{}, {to: "echo/x/admin"}}, []call{{to: "echo/admin"}, {to: "echo/x/..//admin/y"}, {to: "echo/%61dmin"}}},
		{"any path", to(`paths: ["*"]`), []call{{}, {to: "echo/x"}}, nil},
		{"an operation's fields together", to(`methods: [GET], paths: [/a]`), []call{{to: "echo/a"}}, []call{{to: "echo/a", method: "POST"}, {to: "echo/b"}}},
		{"operations are alternatives", `{to: [{operation: {methods: [PUT]}}, {operation: {paths: [/a]}}]}`, []call{{to: "echo/a"}, {method: "PUT"}}, []call{{to: "echo/b"}}},

		{"request.headers", when("request.headers[X-Role]", "values: [admin, \"op*\"]"), []call{{headers: "x-role: admin"}, {headers: "X-ROLE: operator"}}, []call{{}, {headers: "x-role: admins"}, {headers: "x-role: "}}},
		{"request.headers without values", when("request.headers[x-role]", "notValues: [admin]"), []call{{}, {headers: "x-role: user"}}, []call{{headers: "x-role: admin"}}},
		{"request.headers present", when("request.headers[x-role]", "values: [\"*\"]"), []call{{headers: "x-role: x"}}, []call{{}}},
		{"source.ip", when("source.ip", "values: [127.0.0.2]"), []call{{from: client + "@127.0.0.2"}}, []call{{}}},
		{"remote.ip", when("remote.ip", "values: [203.0.113.9]"), []call{{from: "gateways/ingress", headers: "x-forwarded-for: 203.0.113.9"}}, []call{{headers: "x-forwarded-for: 203.0.113.9"}}},
		{"source.namespace", when("source.namespace", "values: [shop]"), []call{{from: shop}}, []call{{}}},
		{"source.serviceAccount", when("source.serviceAccount", "values: [shop/web]"), []call{{from: shop}}, []call{{}}},
		{"source.trustDomain", when("source.trustDomain", "notValues: [cluster.local]"), nil, []call{{}}},
		{"source.principal", when("source.principal", "values: [cluster.local/ns/shop/sa/web]"), []call{{from: shop}}, []call{{}}},
		{"destination.ip", when("destination.ip", "values: [10.0.4.0/23]"), []call{{}}, nil},
		{"another destination.ip", when("destination.ip", "values: [10.0.1.0/24]"), nil, []call{{}}},
		{"destination.port", when("destination.port", "values: [\"8080\"]"), []call{{to: "echo:8080/"}}, []call{{}}},
		{
			"from, to and when together", `{from: [{source: {namespaces: [shop]}}], to: [{operation: {methods: [GET]}}], when: [{key: "request.headers[x-a]", values: [b]}]}`,
			[]call{{from: shop, headers: "x-a: b"}},
			[]call{{headers: "x-a: b"}, {from: shop}, {from: shop, method: "PUT", headers: "x-a: b"}},
		},
		{"no tokens: request.auth.principal", when("request.auth.principal", "values: [\"*\"]"), nil, []call{{}, {headers: "authorization: Bearer eyJhbGciOiJub25lIn0.e30."}}},
		{"no tokens: requestPrincipals", from(`requestPrincipals: ["*"]`), nil, []call{{}}},
		{"no tokens: notRequestPrincipals", from(`notRequestPrincipals: ["*"]`), []call{{}}, nil},
		{"the empty rule", "{}", []call{{}, {from: shop}}, nil},
	}
	// Each row has two Services to itself: one with the rule in an ALLOW policy, one in a DENY policy.
	actions := []string{"ALLOW", "DENY"}
	vip := func(row, action int) string { return fmt.Sprintf("10.0.%d.%d", 4+action, row+1) }
	manifests := ""
	for i, row := range rows {
		for j, action := range actions {
			name := fmt.Sprintf("row-%d-%s", i, strings.ToLower(action))
			manifests += strings.ReplaceAll(townService("echo", "app: echo"), vips["echo"], vip(i, j))
			manifests = strings.Replace(manifests, "{name: echo, namespace: prod}", "{name: "+name+", namespace: prod}", 1)
			manifests += policyOn("Service "+name, name, "prod", action, row.rule)
		}
	}
	w := newTown(t, manifests, trust)
	for i, row := range rows {
		for j, action := range actions {
			for k, calls := range [][]call{row.match, row.mismatch} {
				want := want{status: 403, app: "none"}
				if (k == 0) == (action == "ALLOW") {
					want.status, want.app = 200, ""
				}
				for _, c := range calls {
					c.to, c.host = vip(i, j)+strings.TrimPrefix(cmp.Or(c.to, "echo/"), "echo"), cmp.Or(c.host, "echo")
					if a := w.send(c); a.status != want.status {
						t.Errorf("%s, %s: %+v is answered %d", row.name, action, c, a.status)
					} else {
						w.check(c, a, want)
					}
				}
			}
		}
	}
}

// Every value of a header counts: DENY matches if any line, any member or the
// whole does, ALLOW only if the whole does (CVE-2026-26308, CVE-2026-31838).
func TestPolicyHeaderValues(t *testing.T) {
	rule := when("request.headers[x-role]", "values: [admin]")
	for _, action := range []string{"ALLOW", "DENY"} {
		w := newTown(t, policyOn("Service echo", "p", "prod", action, rule), nil)
		for headers, matches := range map[string][2]bool{ // for ALLOW, for DENY
			"x-role: admin":                         {true, true},
			"x-role: user | x-role: admin":          {false, true},
			"x-role: admin | x-role: user":          {false, true},
			"x-role: user,admin":                    {false, true},
			"x-role: user, admin":                   {false, true},
			"x-role: user":                          {false, false},
			"x-role: Admin":                         {false, false},
			"x-role: admin | x-role:":               {false, true},
			"x-role: user ,admin, x | x-other: 1":   {false, true},
			"x-role: adm | x-role: in | x-role: us": {false, false},
		} {
			for _, h2c := range []bool{false, true} {
				match := matches[0]
				if action == "DENY" {
					match = matches[1]
				}
				c := call{headers: headers, h2c: h2c}
				want := want{status: 403, app: "none"}
				if match == (action == "ALLOW") {
					want.status, want.app = 200, ""
				}
				w.check(c, w.send(c), want)
			}
		}
	}
}
