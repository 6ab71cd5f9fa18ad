package discovery

import (
	"testing"

	"github.com/waypoint-mesh/waypoint/api"
)

// TestWhoHasLeftStaysAway: the goroutine that sends may look once more after its
// client was taken out. That must not bring the client back, which nobody would take
// out again: it would count against the limit of streams and hold up the log.
func TestWhoHasLeftStaysAway(t *testing.T) {
	s, c := newSet(), &client{}
	if _, err := s.update([]api.Resource{api.Of(ourGateway())}, nil); err != nil {
		t.Fatal(err)
	}
	types := map[string]*subscription{api.GatewayType: {}}
	s.enter(c)
	if _, list := s.collect(c, types); len(list) != 1 {
		t.Fatalf("%d types while it is there, want 1", len(list))
	}
	s.leave(c)
	if _, err := s.update(nil, []api.Key{api.Of(ourGateway()).Key}); err != nil {
		t.Fatal(err)
	}
	if _, list := s.collect(c, types); len(list) > 0 {
		t.Errorf("%d types after it has left, want none", len(list))
	}
	if n := len(s.connected()); n > 0 {
		t.Errorf("%d clients in the set after the only one has left", n)
	}
}
