package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/xds"
)

// shop is a Service behind the story's waypoint, with a route and a policy.
const shop = waypointGateway + `
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: NS, labels: {istio.io/use-waypoint: waypoint}}
spec: {selector: {app: cart}, ports: [{port: 80, targetPort: 8080, appProtocol: http}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: NS}
spec:
  parentRefs: [{group: "", kind: Service, name: cart}]
  rules: [{matches: [{path: {type: PathPrefix, value: /a}}], backendRefs: [{name: cart, port: 80}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: NS}
spec: {targetRefs: [{group: "", kind: Service, name: cart}], rules: [{to: [{operation: {methods: [GET]}}]}]}`

// waypoint is the part of a waypoint that takes configuration from a controller.
type waypoint struct {
	*xds.Source
	store  *mesh.Store
	reason atomic.Value // why there is no configuration yet
}

// connect starts one that shows a token of an account of the story.
func (s *story) connect(account, audience string) *waypoint {
	s.Helper()
	token, err := s.server.Token(s.Context(), s.ns, account, audience, 3600)
	if err != nil {
		s.Fatal(err)
	}
	return s.connectWith(token, nil)
}

// connectWith starts one that shows a token, or a certificate, or neither.
func (s *story) connectWith(token string, cert *tls.Certificate) *waypoint {
	s.Helper()
	var roots corev1.ConfigMap
	s.Eventually("the controller's roots are there", func() error { return s.Get("waypoint-controller-roots", &roots) })
	c := &waypoint{store: new(mesh.Store)}
	o := xds.Options{
		Addr: s.controller.Discovery, Gateway: s.ns + "/waypoint", Root: s.file(roots.Data["root.pem"]),
		Instance: "test", Version: "test", Log: slog.New(slog.DiscardHandler),
		Waiting: func(reason string) { c.reason.Store(reason) },
	}
	if token != "" {
		o.Token = s.file(token)
	}
	if cert != nil {
		o.Certificate = func() (*tls.Certificate, error) { return cert, nil }
	}
	c.Source = xds.New(o, c.store)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	s.Cleanup(func() { cancel(); <-ended })
	return c
}

// file writes one of the test's own.
func (s *story) file(content string) string {
	s.Helper()
	path := filepath.Join(s.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func (c *waypoint) whole(s *story) {
	s.Helper()
	select {
	case <-c.Whole():
	case <-time.After(patience):
		s.Fatalf("no configuration: %v", c.reason.Load())
	}
}

func TestWaypointIsConfigured(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.gatewaySays("Accepted True Accepted", "")
	c := s.connect("waypoint", gateway.TokenAudience)
	c.whole(s)
	version := c.store.Load().Version
	if version == 0 {
		t.Error("an empty snapshot")
	}
	s.Apply(strings.Replace(shop, "value: /a", "value: /b", 1))
	s.Eventually("the change is in force", func() error {
		if c.store.Load().Version == version {
			return errors.New("it is not")
		}
		return nil
	})
}

func TestStatusOfRoutesAndPolicies(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	routeSays := func(want, message string) {
		t.Helper()
		s.Eventually("the route says "+want, func() error {
			var r gatewayv1.HTTPRoute
			if err := s.Get("cart", &r); err != nil {
				return err
			}
			if len(r.Status.Parents) != 1 || r.Status.Parents[0].ControllerName != gateway.ControllerName {
				return fmt.Errorf("parents %+v", r.Status.Parents)
			}
			return expect(r.Status.Parents[0].Conditions, want, message)
		})
	}
	routeSays("Accepted True Accepted", "In force")
	routeSays("ResolvedRefs True ResolvedRefs", "")
	s.Apply(strings.Replace(shop, "backendRefs: [{name: cart", "backendRefs: [{name: missing", 1))
	routeSays("ResolvedRefs False BackendNotFound", "missing")
	s.Apply(strings.Replace(shop, "kind: Service, name: cart}]\n  rules", "kind: Service, name: cart, port: 81}]\n  rules", 1))
	routeSays("Accepted False NoMatchingParent", "has no port")

	policySays := func(status, message string) {
		t.Helper()
		s.Eventually("the policy says "+message, func() error {
			var p securityv1.AuthorizationPolicy
			if err := s.Get("cart", &p); err != nil {
				return err
			}
			for _, c := range p.Status.GetConditions() {
				if c.GetType() == "waypoint-mesh.dev/Enforced" && c.GetStatus() == status && strings.Contains(c.GetMessage(), message) {
					return nil
				}
			}
			return fmt.Errorf("conditions %v", p.Status.GetConditions())
		})
	}
	s.Apply(shop)
	routeSays("ResolvedWaypoints False WaypointIsNotReady", "so calls go around it")
	policySays("False", "so calls to Service "+s.ns+"/cart go around it")
	s.Apply(fmt.Sprintf(readyPod, true))
	policySays("True", "In force on Service "+s.ns+"/cart at the waypoint "+s.ns+"/waypoint")
	routeSays("ResolvedWaypoints True ResolvedWaypoints", "Served by the waypoint "+s.ns+"/waypoint")
	s.Apply(strings.Replace(shop, "istio.io/use-waypoint: waypoint", "istio.io/use-waypoint: none", 1))
	policySays("False", "has no waypoint")
	routeSays("ResolvedWaypoints False MissingUseWaypointLabel", "so nothing follows the route")
}

// TestControllerStartsAgain: a waypoint goes on as it is while the controller is
// away, and finds it again.
func TestControllerStartsAgain(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.gatewaySays("Accepted True Accepted", "")
	w := s.connect("waypoint", gateway.TokenAudience)
	w.whole(s)
	version := w.store.Load().Version
	if err := s.controller.Stop(); err != nil {
		t.Errorf("the controller ended with %v", err)
	}
	s.Apply(strings.ReplaceAll(waypointGateway, "name: waypoint", "name: second"))
	if err := s.startController(s.Context()); err != nil {
		t.Fatal(err)
	}
	s.Eventually("what happened meanwhile is made up for", func() error { return s.Get("second", &corev1.Service{}) })
	s.Eventually("the waypoint is back", func() error {
		if !w.Stats().Connected {
			return errors.New(w.Stats().Problem)
		}
		return nil
	})
	if got := w.store.Load().Version; got != version {
		t.Errorf("the snapshot went from version %d to %d without a change", version, got)
	}
}
