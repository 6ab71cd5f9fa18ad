package decide

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

var client = identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "client"}

// fixture is a mesh of services a (attached, 10.0.0.1), b (known, 10.0.0.2) and c
// (attached, no address), with ports 80 and 8080 each, and workloads at 10.1.0.1
// (attached) and 10.1.0.2.
func fixture() *mesh.Snapshot {
	snap := &mesh.Snapshot{
		Gateway:  mesh.Gateway{ServesServices: true, ServesWorkloads: true},
		Services: map[string]*mesh.Service{}, VIPs: map[netip.Addr]*mesh.Service{}, Hosts: map[string]*mesh.Service{},
		Workloads: map[netip.Addr]*mesh.Workload{},
	}
	for name, addr := range map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": ""} {
		host := name + ".default.svc.cluster.local"
		svc := &mesh.Service{Key: "default/" + host, Name: name, Namespace: "default", Hostname: host, Attached: name != "b"}
		for _, number := range []uint16{80, 8080} {
			svc.Ports = append(svc.Ports, &mesh.Port{Service: svc, Number: number, Protocol: mesh.HTTP1, HTTPAuthz: engine(true), TCPAuthz: engine(false)})
		}
		if addr != "" {
			svc.VIPs = []netip.Addr{netip.MustParseAddr(addr)}
			snap.VIPs[svc.VIPs[0]] = svc
		}
		snap.Services[svc.Key], snap.Hosts[host] = svc, svc
	}
	for addr, attached := range map[string]bool{"10.1.0.1": true, "10.1.0.2": false} {
		a := netip.MustParseAddr(addr)
		snap.Workloads[a] = &mesh.Workload{Namespace: "default", Name: "w", Addrs: []netip.Addr{a}, Attached: attached, HTTPAuthz: engine(true), TCPAuthz: engine(false)}
	}
	return snap
}

func engine(http bool, policies ...authz.Policy) *authz.Engine {
	e, err := authz.Compile(policies, authz.Options{HTTP: http, Trust: identity.Trust{Domain: "cluster.local"}})
	if err != nil {
		panic(err)
	}
	return e
}

func table(rules ...route.Rule) *route.Table {
	t, err := route.NewTable(rules)
	if err != nil {
		panic(err)
	}
	return t
}

func key(name string) string { return "default/" + name + ".default.svc.cluster.local" }

func to(name string, port uint16) []route.Backend {
	return []route.Backend{{Service: key(name), Port: port, Weight: 1}}
}

func prefix(p string) []route.Match {
	return []route.Match{{Path: route.PathMatch{Kind: route.PathPrefix, Value: p}}}
}

func TestDestination(t *testing.T) {
	for _, tt := range []struct {
		name, target string
		change       func(*mesh.Snapshot)
		want         string // service port as "a:80", workload as its address, or a part of the error
		fails        bool
	}{
		{"a service by its address", "10.0.0.1:80", nil, "a:80", false},
		{"written as IPv6", "[::ffff:10.0.0.1]:8080", nil, "a:8080", false},
		{"a port that it does not have", "10.0.0.1:81", nil, "has no port 81", true},
		{"a service that is not ours", "10.0.0.2:80", nil, "service " + key("b") + " does not use this waypoint", true},
		{"an address of nobody", "169.254.169.254:80", nil, "no address of a service or workload", true},
		{"a workload", "10.1.0.1:9999", nil, "10.1.0.1:9999", false},
		{"a workload that is not ours", "10.1.0.2:80", nil, "does not use this waypoint", true},
		{"a workload, for services only", "10.1.0.1:80", func(s *mesh.Snapshot) { s.Gateway.ServesWorkloads = false }, "serves services only", true},
		{"a service, for workloads only", "10.0.0.1:80", func(s *mesh.Snapshot) { s.Gateway.ServesServices = false }, "serves workloads only", true},
		{"nothing is known", "10.0.0.1:80", func(s *mesh.Snapshot) { *s = mesh.Snapshot{} }, "is known here", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := fixture()
			if tt.change != nil {
				tt.change(snap)
			}
			d, err := Address(snap, netip.MustParseAddrPort(tt.target))
			checkDestination(t, d, err, tt.want, tt.fails)
		})
	}
}

