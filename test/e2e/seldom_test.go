package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/ca"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// What happens seldom, so that nobody would notice for long that the controller
// has no right to it.

// TestCAIsRotated starts the controller on a CA that is in the last half of its
// life. Waypoints whose overlays have become unusable hear of the new root too.
func TestCAIsRotated(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	s.Apply(strings.NewReplacer("name: waypoint", "name: hindered", "spec: {", `spec: {infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: overlay}}, `).
		Replace(waypointGateway))
	overlay := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: overlay, namespace: NS}\ndata: "
	s.Apply(overlay + `{deployment: "spec: {replicas: 2}"}`)
	var before, after corev1.ConfigMap
	s.Eventually("the roots are there", func() error {
		return errors.Join(s.Get("waypoint-controller-roots", &before), s.Get("hindered-controller-roots", &before))
	})
	s.Apply(overlay + `{deployment: "spec: {replicas: many}"}`)
	if err := s.controller.Stop(); err != nil {
		t.Fatal(err)
	}
	old, _, err := ca.Rotate(ca.State{}, time.Now().Add(-3*365*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := s.server.Client.Get(t.Context(), client.ObjectKey{Namespace: apiserver.SystemNamespace, Name: ca.SecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{"ca.crt": old.Signing.Cert, "ca.key": old.Signing.Key, "roots.pem": old.Trusted}
	if err := s.server.Client.Update(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	if err := s.startController(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, gateway := range []string{"waypoint", "hindered"} {
		s.Eventually(gateway+" gets the old root and the next one", func() error {
			if err := s.Get(gateway+"-controller-roots", &after); err != nil {
				return err
			}
			pem := after.Data["root.pem"]
			if n := strings.Count(pem, "BEGIN"); n != 2 || !strings.HasSuffix(pem, string(old.Trusted)) {
				return fmt.Errorf("%d roots, the last of which has to be the old one", n)
			}
			return nil
		})
		if after.Data["root.pem"] == before.Data["root.pem"] {
			t.Error("the roots are what they were")
		}
	}
}

func TestAutoscaler(t *testing.T) {
	s := newStory(t)
	overlay := func(data string) {
		t.Helper()
		s.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: overlay, namespace: NS}\ndata: " + data)
	}
	overlay(`{horizontalPodAutoscaler: "spec: {minReplicas: 2, maxReplicas: 5}"}`)
	s.Apply(strings.Replace(waypointGateway, "spec: {", `spec: {infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: overlay}}, `, 1))
	var autoscaler autoscalingv2.HorizontalPodAutoscaler
	s.Eventually("it is made", func() error { return s.Get("waypoint", &autoscaler) })
	if got := autoscaler.Spec; got.MaxReplicas != 5 || got.ScaleTargetRef.Name != "waypoint" {
		t.Errorf("got %+v", got)
	}
	overlay(`{}`)
	s.Eventually("it goes with its key", func() error {
		if err := s.Get("waypoint", &autoscaler); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

// TestStatusOfOtherKinds: what HTTPRoutes and Services get, these get as well.
func TestStatusOfOtherKinds(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	s.Apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: partner, namespace: NS, labels: {istio.io/use-waypoint: waypoint}}
spec: {hosts: [partner.example.com], addresses: [192.0.2.7], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.8}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: NS, labels: {istio.io/use-waypoint: waypoint}}
spec: {ports: [{name: grpc, port: 80}, {name: tls, port: 443}, {name: tcp, port: 3306}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: cart, namespace: NS}
spec: {parentRefs: [{group: "", kind: Service, name: cart, port: 80}], rules: [{backendRefs: [{name: cart, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: cart, namespace: NS}
spec: {hostnames: [cart.example.com], parentRefs: [{group: "", kind: Service, name: cart, port: 443}], rules: [{backendRefs: [{name: cart, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: cart, namespace: NS}
spec: {parentRefs: [{group: "", kind: Service, name: cart, port: 3306}], rules: [{backendRefs: [{name: cart, port: 3306}]}]}`)
	s.Eventually("the GRPCRoute is accepted", func() error {
		var r gatewayv1.GRPCRoute
		return errorOr(s.Get("cart", &r), func() error { return acceptedBy(r.Status.Parents) })
	})
	s.Eventually("the TLSRoute is accepted", func() error {
		var r gatewayv1.TLSRoute
		return errorOr(s.Get("cart", &r), func() error { return acceptedBy(r.Status.Parents) })
	})
	s.Eventually("the TCPRoute is accepted", func() error {
		var r gatewayv1.TCPRoute
		return errorOr(s.Get("cart", &r), func() error { return acceptedBy(r.Status.Parents) })
	})
	s.Eventually("the ServiceEntry says whether it is bound", func() error {
		var e networkingv1.ServiceEntry
		return errorOr(s.Get("partner", &e), func() error {
			for _, c := range e.Status.GetConditions() {
				if c.GetType() == "waypoint-mesh.dev/WaypointBound" {
					return nil
				}
			}
			return fmt.Errorf("conditions %v", e.Status.GetConditions())
		})
	})
}

func errorOr(err error, otherwise func() error) error {
	if err != nil {
		return err
	}
	return otherwise()
}

func acceptedBy(parents []gatewayv1.RouteParentStatus) error {
	if len(parents) != 1 {
		return fmt.Errorf("parents %+v", parents)
	}
	return expect(parents[0].Conditions, "Accepted True Accepted", "")
}
