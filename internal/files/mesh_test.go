package files

import (
	"net/netip"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// TestWholeMesh takes a whole mesh from its file to the decisions of one request.
func TestWholeMesh(t *testing.T) {
	var store mesh.Store
	s := New(Options{Path: "testdata/mesh.yaml"}, &store)
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	if len(s.Problems()) > 0 {
		t.Errorf("problems: %v", s.Problems())
	}
	svc, port := store.Load().VIP(netip.MustParseAddrPort("10.0.0.1:8080"))
	if svc == nil || port == nil || !svc.Attached || port.Protocol != mesh.HTTP1 {
		t.Fatalf("10.0.0.1:8080 is %+v, %+v", svc, port)
	}
	if len(port.Endpoints) != 1 {
		t.Fatalf("endpoints: %v", port.Endpoints)
	}
	want := identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "client"}
	ep := port.Endpoints[0]
	if ep.Addr != netip.MustParseAddrPort("127.66.0.21:8080") || !ep.Workload.HBONE || ep.Workload.Identity != want {
		t.Errorf("endpoint %v of %+v", ep.Addr, ep.Workload)
	}
	requests := []struct {
		request  route.Request
		backends []string
	}{
		{route.Request{Method: "GET", Path: "/", Headers: []route.Field{{Name: "x-canary", Value: "1"}}}, []string{"reviews-v2"}},
		{route.Request{Method: "GET", Path: "/admin/x"}, []string{"reviews-v1"}},
		{route.Request{Method: "GET", Path: "/x"}, []string{"reviews-v1", "reviews-v2"}},
	}
	for _, r := range requests {
		rule, _, ok := port.Routes.HTTP.Match(&r.request)
		if !ok || len(rule.Backends) != len(r.backends) {
			t.Errorf("%+v follows %+v", r.request, rule)
			continue
		}
		for i, b := range rule.Backends {
			if got := store.Load().Services[b.Service]; got == nil || got.Name != r.backends[i] {
				t.Errorf("%+v goes to %+v, want %v", r.request, b, r.backends)
			}
		}
	}
	for method, allowed := range map[string]bool{"GET": true, "POST": false} {
		if d := port.HTTPAuthz.Check(&authz.Request{Peer: want, Method: method, Path: "/x"}); d.Allowed != allowed {
			t.Errorf("%s is allowed: %v (%v)", method, d.Allowed, d.Reason)
		}
	}
}