func TestHost(t *testing.T) {
	for _, tt := range []struct {
		host  string
		port  uint16
		want  string
		fails bool
	}{
		{"a.default.svc.cluster.local", 80, "a:80", false},
		{"A.Default.svc.cluster.local.", 80, "a:80", false},
		{"c.default.svc.cluster.local", 80, "c:80", false},
		{"c.default.svc.cluster.local", 81, "has no port 81", true},
		{"b.default.svc.cluster.local", 80, "does not use this waypoint", true},
		{"example.com", 443, `the host name "example.com"`, true},
	} {
		d, err := Host(fixture(), tt.host, tt.port)
		checkDestination(t, d, err, tt.want, tt.fails)
		if !tt.fails && d.Dialled.Port() != tt.port {
			t.Errorf("%s: policies would see port %d, not %d", tt.host, d.Dialled.Port(), tt.port)
		}
	}
}

func checkDestination(t *testing.T, d Destination, err error, want string, fails bool) {
	t.Helper()
	var refused *NotServed
	if fails {
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", d, err, want)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := d.Dialled.String()
	if d.Port != nil {
		got = fmt.Sprintf("%s:%d", d.Port.Service.Name, d.Dialled.Port())
		if d.Port.Number != d.Dialled.Port() || d.Endpoint != nil || d.Workload != nil {
			t.Errorf("%+v", d)
		}
	} else if d.Endpoint == nil || d.Endpoint.Addr != d.Dialled || d.Endpoint.Load == nil || d.Workload == nil || d.Protocol() != mesh.Sniff || d.Service() != nil {
		t.Errorf("%+v", d)
	}
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestHTTP has one port with certain routes, and says where requests for it go:
// a service port as "a:80", or a status.
func TestHTTP(t *testing.T) {
	r := func(p string, backends []route.Backend, filters ...route.Filter) route.Rule {
		return route.Rule{Route: "HTTPRoute default/r", Name: p, Matches: prefix(p), Backends: backends, Filters: filters}
	}
	broken := r("/broken", to("b", 80))
	broken.Invalid = "not supported"
	grpc := table(route.Rule{Matches: []route.Match{{GRPC: &route.GRPCMatch{Service: "foo.Bar"}}}, Backends: to("c", 80)})
	web := table(
		r("/b", to("b", 80)), broken, r("/nothing", nil), r("/zero", []route.Backend{{Service: key("b"), Port: 80}}),
		r("/gone", to("x", 80)), r("/port", to("b", 81)), r("/bad", []route.Backend{{Weight: 1, Invalid: "no grant"}}),
		r("/redirect", nil, &route.Redirect{Status: 301}),
	)
	other := &mesh.Routes{HTTP: table(r("/", to("c", 8080)))}
	consumer := map[string]*mesh.Routes{"shop": other}
	stranger := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "x"}
	for _, tt := range []struct {
		name   string
		routes *mesh.Routes
		peer   identity.ID
		path   string
		grpc   bool
		want   string
	}{
		{"no routes: straight to the port", nil, client, "/x", false, "a:80"},
		{"routes for TLS only are none", &mesh.Routes{TLS: new(route.SNITable)}, client, "/x", false, "a:80"},
		{"a rule", &mesh.Routes{HTTP: web}, client, "/b/x", false, "b:80"},
		{"no rule matches", &mesh.Routes{HTTP: web}, client, "/x", false, "404 NR route_not_found"},
		{"a rejected rule", &mesh.Routes{HTTP: web}, client, "/broken", false, "500 NR route_rejected"},
		{"a rule without backends", &mesh.Routes{HTTP: web}, client, "/nothing", false, "500 NR route_without_backend"},
		{"a rule without weights", &mesh.Routes{HTTP: web}, client, "/zero", false, "500 NR route_without_backend"},
		{"a backend that does not exist", &mesh.Routes{HTTP: web}, client, "/gone", false, "500 NC backend_not_found"},
		{"a backend's port that does not exist", &mesh.Routes{HTTP: web}, client, "/port", false, "500 NC backend_not_found"},
		{"a backend that may not be used", &mesh.Routes{HTTP: web}, client, "/bad", false, "500 NC backend_not_valid"},
		{"a redirect needs no backend", &mesh.Routes{HTTP: web}, client, "/redirect", false, "filter"},
		{"gRPC asks GRPCRoutes first", &mesh.Routes{HTTP: other.HTTP, GRPC: grpc}, client, "/foo.Bar/Login", true, "c:80"},
		{"gRPC asks HTTPRoutes next", &mesh.Routes{HTTP: other.HTTP, GRPC: grpc}, client, "/x.Y/Login", true, "c:8080"},
		{"others do not ask GRPCRoutes", &mesh.Routes{HTTP: web, GRPC: grpc}, client, "/foo.Bar/Login", false, "404 NR route_not_found"},
		{"gRPC without a match", &mesh.Routes{GRPC: grpc}, client, "/x.Y/Login", true, "404 NR route_not_found"},
		{"routes of the client's namespace replace the service's", &mesh.Routes{HTTP: web}, stranger, "/b", false, "c:8080"},
		{"and are there without", nil, stranger, "/b", false, "c:8080"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := fixture()
			d, err := Address(snap, netip.MustParseAddrPort("10.0.0.1:80"))
			if err != nil {
				t.Fatal(err)
			}
			d.Port.Routes, d.Port.Consumer = tt.routes, consumer
			v := HTTP(snap, &d, &Request{Caller: Caller{Peer: tt.peer}, Method: "GET", Path: tt.path, GRPC: tt.grpc}, 1<<31)
			if got := outcome(v); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if (v.Rule == nil) != (v.Match == nil) {
				t.Errorf("a rule without its match: %+v", v)
			}
		})
	}
}

