package upstream

import (
	"errors"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

func endpoint(zone string, inFlight int64) *mesh.Endpoint {
	ep := &mesh.Endpoint{
		Workload: &mesh.Workload{Locality: mesh.Locality{Region: "r", Zone: zone, Node: "n-" + zone}},
		Load:     &mesh.Load{},
	}
	ep.Load.InFlight.Store(inFlight)
	return ep
}

func port(mode mesh.LocalityMode, eps ...*mesh.Endpoint) *mesh.Port {
	return &mesh.Port{Service: &mesh.Service{Locality: mode}, Endpoints: eps}
}

// shares picks n times and counts.
func shares(t *testing.T, n int, p *mesh.Port, tried ...*mesh.Endpoint) map[*mesh.Endpoint]int {
	t.Helper()
	got := map[*mesh.Endpoint]int{}
	for range n {
		ep, err := Pick(p, mesh.Locality{Region: "r", Zone: "a", Node: "n-a"}, tried)
		if err != nil {
			t.Fatal(err)
		}
		got[ep]++
	}
	return got
}

func TestPickNone(t *testing.T) {
	if _, err := Pick(port(mesh.AnyLocality), mesh.Locality{}, nil); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("Pick = %v, want ErrNoEndpoint", err)
	}
}

func TestPickSpreadsAndSparesTheLoaded(t *testing.T) {
	idle1, idle2, busy := endpoint("a", 0), endpoint("b", 0), endpoint("c", 9)
	got := shares(t, 3000, port(mesh.AnyLocality, idle1, idle2, busy))
	if got[busy] != 0 {
		t.Errorf("the busiest of three was picked %d times: it loses against any other", got[busy])
	}
	if got[idle1] < 1000 || got[idle2] < 1000 {
		t.Errorf("idle endpoints got %d and %d of 3000", got[idle1], got[idle2])
	}
}

func TestPickAvoidsTried(t *testing.T) {
	a, b := endpoint("a", 0), endpoint("b", 50)
	if got := shares(t, 100, port(mesh.AnyLocality, a, b), a); got[a] != 0 {
		t.Errorf("a tried endpoint was picked %d times of 100", got[a])
	}
	if got := shares(t, 100, port(mesh.AnyLocality, a, b), a, b); len(got) == 0 {
		t.Error("with all of them tried none was picked")
	}
	// An endpoint compiled anew is still the one that failed: it has its Load.
	again := &mesh.Endpoint{Workload: a.Workload, Load: a.Load}
	if got := shares(t, 100, port(mesh.AnyLocality, again, b), a); got[again] != 0 {
		t.Errorf("the recompiled endpoint was picked %d times", got[again])
	}
}

func TestPickPrefersTheNear(t *testing.T) {
	near, node, far := endpoint("a", 90), endpoint("a", 90), endpoint("b", 0)
	near.Workload.Locality.Node = "other"
	tests := []struct {
		name  string
		mode  mesh.LocalityMode
		tried []*mesh.Endpoint
		want  []*mesh.Endpoint
	}{
		{"any: the least loaded", mesh.AnyLocality, nil, []*mesh.Endpoint{far, near, node}},
		{"same zone, however loaded", mesh.PreferZone, nil, []*mesh.Endpoint{near, node}},
		{"same node", mesh.PreferNode, nil, []*mesh.Endpoint{node}},
		{"a far one beats one that failed", mesh.PreferZone, []*mesh.Endpoint{near, node}, []*mesh.Endpoint{far}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for got := range shares(t, 200, port(tt.mode, near, node, far), tt.tried...) {
				found := false
				for _, w := range tt.want {
					found = found || w == got
				}
				if !found {
					t.Errorf("picked an endpoint in %+v", got.Workload.Locality)
				}
			}
		})
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	p := port(mesh.PreferZone, endpoint("a", 0), endpoint("b", 0), endpoint("a", 1))
	tried := []*mesh.Endpoint{p.Endpoints[0]}
	if n := testing.AllocsPerRun(1000, func() { _, _ = Pick(p, mesh.Locality{Region: "r", Zone: "a"}, tried) }); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkPick(b *testing.B) {
	eps := make([]*mesh.Endpoint, 50)
	for i := range eps {
		eps[i] = endpoint("a", int64(i))
	}
	p := port(mesh.AnyLocality, eps...)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Pick(p, mesh.Locality{}, nil)
	}
}
