package refusal

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

var (
	one   = discovery.Gateway{Namespace: "shop", Name: "one"}
	route = discovery.Rejection{Key: api.Key{Type: api.RouteType, Name: "HTTPRoute/shop/cart"}, Reason: "no such regex"}
	wds   = discovery.Rejection{Key: api.Key{Type: api.AddressType, Name: "shop/cart.shop.svc"}, Reason: "no such address"}
	cart  = translate.Key{Kind: "HTTPRoute", Namespace: "shop", Name: "cart"}
)

// told collects the objects that were to be looked at.
type told struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (t *told) touched(key translate.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys[key.String()] = true
}

func (t *told) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := slices.Sorted(maps.Keys(t.keys))
	t.keys = map[string]bool{}
	return keys
}

func newKnown() (*Known, *told) {
	t := &told{keys: map[string]bool{}}
	return NewKnown(t.touched), t
}

// TestKnown: what is refused is told of, and what is not any more.
func TestKnown(t *testing.T) {
	k, told := newKnown()
	all := []string{"Gateway shop/one", "HTTPRoute shop/cart"}
	k.setOwn(one, []discovery.Rejection{route, wds})
	if got := told.take(); !slices.Equal(got, all) {
		t.Errorf("touched %v, want %v", got, all)
	}
	if got := k.Of(cart); len(got) != 1 || got[0].Reason != route.Reason || got[0].Gateway != one {
		t.Errorf("of the route: %v", got)
	}
	if got, want := k.At(one), "HTTPRoute shop/cart: no such regex; istio.workload.Address shop/cart.shop.svc: no such address"; got != want {
		t.Errorf("at the Gateway: %q, want %q", got, want)
	}
	// Another replica says the same, so nothing else is to be said, and still
	// something when that one is gone.
	k.set("other", report{Rejections{one: {route}}, time.Unix(100, 0)})
	if got := k.Count(); got[one] != 2 {
		t.Errorf("counted %v, want 2", got)
	}
	if expired, next := k.expire(time.Unix(99, 0)); len(expired) != 0 || !next.Equal(time.Unix(100, 0)) {
		t.Errorf("before its end: %v, next %v", expired, next)
	}
	k.setOwn(one, nil)
	told.take()
	if got := k.Of(cart); len(got) != 1 {
		t.Errorf("what the other replica says is forgotten: %v", got)
	}
	expired, next := k.expire(time.Unix(100, 0))
	if !slices.Equal(expired, []string{"other"}) || !next.IsZero() || k.At(one) != "" {
		t.Errorf("expired %v, next %v, left %q", expired, next, k.At(one))
	}
	if got := told.take(); !slices.Equal(got, all) {
		t.Errorf("of what expired, touched %v, want %v", got, all)
	}
}

// TestLease: what one replica writes is what another reads, and not without end.
func TestLease(t *testing.T) {
	many := make([]discovery.Rejection, 1000)
	for i := range many {
		many[i] = route
		many[i].Reason = string(make([]byte, 3000))
	}
	for name, c := range map[string]struct {
		rejections Rejections
		want       int
	}{
		"two":  {Rejections{one: {route, wds}}, 2},
		"many": {Rejections{one: many}, mostPublished},
	} {
		ac, err := leaseOf("system", "me", c.rejections, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		lease := &coordinationv1.Lease{}
		lease.Annotations = ac.Annotations
		got, err := reportOf(lease, time.Unix(0, 0))
		if err != nil || len(got.rejections[one]) != c.want || got.until != time.Unix(0, 0).Add(life) {
			t.Errorf("%s: %d rejections until %v, %v; want %d", name, len(got.rejections[one]), got.until, err, c.want)
		}
		if size := len(ac.Annotations[annotation]); size > 200<<10 {
			t.Errorf("%s: %d bytes, and annotations may have 256 KiB", name, size)
		}
	}
	broken := &coordinationv1.Lease{}
	broken.Annotations = map[string]string{annotation: "{"}
	if _, err := reportOf(broken, time.Now()); err == nil {
		t.Error("no fault found in what is no JSON")
	}
}

// writes is an API server that counts.
type writes struct {
	client.Client
	done chan string
}

func (w writes) Apply(_ context.Context, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	w.done <- "apply " + *obj.(*coordinationv1ac.LeaseApplyConfiguration).Name
	return nil
}

func (w writes) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	w.done <- "delete " + obj.GetName()
	return nil
}

// TestShare: a replica publishes while there is something and it does not lead.
func TestShare(t *testing.T) {
	k, _ := newKnown()
	var refused []discovery.Rejection
	api := writes{done: make(chan string)}
	elected := make(chan struct{})
	s := NewShare(Options{
		Known: k, Rejections: func(discovery.Gateway) []discovery.Rejection { return refused },
		Client: api, Namespace: "system", Name: "me", FieldManager: "test", Elected: elected, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	wrote := func(want string) {
		t.Helper()
		if got := <-api.done; got != want {
			t.Errorf("wrote %q, want %q", got, want)
		}
	}
	refused = []discovery.Rejection{route}
	s.Changed(one)
	wrote("apply me")
	refused = nil
	s.Changed(one)
	wrote("delete me")
	refused = []discovery.Rejection{route}
	s.Changed(one)
	wrote("apply me")
	// The leader has no need to tell anybody, and clears up after others.
	close(elected)
	wrote("delete me")
	lease := &coordinationv1.Lease{}
	lease.Name, lease.Annotations = "vanished", map[string]string{annotation: "[]"}
	s.take(lease)
	k.set("vanished", report{Rejections{one: {route}}, time.Now()})
	signal(s.expires)
	wrote("delete vanished")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