// outcome writes a verdict as tables have it.
func outcome(v Verdict) string {
	switch {
	case v.Reply != nil:
		return fmt.Sprintf("%d %s %s", v.Reply.Status, v.Reply.Flags, v.Reply.Details)
	case v.Port != nil:
		return fmt.Sprintf("%s:%d", v.Port.Service.Name, v.Port.Number)
	case v.Rule != nil:
		return "filter"
	}
	return "workload"
}

func deny(rules ...authz.Rule) authz.Policy {
	return authz.Policy{Namespace: "default", Name: "p", Action: authz.Deny, Rules: rules}
}

func TestPolicyComesFirst(t *testing.T) {
	snap := fixture()
	d, err := Address(snap, netip.MustParseAddrPort("10.0.0.1:80"))
	if err != nil {
		t.Fatal(err)
	}
	d.Port.Routes = &mesh.Routes{HTTP: table()}
	d.Port.HTTPAuthz = engine(true, deny(authz.Rule{To: []authz.Operation{{Paths: []string{"/admin"}}}}))
	const details = "rbac_access_denied_matched_policy[ns[default]-policy[p]-rule[0]]"
	v := HTTP(snap, &d, &Request{Caller: Caller{Peer: client}, Method: "GET", Path: "/admin"}, 0)
	if v.Authz.Allowed || outcome(v) != "403 - "+details || v.Reply.GRPC != 7 || strings.Contains(v.Reply.Body, "default") {
		t.Errorf("%+v %+v", v, v.Reply)
	}
	if v := HTTP(snap, &d, &Request{Caller: Caller{Peer: client}, Method: "GET", Path: "/x"}, 0); !v.Authz.Allowed || outcome(v) != "404 NR route_not_found" {
		t.Errorf("%+v", v)
	}
}

// TestFacts gives policies that look at one fact each, and denies by it.
func TestFacts(t *testing.T) {
	addr := netip.MustParseAddr
	for name, when := range map[string]authz.Condition{
		"peer":      {Key: "source.principal", Values: []string{"cluster.local/ns/default/sa/client"}},
		"address":   {Key: "source.ip", Values: []string{"10.1.0.9"}},
		"remote":    {Key: "remote.ip", Values: []string{"192.0.2.1"}},
		"dialled":   {Key: "destination.ip", Values: []string{"10.0.0.1"}},
		"port":      {Key: "destination.port", Values: []string{"80"}},
		"sni":       {Key: "connection.sni", Values: []string{"db"}},
		"not there": {Key: "source.ip", NotValues: []string{"192.0.2.1"}},
	} {
		snap := fixture()
		d, err := Address(snap, netip.MustParseAddrPort("10.0.0.1:80"))
		if err != nil {
			t.Fatal(err)
		}
		p := deny(authz.Rule{When: []authz.Condition{when}})
		d.Port.HTTPAuthz, d.Port.TCPAuthz = engine(true, p), engine(false, p)
		c := Caller{Peer: client, Addr: addr("10.1.0.9"), Remote: addr("192.0.2.1"), SNI: "db"}
		if Connection(&d, &c).Allowed || Allow(&d, &Request{Caller: c}).Allowed {
			t.Errorf("%s: not seen", name)
		}
	}
	d := Destination{Port: &mesh.Port{TCPAuthz: engine(false, deny(authz.Rule{When: []authz.Condition{{Key: "remote.ip", Values: []string{"10.1.0.9"}}}}))}}
	if Connection(&d, &Caller{Addr: addr("10.1.0.9")}).Allowed {
		t.Error("without a trusted hop the client is not the tunnel's peer")
	}
}

