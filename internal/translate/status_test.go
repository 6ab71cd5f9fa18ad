package translate

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRouteStatus reads the status of routes of the golden input: of our parents only, with the reasons of the Gateway API.
func TestRouteStatus(t *testing.T) {
	input, err := os.ReadFile("testdata/golden/routes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tr := New(testOptions)
	load(t, tr, string(input))
	accepted := Condition{true, "Accepted", ""}
	resolved := Condition{true, "ResolvedRefs", ""}
	served := Condition{true, "ResolvedWaypoints", "Served by the waypoint default/waypoint"}
	absent := Condition{false, "BackendNotFound", "Service default/absent does not exist"}
	ungranted := Condition{
		false, "RefNotPermitted",
		"no ReferenceGrant in namespace default lets HTTPRoutes of namespace other use Service a",
	}
	nobodys := Condition{
		false, "MissingUseWaypointLabel",
		"Service other/b has no waypoint, so nothing follows the route; label it istio.io/use-waypoint",
	}
	tests := []struct {
		route Key
		want  []ParentStatus
	}{
		{Key{kindHTTPRoute, "default", "all"}, []ParentStatus{
			{0, accepted, absent, served, false},
			{1, accepted, absent, served, false},
			{2, Condition{false, "NoMatchingParent", "Service default/a has no port with that number or name"}, absent, served, false},
			{4, Condition{false, "NoMatchingParent", "an ExternalName Service cannot have routes"}, absent, served, false},
			{5, Condition{false, "NoMatchingParent", nobodys.Message}, Condition{}, nobodys, true},
			{6, accepted, absent, served, false},
		}},
		{Key{kindHTTPRoute, "other", "whole"}, []ParentStatus{
			{0, accepted, ungranted, served, false},
			{
				1,
				Condition{false, "NoMatchingParent", "Gateway default/waypoint has no listener with that port or sectionName"},
				ungranted, served, false,
			},
		}},
		{Key{kindHTTPRoute, "third", "granted"}, []ParentStatus{{0, accepted, resolved, served, false}}},
		{Key{kindTLSRoute, "default", "tls"}, []ParentStatus{{0, accepted, resolved, served, false}}},
		{Key{kindTLSRoute, "default", "absent"}, nil},
	}
	for _, tt := range tests {
		if got := tr.RouteStatus(tt.route); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %v\nwant %v", tt.route, got, tt.want)
		}
	}
}

// TestStatusChanges: a route that loses its only port to a stronger kind says so, and heals.
func TestStatusChanges(t *testing.T) {
	tr := mesh(t, 1)
	key := Key{kindTCPRoute, "default", "tcp"}
	tcp := `apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: tcp, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: s0, port: 80}]
  rules: [{backendRefs: [{name: s0, port: 80}]}]`
	service := strings.Replace(serviceDoc(0), "name: http", "name: x", 1)
	c := load(t, tr, tcp+"\n---\n"+service)
	if !slices.Contains(c.Statuses, key) {
		t.Errorf("the new route's status is not told: %v", c.Statuses)
	}
	if got := tr.RouteStatus(key); len(got) != 1 || got[0].Accepted.Reason != "Conflicted" {
		t.Fatalf("beside an HTTPRoute: %v", got)
	}
	tr.Delete(Key{kindHTTPRoute, "default", "r0"})
	tr.Delete(Key{kindHTTPRoute, "default", "r1"})
	c = tr.Update()
	if got := tr.RouteStatus(key); !slices.Contains(c.Statuses, key) || len(got) != 1 || !got[0].Accepted.Status {
		t.Errorf("alone: %v, told %v", got, c.Statuses)
	}
	if c = load(t, tr, tcp); len(c.Statuses) != 0 {
		t.Errorf("the same route again changes statuses: %v", c.Statuses)
	}
}
