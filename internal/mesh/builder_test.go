package mesh

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

const ourKey = "default/waypoint.default.svc.cluster.local"

func gateway() *GatewaySpec {
	return &GatewaySpec{
		Key: ourKey,
		Gateway: Gateway{
			Namespace: "default", Name: "waypoint",
			ServesServices: true, ServesWorkloads: true,
			Trust: identity.Trust{Domain: "cluster.local"},
		},
	}
}

// service makes an attached service with ports 80 (HTTP) and 90 (TCP).
func service(namespace, name string, vip string) *ServiceSpec {
	host := name + "." + namespace + ".svc.cluster.local"
	s := &ServiceSpec{
		Key: namespace + "/" + host, Name: name, Namespace: namespace, Hostname: host,
		Waypoints: []string{ourKey},
		Ports:     []PortSpec{{80, "http", HTTP1}, {90, "tcp", TCP}},
	}
	if vip != "" {
		s.VIPs = []netip.Addr{netip.MustParseAddr(vip)}
	}
	return s
}

func pod(name, addr string, services ...string) *WorkloadSpec {
	w := &WorkloadSpec{
		UID: "Kubernetes//Pod/default/" + name, Namespace: "default", Name: name,
		Addrs: []netip.Addr{netip.MustParseAddr(addr)}, Ready: true,
		Serves: make(map[string][]PortMapping),
	}
	for _, key := range services {
		w.Serves[key] = []PortMapping{{80, 8080}, {90, 9090}}
	}
	return w
}

// routeTo makes an HTTPRoute with one rule, named by the route.
func routeTo(namespace, name string, parents ...RouteParent) *RouteSpec {
	r := &RouteSpec{Type: HTTPRoute, Namespace: namespace, Name: name, Parents: parents}
	r.Rules = []route.Rule{{Route: r.Object(), Name: "0"}}
	return r
}

func policyFor(namespace, name string, targets ...PolicyTarget) *PolicySpec {
	return &PolicySpec{Policy: authz.Policy{Namespace: namespace, Name: name}, Targets: targets}
}

func built(parts ...Part) *Snapshot {
	b := NewBuilder(new(Store))
	for _, p := range parts {
		b.Set(p)
	}
	return b.Publish()
}

// shown writes the endpoints of a port as "addr:port addr:port".
func shown(p *Port) string {
	var s []string
	for _, ep := range p.Endpoints {
		if ep.Hostname != "" {
			s = append(s, fmt.Sprintf("%s:%d", ep.Hostname, ep.Addr.Port()))
		} else {
			s = append(s, ep.Addr.String())
		}
	}
	return strings.Join(s, " ")
}

func TestJoinInAnyOrder(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	parts := []Part{
		gateway(), svc, pod("a", "10.1.0.1", svc.Key), pod("b", "10.1.0.2", svc.Key),
		routeTo("default", "r", RouteParent{Service: svc.Key}), policyFor("default", "p", PolicyTarget{Service: svc.Key}),
	}
	for shift := range parts {
		snap := built(slices.Concat(parts[shift:], parts[:shift])...)
		found, port := snap.VIP(netip.MustParseAddrPort("10.0.0.1:80"))
		if found == nil || found != snap.Services[svc.Key] || !found.Attached {
			t.Fatalf("from part %d on: address leads to %+v", shift, found)
		}
		if got, want := shown(port), "10.1.0.1:8080 10.1.0.2:8080"; got != want {
			t.Errorf("from part %d on: endpoints %q, want %q", shift, got, want)
		}
		if port.Routes == nil || port.HTTPAuthz == nil || port.TCPAuthz == nil {
			t.Errorf("from part %d on: routes %v, policies %v %v", shift, port.Routes, port.HTTPAuthz, port.TCPAuthz)
		}
		if _, port := snap.Host(svc.Hostname, 90); port == nil || port.Protocol != TCP {
			t.Errorf("from part %d on: host and port lead to %v", shift, port)
		}
		if snap.Workloads[netip.MustParseAddr("10.1.0.2")].Name != "b" {
			t.Errorf("from part %d on: workload address leads to %v", shift, snap.Workloads)
		}
	}
}

