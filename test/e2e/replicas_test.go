package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/refusal"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// metric sums up what a replica counts under a name, over those series that have
// a label.
func metric(ctx context.Context, addr, name, label string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		series, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok {
			series, value, _ = strings.Cut(lines.Text(), " ")
		}
		if series != name && !strings.HasPrefix(series, name+"{") || !strings.Contains(series, label) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// writes counts the requests by which a replica changed something.
func (s *story) writes(addr string) (n float64) {
	s.Helper()
	for _, method := range []string{"PATCH", "POST", "DELETE"} {
		v, err := metric(s.Context(), addr, "rest_client_requests_total", `method="`+method+`"`)
		if err != nil {
			s.Fatal(err)
		}
		n += v
	}
	return n
}

// TestTwoReplicas: both serve, one writes, and the other takes over.
func TestTwoReplicas(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.Apply(fmt.Sprintf(readyPod, true))
	s.routeSays("cart", "Accepted True Accepted", "In force")
	s.policySays("cart", "True Enforced", "In force")

	second, err := s.server.NewController(os.Getenv("WAYPOINT_CONTROLLER"))
	if err != nil {
		t.Fatal(err)
	}
	const metrics = "127.0.0.1:15920"
	t.Cleanup(func() {
		if err := second.Kill(); err != nil {
			t.Error(err)
		}
	})
	if err := second.Start(t.Context(), "--metrics="+metrics); err != nil {
		t.Fatal(err)
	}
	s.servedBy(second).whole(s)
	s.connect("waypoint", gateway.TokenAudience).whole(s)
	if n, err := metric(t.Context(), metrics, "waypoint_controller_connected_waypoints", `namespace="`+s.ns+`"`); err != nil || n != 1 {
		t.Errorf("the metrics of the second replica tell of %v connected waypoints, %v; want 1", n, err)
	}

	// What a waypoint refuses reaches the leader from the replica that it told.
	stop := refuser{api.Key{Type: api.RouteType, Name: "HTTPRoute/" + s.ns + "/cart"}, "no such regex"}.connect(s, second.Discovery)
	s.routeSays("cart", "Accepted False RefusedByWaypoint", "no such regex")
	s.configuredSays("HTTPRoute " + s.ns + "/cart: no such regex")
	if n, err := metric(t.Context(), metrics, "waypoint_controller_rejected_resources", `namespace="`+s.ns+`"`); err != nil || n != 1 {
		t.Errorf("its metrics tell of %v refused resources, %v; want 1", n, err)
	}
	stop()
	s.routeSays("cart", "Accepted True Accepted", "In force")
	s.configuredSays("")
	s.Eventually("nothing of it is left", func() error {
		var leases coordinationv1.LeaseList
		err := s.server.Client.List(t.Context(), &leases, client.InNamespace(apiserver.SystemNamespace), client.HasLabels{refusal.Label})
		if err == nil && len(leases.Items) > 0 {
			err = fmt.Errorf("%d Leases", len(leases.Items))
		}
		return err
	})

	// Its writes so far: TokenReviews, and the Lease that it made and removed.
	leads, err := metric(t.Context(), metrics, "leader_election_master_status", "")
	if err != nil || leads != 0 {
		t.Fatalf("the second replica leads: %v, %v", leads, err)
	}
	before := s.writes(metrics)
	s.Apply(strings.Replace(shop, "value: /a", "value: /b", 1))
	s.Apply(strings.ReplaceAll(waypointGateway, "name: waypoint", "name: second"))
	s.Eventually("the second Gateway is deployed", func() error { return s.Get("second", &corev1.Service{}) })
	if after := s.writes(metrics); after != before {
		t.Errorf("the replica that does not lead wrote %v times", after-before)
	}

	s.takesOver(metrics)
}

// servedBy connects a waypoint to another replica.
func (s *story) servedBy(c *apiserver.Controller) *waypoint {
	other := *s.world
	other.controller = c
	return (&story{s.T, &other, s.ns}).connect("waypoint", gateway.TokenAudience)
}

// takesOver ends the replica that leads. The other one then leads, finds everything
// said, and writes only what is new.
func (s *story) takesOver(metrics string) {
	s.Helper()
	if err := s.controller.Stop(); err != nil {
		s.Error(err)
	}
	s.Cleanup(func() {
		if err := s.startController(context.WithoutCancel(s.Context())); err != nil {
			s.Error(err)
		}
	})
	s.Eventually("the second replica leads", func() error {
		if n, err := metric(s.Context(), metrics, "leader_election_master_status", ""); err != nil || n != 1 {
			return fmt.Errorf("%w%v", err, n)
		}
		return nil
	})
	s.Apply(strings.ReplaceAll(waypointGateway, "name: waypoint", "name: third"))
	s.Eventually("the third Gateway is deployed", func() error { return s.Get("third", &corev1.Service{}) })
	patches := func() float64 {
		s.Helper()
		n, err := metric(s.Context(), metrics, "rest_client_requests_total", `method="PATCH"`)
		if err != nil {
			s.Fatal(err)
		}
		return n
	}
	// Endpoints come and go, and what is said stays. A change that is answered tells
	// that those before it have been looked at.
	said := func(path string) {
		s.Helper()
		s.Apply(strings.Replace(shop, "value: /a", "value: "+path, 1))
		s.Eventually("the route is looked at", func() error { return s.routeIsCurrent("cart") })
	}
	said("/c")
	before := patches()
	for n := range 20 {
		s.Apply(strings.Replace(fmt.Sprintf(readyPod, true), "10.244.0.9", fmt.Sprintf("10.244.0.%d", 20+n), 1))
	}
	said("/d")
	if n := patches() - before; n != 1 {
		s.Errorf("%v writes, want the one of the route whose generation is another", n)
	}
}
