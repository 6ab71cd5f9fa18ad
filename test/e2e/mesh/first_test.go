package mesh

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metaapi "istio.io/api/meta/v1alpha1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// waypointGateway is what a user applies to have a waypoint.
const waypointGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: NS}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
`

// enrolled is a namespace whose Services have the waypoint.
const enrolled = `apiVersion: v1
kind: Namespace
metadata: {name: NS, labels: {istio.io/use-waypoint: waypoint}}
---
`

// cartRoute sends those who ask for it to v2, and all others to v1.
const cartRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: NS}
spec:
  parentRefs: [{group: "", kind: Service, name: cart}]
  rules:
  - matches: [{headers: [{name: canary, value: "yes"}]}]
    backendRefs: [{name: cart-v2, port: 80}]
  - backendRefs: [{name: cart-v1, port: 80}]
---
`

// cartPolicy lets web read.
const cartPolicy = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: NS}
spec:
  targetRefs: [{group: "", kind: Service, name: cart}]
  rules: [{from: [{source: {principals: [cluster.local/ns/NS/sa/web]}}], to: [{operation: {methods: [GET]}}]}]
---
`

// newShop is a story with a waypoint that serves cart, whose pods are captured.
func newShop(t *testing.T, more ...string) *lab.Story {
	t.Helper()
	s := lab.NewStory(t)
	s.Apply(enrolled + waypointGateway + strings.Join(more, "") + lab.EchoApp("cart", "v1", "v2"))
	s.Available("cart-v1", "cart-v2")
	s.Programmed("waypoint")
	s.Capture()
	s.Eventually("istiod sends cart's clients to the waypoint", func() error { return hasWaypoint(s, "cart", s.NS, "waypoint") })
	return s
}

func hasWaypoint(s *lab.Story, service, namespace, waypoint string) error {
	want := namespace + "/" + lab.FullName(waypoint, namespace)
	if got := s.Directory.WaypointOf(lab.FullName(service, s.NS)); got != want {
		return fmt.Errorf("the waypoint is %q, want %q", got, want)
	}
	return nil
}

// TestBesideIstiod: what Istio's users do gets them a waypoint of ours, routing and
// refusing, and both control planes say so on the objects.
func TestBesideIstiod(t *testing.T) {
	s := newShop(t, cartRoute, cartPolicy)
	web, other := s.HTTP("web"), s.HTTP("other")
	s.Answers(web, http.MethodGet, "http://cart/", 200, "v1")
	s.Answers(web, http.MethodGet, "http://cart/", 200, "v2", "canary", "yes")
	s.Answers(web, http.MethodPost, "http://cart/", 403, "")
	s.Answers(other, http.MethodGet, "http://cart/", 403, "")

	// Nothing went around the waypoint, which pods know by its own identity.
	waypoint := "spiffe://cluster.local/ns/" + s.NS + "/sa/waypoint"
	for _, p := range s.PodsOf("app=cart") {
		connects := s.NodeProxy(p.Status.PodIP).Connects()
		if len(connects) == 0 {
			t.Errorf("nothing came to pod %s by a tunnel", p.Name)
		}
		for _, c := range connects {
			if c.Peer.String() != waypoint {
				t.Errorf("a tunnel from %s, want %s", c.Peer, waypoint)
			}
		}
	}

	serviceSays(s, "cart", "istio.io/WaypointBound", metav1.ConditionTrue)
	routeSays(s, "cart", "Accepted True Accepted", "")
	routeSays(s, "cart", "ResolvedRefs True ResolvedRefs", "")
	routeSays(s, "cart", "ResolvedWaypoints True ResolvedWaypoints", "")
	policySays(s, "cart", "WaypointAccepted True", "bound to "+s.NS+"/waypoint")
	policySays(s, "cart", "waypoint-mesh.dev/Enforced True", "In force")
}

// serviceSays waits for a condition of a Service of the story.
func serviceSays(s *lab.Story, name, kind string, status metav1.ConditionStatus) {
	s.Helper()
	s.Eventually("Service "+name+" says "+kind, func() error {
		var service corev1.Service
		if err := s.Get(name, &service); err != nil {
			return err
		}
		for _, c := range service.Status.Conditions {
			if c.Type == kind && c.Status == status {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", service.Status.Conditions)
	})
}

// routeSays waits for a condition of an HTTPRoute in our entry for its first parent,
// "Type Status Reason".
func routeSays(s *lab.Story, name, condition, message string) {
	s.Helper()
	s.Eventually("HTTPRoute "+name+" says "+condition, func() error {
		var r gatewayv1.HTTPRoute
		if err := s.Get(name, &r); err != nil {
			return err
		}
		for _, p := range r.Status.Parents {
			if p.ControllerName == gateway.ControllerName {
				return lab.HasCondition(p.Conditions, r.Generation, condition, message)
			}
		}
		return fmt.Errorf("no entry of ours: %+v", r.Status.Parents)
	})
}

// policySays waits for a condition of an AuthorizationPolicy, "Type Status", with a
// part of its message.
func policySays(s *lab.Story, name, condition, message string) {
	s.Helper()
	kind, status, _ := strings.Cut(condition, " ")
	s.Eventually("AuthorizationPolicy "+name+" says "+condition+": "+message, func() error {
		c, err := policyCondition(s, name, kind)
		if err == nil && (c.GetStatus() != status || !strings.Contains(c.GetMessage(), message)) {
			err = fmt.Errorf("it says %s %s: %s", c.GetStatus(), c.GetReason(), c.GetMessage())
		}
		return err
	})
}

func policyCondition(s *lab.Story, name, kind string) (*metaapi.IstioCondition, error) {
	var p securityv1.AuthorizationPolicy
	if err := s.Get(name, &p); err != nil {
		return nil, err
	}
	for _, c := range p.Status.GetConditions() {
		if c.GetType() == kind {
			return c, nil
		}
	}
	return nil, fmt.Errorf("it has no condition %s: %v", kind, p.Status.GetConditions())
}