func TestLookUpNothing(t *testing.T) {
	for name, snap := range map[string]*Snapshot{"before": new(Store).Load(), "after": built(service("a", "b", "10.0.0.1"))} {
		if svc, port := snap.VIP(netip.MustParseAddrPort("10.0.0.9:80")); svc != nil || port != nil {
			t.Errorf("%s: unknown address leads to %v %v", name, svc, port)
		}
	}
	svc, port := built(service("a", "b", "10.0.0.1")).VIP(netip.MustParseAddrPort("10.0.0.1:81"))
	if svc == nil || port != nil {
		t.Errorf("unknown port leads to %v %v", svc, port)
	}
}

func TestEndpoints(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	tests := []struct {
		name    string
		service func(*ServiceSpec)
		pod     func(*WorkloadSpec)
		want    string
	}{
		{name: "ready", want: "10.1.0.1:8080"},
		{name: "not ready", pod: func(w *WorkloadSpec) { w.Ready = false }},
		{
			name: "not ready but asked for", service: func(s *ServiceSpec) { s.AllowUnready = true },
			pod: func(w *WorkloadSpec) { w.Ready = false }, want: "10.1.0.1:8080",
		},
		{name: "no capacity", pod: func(w *WorkloadSpec) { w.Unpicked = true }},
		{name: "serves another port", pod: func(w *WorkloadSpec) { w.Serves[svc.Key] = []PortMapping{{90, 1}} }},
		{name: "serves another service", pod: func(w *WorkloadSpec) { w.Serves = map[string][]PortMapping{"x/y": {{80, 1}}} }},
		{name: "no address", pod: func(w *WorkloadSpec) { w.Addrs = nil }},
		{
			name: "host name", pod: func(w *WorkloadSpec) { w.Addrs, w.Hostname = nil, "db.example.com" },
			want: "db.example.com:8080",
		},
		{
			name: "first of two families", want: "[fd00::1]:8080",
			pod: func(w *WorkloadSpec) { w.Addrs = addrs("fd00::1", "10.1.0.1") },
		},
		{
			name: "family of the service", want: "10.1.0.1:8080",
			service: func(s *ServiceSpec) { s.Families = IPv4Only },
			pod:     func(w *WorkloadSpec) { w.Addrs = addrs("fd00::1", "10.1.0.1") },
		},
		{
			name:    "other family than the service",
			service: func(s *ServiceSpec) { s.Families = IPv6Only },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc, w := service("default", "reviews", "10.0.0.1"), pod("a", "10.1.0.1", svc.Key)
			if tt.service != nil {
				tt.service(svc)
			}
			if tt.pod != nil {
				tt.pod(w)
			}
			port := built(svc, w).Services[svc.Key].Port(80)
			if got := shown(port); got != tt.want {
				t.Errorf("endpoints %q, want %q", got, tt.want)
			}
			if notReady := port.NotReady == 1; notReady != (tt.name == "not ready") {
				t.Errorf("%d not ready", port.NotReady)
			}
		})
	}
}

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestAttachment(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	tests := []struct {
		name              string
		change            func(*GatewaySpec, *ServiceSpec, *WorkloadSpec)
		service, workload bool
	}{
		{"both named", func(*GatewaySpec, *ServiceSpec, *WorkloadSpec) {}, true, true},
		{"serves services", func(g *GatewaySpec, _ *ServiceSpec, _ *WorkloadSpec) { g.ServesWorkloads = false }, true, false},
		{"serves workloads", func(g *GatewaySpec, _ *ServiceSpec, _ *WorkloadSpec) { g.ServesServices = false }, false, true},
		{"another gateway", func(g *GatewaySpec, _ *ServiceSpec, _ *WorkloadSpec) { g.Key = "x/y" }, false, false},
		{"one of several", func(_ *GatewaySpec, s *ServiceSpec, _ *WorkloadSpec) { s.Waypoints = []string{"x/y", ourKey} }, true, true},
		{"none", func(_ *GatewaySpec, s *ServiceSpec, w *WorkloadSpec) { s.Waypoints, w.Waypoints = nil, nil }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, svc, w := gateway(), service("default", "reviews", "10.0.0.1"), pod("a", "10.1.0.1", svc.Key)
			w.Waypoints = []string{ourKey}
			tt.change(g, svc, w)
			snap := built(svc, w, g)
			if s := snap.Services[svc.Key]; s.Attached != tt.service || (s.Port(80).HTTPAuthz != nil) != tt.service {
				t.Errorf("service attached: %v, want %v", s.Attached, tt.service)
			}
			if w := snap.Workloads[w.Addrs[0]]; w.Attached != tt.workload || (w.TCPAuthz != nil) != tt.workload {
				t.Errorf("workload attached: %v, want %v", w.Attached, tt.workload)
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	young := service("default", "young", "10.0.0.1")
	young.Created = time.Unix(2, 0)
	old := service("default", "old", "10.0.0.1")
	old.Created = time.Unix(1, 0)
	foreign := service("abroad", "foreign", "10.0.0.1")
	unattached := service("default", "aside", "10.0.0.1")
	unattached.Waypoints = nil
	tests := []struct {
		name  string
		specs []*ServiceSpec
		want  string
	}{
		{"older", []*ServiceSpec{young, old}, "old"},
		{"own namespace before age", []*ServiceSpec{foreign, young}, "young"},
		{"attached before all", []*ServiceSpec{unattached, foreign}, "foreign"},
		{"by key", []*ServiceSpec{service("default", "b", "10.0.0.1"), service("default", "a", "10.0.0.1")}, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				slices.Reverse(tt.specs)
				b := NewBuilder(new(Store))
				for _, s := range tt.specs {
					b.Set(s)
				}
				b.Set(gateway()) // decides last
				snap := b.Publish()
				if got := snap.VIPs[netip.MustParseAddr("10.0.0.1")].Name; got != tt.want {
					t.Errorf("%s has the address, want %s", got, tt.want)
				}
				if len(snap.Conflicts) != 1 || snap.Conflicts[0].Object != "address 10.0.0.1" {
					t.Errorf("conflicts: %v", snap.Conflicts)
				}
				b.Remove(Key{ServiceKind, snap.VIPs[netip.MustParseAddr("10.0.0.1")].Key})
				if snap := b.Publish(); len(snap.VIPs) != 1 || len(snap.Conflicts) != 0 {
					t.Errorf("after the winner left: %v, conflicts %v", snap.VIPs, snap.Conflicts)
				}
			}
		})
	}
}

func TestWorkloadAddress(t *testing.T) {
	gone, fresh := pod("a", "10.1.0.1"), pod("b", "10.1.0.1")
	gone.Ready = false
	node := pod("0", "10.1.0.1")
	node.HostNetwork = true
	snap := built(gone, fresh, node)
	if got := snap.Workloads[fresh.Addrs[0]].Name; got != "b" {
		t.Errorf("%s has the address, want b, which is ready", got)
	}
}

func TestUntouchedIsTheSame(t *testing.T) {
	b := NewBuilder(new(Store))
	b.Set(gateway())
	var keys []string
	for i := range 500 {
		svc := service("default", fmt.Sprint("s", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		keys = append(keys, svc.Key)
		b.Set(svc)
		b.Set(pod(fmt.Sprint("p", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250), svc.Key))
		b.Set(routeTo("default", fmt.Sprint("r", i), RouteParent{Service: svc.Key}))
	}
	everyones := policyFor("default", "everyone", PolicyTarget{})
	b.Set(everyones)
	was := b.Publish()
	tests := []struct {
		name   string
		change func()
		want   int // services built anew
	}{
		{"nothing", func() {}, 0},
		{"route", func() { b.Set(routeTo("default", "r7", RouteParent{Service: keys[7]})) }, 1},
		{"route moves", func() { b.Set(routeTo("default", "r7", RouteParent{Service: keys[8]})) }, 2},
		{"policy", func() { b.Set(policyFor("default", "p", PolicyTarget{Service: keys[7]})) }, 1},
		{"policy leaves", func() { b.Remove(Key{PolicyKind, "default/p"}) }, 1},
		{"pod", func() { b.Set(pod("p7", "10.2.0.1", keys[7], keys[9])) }, 2},
		{"new service", func() { b.Set(service("default", "new", "10.9.0.1")) }, 1},
		{"service leaves", func() { b.Remove(Key{ServiceKind, keys[0]}) }, 0},
		{"policy of a namespace that has nothing", func() { b.Set(policyFor("x", "p", PolicyTarget{Namespace: "x"})) }, 0},
		{"policy of everyone", func() { b.Set(policyFor("default", "everyone", PolicyTarget{})) }, 500},
	}
	for _, tt := range tests {
		tt.change()
		is := b.Publish()
		fresh := 0
		for key, svc := range is.Services {
			if svc != was.Services[key] {
				fresh++
			}
		}
		if fresh != tt.want {
			t.Errorf("%s: %d services built anew, want %d", tt.name, fresh, tt.want)
		}
		was = is
	}
}

func TestCompiledIsShared(t *testing.T) {
	one, two := service("default", "one", "10.0.0.1"), service("default", "two", "10.0.0.2")
	r := routeTo("default", "r", RouteParent{Service: one.Key})
	b := NewBuilder(new(Store))
	for _, p := range []Part{gateway(), one, two, r, policyFor("default", "p", PolicyTarget{})} {
		b.Set(p)
	}
	was := b.Publish()
	if was.Services[one.Key].Port(80).HTTPAuthz != was.Services[two.Key].Port(90).HTTPAuthz {
		t.Error("the same policies were compiled twice")
	}
	b.Set(pod("a", "10.1.0.1", one.Key))
	is := b.Publish()
	before, after := was.Services[one.Key].Port(80), is.Services[one.Key].Port(80)
	if before == after || before.Routes != after.Routes || before.TCPAuthz != after.TCPAuthz {
		t.Error("a new endpoint made routes or policies compile anew")
	}
	b.Set(routeTo("default", "r", RouteParent{Service: one.Key}))
	b.Publish()
	if len(b.routes) != 1 || len(b.engines) != 1 {
		t.Errorf("%d tables and %d engines are remembered, want those in use: 1 and 1", len(b.routes), len(b.engines))
	}
}

func TestLoadIsCarriedOver(t *testing.T) {
	one, two := service("default", "one", "10.0.0.1"), service("default", "two", "10.0.0.2")
	b := NewBuilder(new(Store))
	b.Set(one)
	b.Set(two)
	b.Set(pod("a", "10.1.0.1", one.Key, two.Key))
	load := func() *Load { return b.Publish().Services[one.Key].Port(80).Endpoints[0].Load }
	first := load()
	first.InFlight.Add(1)
	if b.store.Load().Services[two.Key].Port(80).Endpoints[0].Load != first {
		t.Error("two services have two loads for one address and port")
	}
	key := pod("a", "10.1.0.1").PartKey()
	b.Remove(key)
	b.Set(pod("a", "10.1.0.1", one.Key))
	if load() != first {
		t.Error("load is lost when the workload is replaced")
	}
	b.Set(pod("a", "10.1.0.2", one.Key))
	if load() == first {
		t.Error("load of another address is kept")
	}
	if n := len(b.workloads["Kubernetes//Pod/default/a"].loads); n != 2 {
		t.Errorf("%d loads are held, want 2: ports 8080 and 9090", n)
	}
}

func TestStoreTellsSubscribers(t *testing.T) {
	var store Store
	b := NewBuilder(&store)
	var versions []string
	cancel := store.Subscribe(func(was, is *Snapshot) {
		if store.Load() != is {
			t.Error("told before it is in force")
		}
		versions = append(versions, fmt.Sprint(was.Version, ">", is.Version))
	})
	b.Publish() // the first is published even if it is empty
	b.Publish()
	b.Set(gateway())
	b.Publish()
	cancel()
	b.Reject("x", "y")
	b.Publish()
	if want := []string{"0>1", "1>2"}; !slices.Equal(versions, want) {
		t.Errorf("told of %v, want %v", versions, want)
	}
}

func TestRejected(t *testing.T) {
	b := NewBuilder(new(Store))
	bad := routeTo("default", "bad")
	bad.Rejected = "no such field"
	worse := policyFor("default", "worse", PolicyTarget{})
	worse.Policy.Invalid = "no such action"
	b.Set(bad)
	b.Set(worse)
	b.Reject("Service default/x", "old version stays")
	want := []Problem{
		{"AuthorizationPolicy default/worse", "no such action"},
		{"HTTPRoute default/bad", "no such field"},
		{"Service default/x", "old version stays"},
	}
	if got := b.Publish().Rejected; !slices.Equal(got, want) {
		t.Errorf("rejected %v, want %v", got, want)
	}
	b.Remove(bad.PartKey())
	b.Set(policyFor("default", "worse", PolicyTarget{}))
	b.Reject("Service default/x", "")
	if got := b.Publish().Rejected; len(got) != 0 {
		t.Errorf("rejected %v, want none", got)
	}
}
