package stories

import (
	"strconv"
	"strings"
	"testing"
)

// gatewayRoute is an HTTPRoute whose parent is the Gateway itself.
func gatewayRoute(name, namespace, extra, rules string) string {
	return `
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec:
  parentRefs: [{name: waypoint, namespace: prod}]
` + extra + `
  rules: [` + rules + `]
`
}

const grant = `
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: from-prod, namespace: other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: prod}]
  to: [{group: "", kind: Service}]
`

// Routes whose parent is the Gateway: for every service that has none of its own,
// with hostnames, and with grants.
func TestGatewayParent(t *testing.T) {
	across := "{backendRefs: [{name: other, namespace: other, port: 80}]}"
	for _, tt := range []struct {
		name, routes string
		rows         []expectation
	}{
		{"for all services", gatewayRoute("all", "prod", "", leadsTo("/a", "echo-v2")), []expectation{
			{"echo", call{to: "echo/a"}, want{app: "echo-v2"}},
			{"echo-v1", call{to: "echo-v1/a"}, want{app: "echo-v2"}},
			{"no match", call{to: "echo-v1/b"}, want{status: 404}},
		}},
		{"routes of the Service come first", gatewayRoute("all", "prod", "", leadsTo("/", "echo-v2")) + meshRoute("HTTPRoute", "own", "prod", "name: echo-v1", leadsTo("/own", "echo-v1")), []expectation{
			{"the Service's", call{to: "echo-v1/own"}, want{app: "echo-v1"}},
			{"replaces the Gateway's", call{to: "echo-v1/x"}, want{status: 404}},
			{"others", call{to: "echo/x"}, want{app: "echo-v2"}},
		}},
		{"hostnames", gatewayRoute("hosts", "prod", "  hostnames: [a.example, \"*.b.example\"]", leadsTo("/", "echo-v2")) +
			gatewayRoute("rest", "prod", "", leadsTo("/", "echo-v1")), []expectation{
			{"exact", call{to: "echo/", host: "a.example"}, want{app: "echo-v2"}},
			{"any case, any port", call{to: "echo/", host: "A.Example:1234"}, want{app: "echo-v2"}},
			{"wildcard", call{to: "echo/", host: "x.y.b.example"}, want{app: "echo-v2"}},
			{"the wildcard's own name", call{to: "echo/", host: "b.example"}, want{app: "echo-v1"}},
			{"another", call{to: "echo/", host: "c.example"}, want{app: "echo-v1"}},
		}},
		{"across namespaces without a grant", otherNamespace + gatewayRoute("across", "prod", "", across), []expectation{
			{"500", call{to: "echo/"}, want{status: 500, app: "none"}},
		}},
		{"across namespaces with a grant", otherNamespace + grant + gatewayRoute("across", "prod", "", across), []expectation{
			{"200", call{to: "echo/"}, want{app: "echo-v2"}},
		}},
		{"from a namespace that is not allowed", gatewayRoute("foreign", "consumer", "", leadsTo("/", "echo-v2")), []expectation{
			{"not in effect", call{to: "echo-v1/"}, want{app: "echo-v1"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newTown(t, tt.routes, nil).expect(tt.rows)
		})
	}
}

// serviceEntry is a host outside of Kubernetes with one endpoint: the pod of
// echo-v2.
func serviceEntry(name, host, vip string, port int) string {
	return strings.NewReplacer("NAME", name, "HOST", host, "VIP", vip, "PORT", strconv.Itoa(port)).Replace(`
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: NAME, namespace: prod}
spec:
  hosts: [HOST]
  addresses: [VIP]
  ports: [{name: http, number: PORT, protocol: HTTP, targetPort: 8080}]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: 127.66.0.22, serviceAccount: echo-v2, labels: {networking.istio.io/tunnel: http}}]
`)
}

// A ServiceEntry is a destination, a parent of routes, and with kind Hostname a
// backend.
func TestServiceEntryParent(t *testing.T) {
	route := strings.Replace(meshRoute("HTTPRoute", "entry", "prod", "name: ext", prefixed("/marked",
		`{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-route, value: entry}]}}`, "{group: networking.istio.io, kind: Hostname, name: ext.example, port: 80}")+", "+leadsTo("/v1", "echo-v1")),
		`group: "", kind: Service`, "group: networking.istio.io, kind: ServiceEntry", 1)
	w := newTown(t, serviceEntry("ext", "ext.example", "10.0.2.1", 80)+serviceEntry("plain", "plain.example", "10.0.2.2", 80)+route, nil)
	w.expect([]expectation{
		{"without routes", call{to: "10.0.2.2/"}, want{app: "echo-v2"}},
		{"its route, to itself", call{to: "10.0.2.1/marked"}, want{app: "echo-v2", seen: "x-route: entry"}},
		{"its route, to a Service", call{to: "10.0.2.1/v1"}, want{app: "echo-v1"}},
		{"no match", call{to: "10.0.2.1/"}, want{status: 404}},
		{"by name", call{to: "plain.example/"}, want{app: "echo-v2"}},
	})
}

// ServiceEntries for one host, in two namespaces and on several ports: each port
// routes, by address and by name.
func TestServiceEntriesOfOneHost(t *testing.T) {
	base := replaceOnce(townBase, "protocol: HBONE}", "protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}")
	elsewhere := strings.NewReplacer("namespace: prod", "namespace: other", "127.66.0.22", "127.66.0.25").Replace(serviceEntry("three", "foo.example", "10.0.2.1", 450))
	w := newTownWithout(t)
	w.HTTP("elsewhere", w.Addr(25, 8080))
	w.NodeProxy(w.IP(25), "spiffe://cluster.local/ns/other/sa/echo-v2")
	w.start(base+serviceEntry("one", "foo.example", "10.0.2.1", 446)+serviceEntry("two", "foo.example", "10.0.2.1", 448)+`
---
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: prod}}
`+elsewhere, nil)
	for _, host := range []string{"10.0.2.1", "foo.example"} {
		for port, app := range map[string]string{":446/": "echo-v2", ":448/": "echo-v2", ":450/": "elsewhere"} {
			c := call{to: host + port}
			w.check(c, w.send(c), want{app: app})
		}
	}
}

// What is called is what is dialled: a pod's own address takes no routes of
// Services, a host name works as its address does.
func TestWhatIsCalled(t *testing.T) {
	routes := meshRoute("HTTPRoute", "marked", "prod", "name: echo-v2", markResponses("echo-v2"))
	t.Run("waypoint-for service", func(t *testing.T) {
		w := newTown(t, routes, nil)
		for _, target := range []string{w.Addr(22, 8080), "10.9.9.9:80", "10.0.0.1:81", "127.0.0.1:80", "169.254.169.254:80", "unknown.example:80", "echo.prod.svc.cluster.local:81"} {
			if status := w.refused(target); status != 404 {
				t.Errorf("CONNECT %s: %d, want 404", target, status)
			}
		}
		for pod, node := range w.nodes {
			if n := len(node.Connects()); n != 0 {
				t.Errorf("%s was dialled %d times", pod, n)
			}
		}
		w.expect([]expectation{
			{"host name", call{to: "echo-v2.prod.svc.cluster.local/"}, want{app: "echo-v2", sent: "x-header-set: yes"}},
			{"in any case, with a dot", call{to: "Echo-V2.prod.svc.Cluster.Local./"}, want{app: "echo-v2", sent: "x-header-set: yes"}},
		})
	})
	for _, kind := range []string{"workload", "all"} {
		t.Run("waypoint-for "+kind, func(t *testing.T) {
			w := newTownWithout(t)
			base := strings.Replace(townBase, "istio.io/waypoint-for: service", "istio.io/waypoint-for: "+kind, 1)
			w.start(base+routes, nil)
			c := call{to: w.Addr(22, 8080) + "/"}
			a := w.send(c)
			w.check(c, a, want{app: "echo-v2", sent: "x-header-set:"})
			if got := w.entry(a); got["destination_service"] != nil || got["route_name"] != nil || got["destination_workload"] != "echo-v2" {
				t.Errorf("access log: service %v, route %v, workload %v", got["destination_service"], got["route_name"], got["destination_workload"])
			}
		})
	}
}
