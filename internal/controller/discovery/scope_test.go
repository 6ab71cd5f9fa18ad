package discovery

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

const ourHost = "waypoint.shop.svc.cluster.local"

func ourGateway() *waypointv1.Gateway {
	return &waypointv1.Gateway{Namespace: "shop", Name: "waypoint", Hostname: ourHost}
}

func addressOf(hostname string) *workload.GatewayAddress {
	return &workload.GatewayAddress{Destination: &workload.GatewayAddress_Hostname{
		Hostname: &workload.NamespacedHostname{Namespace: "shop", Hostname: hostname},
	}}
}

func serviceKey(n int) string { return fmt.Sprintf("shop/s%d", n) }

func ref(n int) *waypointv1.ServiceRef {
	return &waypointv1.ServiceRef{Namespace: "shop", Hostname: fmt.Sprintf("s%d", n)}
}

func testService(n int) *workload.Service {
	return &workload.Service{Namespace: "shop", Name: fmt.Sprintf("s%d", n), Hostname: fmt.Sprintf("s%d", n)}
}

func testWorkload(n int, services ...int) *workload.Workload {
	w := &workload.Workload{Uid: fmt.Sprintf("c//Pod/shop/p%d", n), Services: make(map[string]*workload.PortList)}
	for _, s := range services {
		w.Services[serviceKey(s)] = &workload.PortList{}
	}
	return w
}

func testRoute(n int, services ...int) *waypointv1.Route {
	rule := &waypointv1.RouteRule{}
	for _, s := range services {
		rule.Backends = append(rule.Backends, &waypointv1.Backend{Target: &waypointv1.Backend_Service{Service: ref(s)}})
	}
	return &waypointv1.Route{Kind: waypointv1.RouteKind_HTTP_ROUTE, Namespace: "shop", Name: fmt.Sprintf("r%d", n), Rules: []*waypointv1.RouteRule{rule}}
}

// mirror is everything that a client of a scope has after all differences.
type mirror map[api.Key]proto.Message

func (m mirror) take(t *testing.T, d difference) {
	t.Helper()
	for _, key := range d.removed {
		if _, ok := m[key]; !ok {
			t.Errorf("%v is removed, and was not there", key)
		}
		delete(m, key)
	}
	for _, r := range d.upserted {
		m[r.Key] = r.Message
	}
}

func (m mirror) names() []string {
	var names []string
	for key := range m {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

func TestScope(t *testing.T) {
	attached := testService(1)
	attached.Waypoint = addressOf(ourHost)
	elsewhere := testService(2)
	elsewhere.Waypoint = addressOf("another.shop.svc.cluster.local")
	weighted := testService(6)
	weighted.WeightedWaypoints = []*workload.WeightedWaypoint{{Destination: addressOf(ourHost)}}
	pod := testWorkload(7)
	pod.Waypoint = addressOf(ourHost)
	mirrored := testRoute(1, 3)
	mirrored.Rules[0].Filters = []*waypointv1.Filter{{Kind: &waypointv1.Filter_Mirror{Mirror: &waypointv1.Mirror{Service: ref(4)}}}}
	mirrored.Rules[0].Backends[0].Filters = []*waypointv1.Filter{{Kind: &waypointv1.Filter_Mirror{Mirror: &waypointv1.Mirror{Service: ref(5)}}}}
	all := []proto.Message{
		ourGateway(), attached, elsewhere, testService(3), testService(4), testService(5), weighted, testService(8), pod,
		mirrored, &waypointv1.AuthorizationPolicy{Namespace: "shop", Name: "p"},
	}
	for n := 1; n <= 6; n++ {
		all = append(all, testWorkload(n, n))
	}
	s, client := newScope(), mirror{}
	for _, m := range all {
		client.take(t, s.update([]api.Resource{api.Of(m)}, nil))
	}
	want := []string{
		"HTTPRoute/shop/r1", "c//Pod/shop/p1", "c//Pod/shop/p3", "c//Pod/shop/p4", "c//Pod/shop/p5", "c//Pod/shop/p6", "c//Pod/shop/p7",
		"shop/p", "shop/s1", "shop/s3", "shop/s4", "shop/s5", "shop/s6", "shop/waypoint",
	}
	if got := client.names(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, m := range all {
		client.take(t, s.update(nil, []api.Key{api.Of(m).Key}))
	}
	if len(client) > 0 || len(s.services) > 0 || len(s.workloads) > 0 || len(s.routes) > 0 {
		t.Errorf("left over: %v, %v, %v, %v", client, s.services, s.workloads, s.routes)
	}
}

// TestScopeIncremental compares what comes of random changes, one after the other,
// with what one update with the outcome gives.
func TestScopeIncremental(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, client, known := newScope(), mirror{}, mirror{}
		for range 200 {
			var upserted []api.Resource
			var removed []api.Key
			for range 1 + r.IntN(3) {
				m := randomResource(r)
				if key := api.Of(m).Key; r.IntN(3) == 0 {
					removed = append(removed, key)
				} else if !slices.ContainsFunc(upserted, func(r api.Resource) bool { return r.Key == key }) {
					upserted = append(upserted, api.Of(m))
				}
			}
			removed = slices.DeleteFunc(removed, func(key api.Key) bool {
				_, ok := known[key]
				delete(known, key)
				return !ok
			})
			for _, u := range upserted {
				known[u.Key] = u.Message
			}
			client.take(t, s.update(upserted, removed))
		}
		fresh := mirror{}
		var all []api.Resource
		for key, m := range known {
			all = append(all, api.Resource{Key: key, Message: m})
		}
		fresh.take(t, newScope().update(all, nil))
		if !maps.EqualFunc(client, fresh, func(a, b proto.Message) bool { return a == b }) {
			t.Fatalf("seed %d:\ngot  %v\nwant %v", seed, client.names(), fresh.names())
		}
	}
}

func randomResource(r *rand.Rand) proto.Message {
	switch n := r.IntN(5); r.IntN(10) {
	case 0:
		return ourGateway()
	case 1, 2, 3:
		s := testService(n)
		if r.IntN(3) == 0 {
			s.Waypoint = addressOf(ourHost)
		}
		return s
	case 4, 5, 6:
		w := testWorkload(n, r.IntN(5), r.IntN(5))
		if r.IntN(5) == 0 {
			w.Waypoint = addressOf(ourHost)
		}
		return w
	default:
		return testRoute(n, r.IntN(5))
	}
}

// BenchmarkScopeElsewhere is the cost of a change that nobody needs.
func BenchmarkScopeElsewhere(b *testing.B) {
	s := newScope()
	s.update([]api.Resource{api.Of(ourGateway())}, nil)
	for n := range 5000 {
		s.update([]api.Resource{api.Of(testService(n)), api.Of(testWorkload(n, n))}, nil)
	}
	changed := []api.Resource{api.Of(testWorkload(17, 17))}
	b.ReportAllocs()
	for b.Loop() {
		if d := s.update(changed, nil); len(d.upserted) > 0 {
			b.Fatal("it is sent")
		}
	}
}
