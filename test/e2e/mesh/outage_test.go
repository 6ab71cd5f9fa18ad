package mesh

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// v2Route is cartRoute when everybody is sent to v2.
const v2Route = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: NS}
spec:
  parentRefs: [{group: "", kind: Service, name: cart}]
  rules: [{backendRefs: [{name: cart-v2, port: 80}]}]
---
`

// TestControlPlaneAway: whatever is missing of the control plane, no request fails;
// and what changed meanwhile is made up for.
func TestControlPlaneAway(t *testing.T) {
	s := newShop(t, cartRoute)
	load := s.Load("web", "http://cart/")
	defer load.End()
	load.More(100)

	t.Log("all replicas of the controller are killed")
	s.AnotherLeads(func() {
		for _, p := range s.Controllers() {
			s.Kill(&p)
		}
		load.More(100)
		s.Apply(v2Route)
	})
	s.Answers(s.HTTP("web"), http.MethodGet, "http://cart/", 200, "v2")

	t.Log("the API server is away")
	s.Down("apiserver", func() { load.More(300) })
	s.Apply(cartRoute)
	s.Answers(s.HTTP("web"), http.MethodGet, "http://cart/", 200, "v1")
	load.More(100)
}

// TestWaypointStartsAlone: a waypoint that is killed while there is no controller comes
// back with the configuration that it had.
func TestWaypointStartsAlone(t *testing.T) {
	s := newShop(t, cartRoute, cartPolicy)
	gets(s, "web", "http://cart/", 200)
	replicas := func(n int) {
		t.Helper()
		s.Patch(&appsv1.Deployment{}, lab.ControllerNamespace, "waypoint-controller", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
	}
	controllers := s.Controllers()
	replicas(0)
	defer func() {
		replicas(len(controllers))
		s.Leader() // others need one
	}()
	s.Gone(controllers)
	s.Kill(&s.WaypointPods("waypoint")[0])
	s.Answers(s.HTTP("web"), http.MethodGet, "http://cart/", 200, "v2", "canary", "yes")
	gets(s, "other", "http://cart/", 403)
}

// TestLeaderDies: the other replica takes over from a leader that is killed, and the
// waypoints that it served go on.
func TestLeaderDies(t *testing.T) {
	s := newShop(t, cartRoute)
	load := s.Load("web", "http://cart/")
	defer load.End()
	s.AnotherLeads(func() { s.Kill(s.Leader()) })
	s.Apply(strings.ReplaceAll(waypointGateway, "name: waypoint", "name: second"))
	s.Programmed("second")
	load.More(100)
}

// TestCAAway: istiod is away when a certificate is to be renewed, and back before it
// ends.
func TestCAAway(t *testing.T) {
	s := newShop(t, `apiVersion: v1
kind: ConfigMap
metadata: {name: options, namespace: NS}
data:
  deployment: |
    spec: {template: {spec: {containers: [{name: waypoint, env: [{name: WAYPOINT_CERT_TTL, value: 40s}]}]}}}
---
`+strings.Replace(waypointGateway, "spec: {", `spec: {infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: options}}, `, 1))
	const renewed, failed = `waypoint_certificate_renewals_total{result="ok"}`, `waypoint_certificate_renewals_total{result="failed"}`
	load := s.Load("web", "http://cart/")
	defer load.End()
	pod := s.WaypointPods("waypoint")[0]
	s.MetricAbove(&pod, renewed, 1) // so its certificate is at the beginning of its life
	var before float64
	s.Down("istiod", func() {
		before = s.MetricAbove(&pod, renewed, 0)
		s.MetricAbove(&pod, failed, 0)
	})
	s.MetricAbove(&pod, renewed, before)
	load.More(100)
}

// TestRollingUpdate: new pods of a waypoint take the place of old ones, become more and
// become fewer, and no request fails.
func TestRollingUpdate(t *testing.T) {
	s := newShop(t, cartRoute)
	load := s.Load("web", "http://cart/")
	defer load.End()
	load.More(50)
	old := s.WaypointPods("waypoint")
	s.Restart(s.NS, "waypoint")
	s.Gone(old)
	load.More(100)
	for _, replicas := range []int{3, 1} {
		s.Patch(&appsv1.Deployment{}, s.NS, "waypoint", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		s.Available("waypoint")
		s.Eventually("istiod tells of so many", func() error {
			if n := s.Directory.Endpoints(s.NS+"/"+lab.FullName("waypoint", s.NS), 15008); n != replicas {
				return fmt.Errorf("it tells of %d, want %d", n, replicas)
			}
			return nil
		})
		load.More(200)
	}
}