func TestWorkload(t *testing.T) {
	snap := fixture()
	d, err := Address(snap, netip.MustParseAddrPort("10.1.0.1:80"))
	if err != nil {
		t.Fatal(err)
	}
	if v := HTTP(snap, &d, &Request{Caller: Caller{Peer: client}}, 0); outcome(v) != "workload" || v.Port != nil {
		t.Errorf("%+v", v)
	}
	d.Workload.HTTPAuthz, d.Workload.TCPAuthz = engine(true, deny(authz.Rule{})), nil
	if v := HTTP(snap, &d, &Request{Caller: Caller{Peer: client}}, 0); v.Reply == nil || v.Reply.Status != 403 {
		t.Errorf("%+v", v)
	}
	if Connection(&d, &Caller{}).Allowed {
		t.Error("allowed without policies having been compiled")
	}
}

func TestStreams(t *testing.T) {
	sni, err := route.NewSNITable([]route.Rule{{Hosts: []string{"b.example"}, Backends: to("b", 80)}})
	if err != nil {
		t.Fatal(err)
	}
	tcp := &route.Rule{Backends: to("c", 80)}
	for _, tt := range []struct {
		name     string
		routes   *mesh.Routes
		sni      string
		tcp, tls string
	}{
		{"no routes", nil, "b.example", "a:80", "a:80"},
		{"HTTP routes say nothing of streams", &mesh.Routes{HTTP: table()}, "b.example", "a:80", "a:80"},
		{"TCPRoute", &mesh.Routes{TCP: tcp}, "b.example", "c:80", "c:80"},
		{"TLSRoute", &mesh.Routes{TLS: sni}, "b.example", "a:80", "b:80"},
		{"TLSRoute, another name", &mesh.Routes{TLS: sni}, "x.example", "a:80", "404 NR route_not_found"},
		{"TLSRoute before TCPRoute", &mesh.Routes{TLS: sni, TCP: tcp}, "b.example", "c:80", "b:80"},
		{"TCPRoute for other names", &mesh.Routes{TLS: sni, TCP: tcp}, "x.example", "c:80", "c:80"},
		{"a rejected TCPRoute", &mesh.Routes{TCP: &route.Rule{Invalid: "why"}}, "", "500 NR route_rejected", "500 NR route_rejected"},
	} {
		snap := fixture()
		d, err := Address(snap, netip.MustParseAddrPort("10.0.0.1:80"))
		if err != nil {
			t.Fatal(err)
		}
		d.Port.Routes = tt.routes
		c := &Caller{Peer: client, SNI: tt.sni}
		if got := outcome(TCP(snap, &d, c, 0)); got != tt.tcp {
			t.Errorf("%s: TCP to %s, want %s", tt.name, got, tt.tcp)
		}
		if got := outcome(TLS(snap, &d, c, 0)); got != tt.tls {
			t.Errorf("%s: TLS to %s, want %s", tt.name, got, tt.tls)
		}
	}
}

// hotPath is a destination with a policy and routes, and a request that both let
// through.
func hotPath(t testing.TB) (*mesh.Snapshot, Destination, Request) {
	snap := fixture()
	d, err := Address(snap, netip.MustParseAddrPort("10.0.0.1:80"))
	if err != nil {
		t.Fatal(err)
	}
	d.Port.HTTPAuthz = engine(true, authz.Policy{Namespace: "default", Name: "p", Rules: []authz.Rule{{
		From: []authz.Source{{Principals: []string{"cluster.local/ns/default/sa/client"}}},
		To:   []authz.Operation{{Methods: []string{"GET"}, Paths: []string{"/api/*"}}},
	}}})
	d.Port.Routes = &mesh.Routes{HTTP: table(
		route.Rule{Matches: prefix("/api"), Backends: append(to("b", 80), to("c", 80)...)},
		route.Rule{Matches: prefix("/"), Backends: to("b", 80)},
	)}
	return snap, d, Request{
		Caller: Caller{Peer: client, Addr: netip.MustParseAddr("10.1.0.9")}, Method: "GET", Host: "a:80", Path: "/api/x",
		Headers: []Field{{"user-agent", "curl"}},
	}
}

func TestHTTPAllocatesNothing(t *testing.T) {
	snap, d, r := hotPath(t)
	if n := testing.AllocsPerRun(100, func() { HTTP(snap, &d, &r, 7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { TCP(snap, &d, &r.Caller, 7); Connection(&d, &r.Caller) }); n != 0 {
		t.Errorf("%v allocations for a stream", n)
	}
	target := netip.MustParseAddrPort("10.0.0.1:80")
	if n := testing.AllocsPerRun(100, func() { _, _ = Address(snap, target) }); n != 0 {
		t.Errorf("%v allocations for a destination", n)
	}
}

func BenchmarkHTTP(b *testing.B) {
	snap, d, r := hotPath(b)
	b.ReportAllocs()
	for b.Loop() {
		if v := HTTP(snap, &d, &r, 7); v.Reply != nil {
			b.Fatal(v.Reply.Details)
		}
	}
}
