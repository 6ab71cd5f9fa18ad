package stories

import (
	"strings"
	"testing"
)

const denied = "CONNECT 10.0.0.1:9090 was answered 403"

// DENY comes before ALLOW, from whatever target; ALLOW policies add up; AUDIT and
// dry runs decide nothing.
func TestPolicyActions(t *testing.T) {
	get, all := to("methods: [GET]"), "{}"
	fromShop := from("namespaces: [shop]")
	for _, tt := range []struct {
		name, policies string
		rows           []expectation
	}{
		{"no policy", "", []expectation{{"open", call{}, want{}}}},
		{"ALLOW without rules", policyOn("Service echo", "none", "prod", "ALLOW", ""), []expectation{
			{"denied", call{}, want{status: 403, app: "none"}},
			{"elsewhere", call{to: "echo-v1/"}, want{}},
		}},
		{"DENY before ALLOW", policyOn("Service echo", "all", "prod", "ALLOW", all) + policyOn("Service echo", "not-shop", "prod", "DENY", fromShop), []expectation{
			{"allowed", call{}, want{}}, {"denied", call{from: "shop/web"}, want{status: 403, app: "none"}},
		}},
		{"ALLOW policies add up", policyOn("Service echo", "one", "prod", "ALLOW", get) + policyOn("Service echo", "two", "prod", "ALLOW", fromShop), []expectation{
			{"one", call{}, want{}}, {"two", call{from: "shop/web", method: "PUT"}, want{}}, {"neither", call{method: "PUT"}, want{status: 403}},
		}},
		{"the Gateway's and the Service's add up", policyOn("Gateway waypoint", "wide", "prod", "ALLOW", get) + policyOn("Service echo", "narrow", "prod", "ALLOW", fromShop), []expectation{
			{"by the Gateway's", call{}, want{}},
			{"by the Service's", call{from: "shop/web", method: "PUT"}, want{}},
			{"elsewhere only the Gateway's", call{to: "echo-v1/", from: "shop/web", method: "PUT"}, want{status: 403}},
			{"elsewhere", call{to: "echo-v1/"}, want{}},
		}},
		{"DENY on the Gateway", policyOn("Gateway waypoint", "wide", "prod", "DENY", fromShop) + policyOn("Service echo", "narrow", "prod", "ALLOW", all), []expectation{
			{"denied", call{from: "shop/web"}, want{status: 403}}, {"everywhere", call{to: "echo-v2/", from: "shop/web"}, want{status: 403}}, {"others", call{}, want{}},
		}},
		{"AUDIT decides nothing", policyOn("Service echo", "look", "prod", "AUDIT", all), []expectation{{"open", call{}, want{}}}},
		{"CUSTOM is denied until there is an authorizer", policyOn("Service echo", "ask", "prod", "CUSTOM\n  provider: {name: opa}", to("paths: [/guarded]")), []expectation{
			{"matched", call{to: "echo/guarded"}, want{status: 403, app: "none"}}, {"not matched", call{}, want{}},
		}},
		{"a DENY on a token that nobody brings", policyOn("Service echo", "jwt", "prod", "DENY", from(`notRequestPrincipals: ["*"]`)), []expectation{
			{"denied", call{}, want{status: 403}}, {"with a token too", call{headers: "authorization: Bearer x.y.z"}, want{status: 403}},
		}},
		{"GatewayClass, from the root namespace alone", policyOn("GatewayClass waypoint", "root", "istio-system", "ALLOW", "") + policyOn("GatewayClass waypoint", "not-root", "prod", "DENY", all), []expectation{
			{"denied", call{}, want{status: 403}}, {"everywhere", call{to: "echo-v1/"}, want{status: 403}},
		}},
		{"a policy of another namespace reaches nothing here", policyOn("Service echo", "foreign", "consumer", "DENY", all) + policyOn("Gateway waypoint", "foreign-gateway", "consumer", "DENY", all) + policyOn("GatewayClass waypoint", "foreign-class", "consumer", "DENY", all), []expectation{
			{"open", call{}, want{}},
		}},
		{"policy before routes", policyOn("Service echo", "p", "prod", "DENY", to("paths: [/a]")) + meshRoute("HTTPRoute", "r", "prod", "name: echo", prefixed("/a", redirect("statusCode: 302"))), []expectation{
			{"denied, not redirected", call{to: "echo/a"}, want{status: 403}}, {"no match is not told apart by policy", call{to: "echo/b"}, want{status: 404}}, {"below", call{to: "echo/a/b"}, want{status: 302}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newTown(t, tt.policies, nil).expect(tt.rows)
		})
	}
}

// A default deny for all waypoints of a class: every request 403, every TCP and
// TLS connection refused, nothing dialled.
func TestPolicyDefaultDeny(t *testing.T) {
	w := newTown(t, policyOn("GatewayClass waypoint", "default-deny", "istio-system", "ALLOW", ""), nil)
	for _, to := range []string{"echo", "echo-v1", "echo:8080"} {
		w.check(call{to: to}, w.send(call{to: to + "/"}), want{status: 403, app: "none"})
	}
	if got := w.firstLine("prod/client", "echo:9090"); got != denied {
		t.Errorf("TCP: %s", got)
	}
	if got := w.hello("prod/client", "echo:443", "a.example"); got != "no handshake" {
		t.Errorf("TLS: %s", got)
	}
	if got := echoOnce(w.client.GRPC(w.wp.Addr, vipOf("echo:7070")), "/a.B/C"); got != "PermissionDenied" {
		t.Errorf("gRPC: %s", got)
	}
	for pod, node := range w.nodes {
		if n := node.Accepted(); n != 0 {
			t.Errorf("%s had %d tunnels", pod, n)
		}
	}
}

// Who was denied hears no reasons; log and metrics have them.
func TestPolicyDenialIsTold(t *testing.T) {
	w := newTown(t, policyOn("Service echo", "keep-out", "prod", "DENY", from("namespaces: [shop]")), nil)
	a := w.send(call{from: "shop/web", method: "POST", body: "secret"})
	if a.status != 403 || a.body != "access denied" || strings.Contains(a.body, "keep-out") {
		t.Errorf("status %d, body %q", a.status, a.body)
	}
	entry := w.entry(a)
	for key, want := range map[string]any{
		"response_code": 403.0, "response_flags": nil, "policy": "prod/keep-out", "upstream_host": nil,
		"response_code_details": "rbac_access_denied_matched_policy[ns[prod]-policy[keep-out]-rule[0]]", "source_principal": "spiffe://cluster.local/ns/shop/sa/web",
	} {
		if entry[key] != want {
			t.Errorf("access log: %s is %v, want %v", key, entry[key], want)
		}
	}
	if n := w.metric("istio_requests_total", `response_code="403"`, `source_principal="spiffe://cluster.local/ns/shop/sa/web"`, `destination_service_name="echo"`); n != 1 {
		t.Errorf("%v requests were counted as denied", n)
	}
	// The connection lives on, and so does the tunnel.
	w.check(call{}, w.send(call{}), want{})
}

// gRPC is denied in trailers alone.
func TestPolicyDenialOfGRPC(t *testing.T) {
	w := newTown(t, policyOn("Service echo", "keep-out", "prod", "DENY", to("paths: [/shop.Cart/Add]")), nil)
	c := call{to: "echo:7070/shop.Cart/Add", method: "POST", headers: "content-type: application/grpc | te: trailers", body: "\x00\x00\x00\x00\x00", h2c: true}
	a := w.send(c)
	w.check(c, a, want{status: 200, app: "none", sent: "grpc-status: 7 | content-type: application/grpc"})
	if a.body != "" || len(a.trailer) != 0 {
		t.Errorf("not trailers-only: %q %v", a.body, a.trailer)
	}
	conn := w.stage.client.GRPC(w.wp.Addr, vipOf("echo:7070"))
	if got := echoOnce(conn, "/shop.Cart/Add"); got != "PermissionDenied" {
		t.Errorf("grpc-go says %s", got)
	}
	if got := echoOnce(conn, "/shop.Cart/List"); !strings.HasPrefix(got, "echo-v") {
		t.Errorf("another method on the connection: %s", got)
	}
	if n := w.metric("istio_requests_total", `grpc_response_status="7"`, `request_protocol="grpc"`); n != 2 {
		t.Errorf("%v requests were counted with grpc status 7", n)
	}
}

// A dry run is reported and not enforced.
func TestPolicyDryRun(t *testing.T) {
	policy := replaceOnce(policyOn("Service echo", "try", "prod", "DENY", from("namespaces: [shop]")), "metadata: {", `metadata: {annotations: {istio.io/dry-run: "true"}, `)
	w := newTown(t, policy, nil)
	for who, want := range map[string]string{"shop/web": "prod/try=denied", "prod/client": "prod/try=allowed"} {
		a := w.send(call{from: who})
		w.check(call{}, a, wantApp)
		if got := w.entry(a)["dry_run"]; got != want {
			t.Errorf("%s: dry run %v, want %s", who, got, want)
		}
	}
}

var wantApp = want{status: 200}

// Every field that a TCP port knows; what only HTTP knows keeps an ALLOW rule from
// matching, and is left out of a DENY rule. Nothing is dialled for what is denied.
func TestPolicyTCP(t *testing.T) {
	for _, tt := range []struct {
		name, action, rule string
		allowed, denied    []string
	}{
		{"principals", "ALLOW", from(`principals: ["cluster.local/ns/shop/sa/web"]`), []string{"shop/web"}, []string{"prod/client"}},
		{"namespaces", "DENY", from("namespaces: [shop]"), []string{"prod/client"}, []string{"shop/web"}},
		{"serviceAccounts", "ALLOW", from("serviceAccounts: [client]"), []string{"prod/client"}, []string{"shop/client"}},
		{"ipBlocks", "ALLOW", from("ipBlocks: [127.0.0.2]"), []string{"prod/client@127.0.0.2"}, []string{"prod/client@127.0.0.3"}},
		{"notIpBlocks", "DENY", from("notIpBlocks: [127.0.0.2]"), []string{"prod/client@127.0.0.2"}, []string{"prod/client@127.0.0.3"}},
		{"remoteIpBlocks are the peer's", "ALLOW", from("remoteIpBlocks: [127.0.0.2]"), []string{"prod/client@127.0.0.2"}, []string{"prod/client"}},
		{"ports", "ALLOW", to(`ports: ["9090"]`), []string{"prod/client"}, nil},
		{"other ports", "ALLOW", to(`ports: ["80"]`), nil, []string{"prod/client"}},
		{"destination.port", "DENY", when("destination.port", `values: ["9090"]`), nil, []string{"prod/client"}},
		{"source.ip", "ALLOW", when("source.ip", "values: [127.0.0.2]"), []string{"prod/client@127.0.0.2"}, []string{"prod/client"}},
		{"ALLOW with HTTP fields never matches", "ALLOW", to("methods: [GET]"), nil, []string{"prod/client"}},
		{"ALLOW with hosts never matches", "ALLOW", `{from: [{source: {namespaces: [prod]}}], to: [{operation: {hosts: [echo]}}]}`, nil, []string{"prod/client"}},
		{"ALLOW with a header never matches", "ALLOW", when("request.headers[x-a]", "values: [b]"), nil, []string{"prod/client"}},
		{"DENY is applied without its HTTP fields", "DENY", `{from: [{source: {namespaces: [shop]}}], to: [{operation: {paths: ["/admin"]}}]}`, []string{"prod/client"}, []string{"shop/web"}},
		{"DENY of HTTP fields alone denies all", "DENY", to("methods: [DELETE]"), nil, []string{"prod/client"}},
		{"ALLOW of an HTTP rule beside an L4 rule", "ALLOW", to("methods: [GET]") + ", " + from("namespaces: [shop]"), []string{"shop/web"}, []string{"prod/client"}},
		{"CUSTOM", "CUSTOM\n  provider: {name: opa}", "{}", nil, []string{"prod/client"}},
		{"AUDIT", "AUDIT", "{}", []string{"prod/client"}, nil},
		{"no rules", "ALLOW", "", nil, []string{"prod/client"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTown(t, policyOn("Service echo", "p", "prod", tt.action, tt.rule), nil)
			for _, who := range tt.denied {
				if got := w.firstLine(who, "echo:9090"); got != denied {
					t.Errorf("%s: %s", who, got)
				}
			}
			for pod, node := range w.nodes {
				if n := len(node.Connects()); n != 0 {
					t.Errorf("%s was dialled %d times for what is denied", pod, n)
				}
			}
			for _, who := range tt.allowed {
				if got := w.firstLine(who, "echo:9090"); !strings.HasPrefix(got, "echo-v") {
					t.Errorf("%s: %s", who, got)
				}
			}
		})
	}
}

// On TLS ports the CONNECT has its 200 before the server name is known, by which
// policies may decide.
func TestPolicySNI(t *testing.T) {
	w := newTown(t, policyOn("Service echo", "p", "prod", "ALLOW", when("connection.sni", `values: ["*.example"]`)), nil)
	for name, want := range map[string]bool{"a.example": true, "example": false, "a.example.com": false} {
		if got := w.hello("prod/client", "echo:443", name); strings.HasSuffix(got, " "+name) != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The metric and the log of a connection that was denied.
func TestPolicyTCPDenialIsTold(t *testing.T) {
	w := newTown(t, policyOn("Service echo", "p", "prod", "ALLOW", ""), nil)
	if got := w.firstLine("shop/web", "echo:9090"); got != denied {
		t.Fatal(got)
	}
	entry := w.logLine(func(line map[string]any) bool { return line["response_code"] == 403.0 })
	if entry["source_principal"] != "spiffe://cluster.local/ns/shop/sa/web" || entry["upstream_host"] != nil || entry["downstream_local_address"] != "10.0.0.1:9090" {
		t.Errorf("access log: %v", entry)
	}
}
