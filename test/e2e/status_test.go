package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
)

// TestListenersCountTheirRoutes, and what a Gateway says that means nothing is told.
func TestListenersCountTheirRoutes(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	attached := func(want int32) {
		t.Helper()
		s.Eventually(fmt.Sprintf("%d routes are attached", want), func() error {
			var g gatewayv1.Gateway
			if err := s.Get("waypoint", &g); err != nil {
				return err
			}
			if len(g.Status.Listeners) != 1 || g.Status.Listeners[0].AttachedRoutes != want {
				return fmt.Errorf("listeners %+v", g.Status.Listeners)
			}
			return nil
		})
	}
	attached(0)
	s.Apply(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: everything, namespace: NS}
spec: {parentRefs: [{name: waypoint}], rules: [{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-a, value: b}]}}]}]}`)
	attached(1)
	s.Delete(&gatewayv1.HTTPRoute{}, "everything")
	attached(0)
	s.Apply(strings.Replace(waypointGateway, "namespace: NS", "namespace: NS, labels: {istio.io/waypoint-for: sevrice}", 1))
	s.gatewaySays("Accepted True Accepted", `but: metadata.labels[istio.io/waypoint-for]: must be service, workload, all or none, got "sevrice"`)
}

// TestWhatGoesAround: every way in which calls do not come by the waypoint that
// somebody counts on is told in words, on the object where they would look.
func TestWhatGoesAround(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	s.Apply(fmt.Sprintf(readyPod, true))
	s.Apply(strings.NewReplacer("name: waypoint", "name: theirs", "ClassName: waypoint", "ClassName: theirs").Replace(waypointGateway))
	s.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-other}")
	s.Apply(service("cart", "istio.io/use-waypoint: waypoint") + service("bare", "") + service("lost", "istio.io/use-waypoint: waypiont") +
		service("canary", "istio.io/use-waypoint: theirs, istio.io/use-waypoint-canary: waypoint") +
		strings.ReplaceAll(service("outside", "istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: NS"), "}, namespace: NS}", "}, namespace: NS-other}"))
	s.serviceSays("cart", "True WaypointAccepted", "Served by the waypoint "+s.ns+"/waypoint")
	s.serviceSays("lost", "False WaypointNotFound", "Gateway "+s.ns+"/waypiont, which Service "+s.ns+"/lost asks for by label, does not exist")
	(&story{t, s.world, s.ns + "-other"}).serviceSays("outside", "False AttachmentDenied", "does not let namespace "+s.ns+"-other use it")
	for name, c := range map[string]struct{ spec, want, text string }{
		"pod":   {target("cart"), "True Enforced", "But who calls a pod by its own address goes around the waypoint"},
		"bare":  {target("bare"), "False NotEnforced", "has no waypoint, so nothing enforces the policy; label it istio.io/use-waypoint"},
		"lost":  {target("lost"), "False NotEnforced", "waypiont, which Service"},
		"gone":  {target("gone"), "False NotEnforced", "does not exist"},
		"mixed": {target("cart", "bare"), "False PartlyEnforced", "In force on Service " + s.ns + "/cart"},
		"http": {
			"selector: {matchLabels: {app: cart}}, ", "False NotEnforced",
			"enforced by ztunnels, which see no HTTP, so a rule that looks at it allows nothing; for the waypoint to enforce it, write targetRefs",
		},
		"canary": {target("canary"), "True Enforced", "In force on Service " + s.ns + "/canary"},
	} {
		s.Apply("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: " + name + ", namespace: NS}\nspec: {" + c.spec +
			"rules: [{to: [{operation: {methods: [GET]}}]}]}")
		s.policySays(name, c.want, c.text)
	}
	// The cure that was told is one.
	s.Apply(`apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: guard, namespace: NS}
spec: {selector: {matchLabels: {app: cart}}, rules: [{from: [{source: {principals: [cluster.local/ns/NS/sa/waypoint]}}]}]}`)
	s.Eventually("nobody goes around any more", func() error {
		var p securityv1.AuthorizationPolicy
		if err := s.Get("pod", &p); err != nil || strings.Contains(fmt.Sprint(p.Status.GetConditions()), "goes around") {
			return fmt.Errorf("%w%v", err, p.Status.GetConditions())
		}
		return nil
	})
	s.Apply(strings.Replace(waypointGateway, "namespace: NS", "namespace: NS, labels: {istio.io/waypoint-for: workload}", 1))
	s.serviceSays("cart", "False UnsupportedTrafficType", "has istio.io/waypoint-for=workload and does not serve Services")
	s.policySays("pod", "False NotEnforced", "does not serve Services")
}

// TestConditionsGoBesideIstiod: where there is an istiod, Services are its to
// speak of.
func TestConditionsGoBesideIstiod(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	s.Apply(service("cart", "istio.io/use-waypoint: waypoint") + `
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: partner, namespace: NS, labels: {istio.io/use-waypoint: waypoint}}
spec: {hosts: [partner.example.com], addresses: [192.0.2.7], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.8}]}`)
	s.serviceSays("cart", "False WaypointIsNotReady", "so calls go around it")
	none := func() error {
		var cart corev1.Service
		var partner networkingv1.ServiceEntry
		if err := s.Get("cart", &cart); err != nil {
			return err
		}
		if err := s.Get("partner", &partner); err != nil || len(cart.Status.Conditions)+len(partner.Status.GetConditions()) > 0 {
			return fmt.Errorf("%w%v %v", err, cart.Status.Conditions, partner.Status.GetConditions())
		}
		return nil
	}
	class := "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: istio-waypoint}\nspec: {controllerName: istio.io/mesh-controller}"
	s.Apply(class)
	t.Cleanup(func() {
		c := &gatewayv1.GatewayClass{}
		c.Name = "istio-waypoint"
		if err := s.server.Client.Delete(context.WithoutCancel(t.Context()), c); err != nil {
			t.Error(err)
		}
	})
	s.Eventually("ours are gone", none)
}

// TestGatewaysOfOtherRevisions are left to whoever serves those.
func TestGatewaysOfOtherRevisions(t *testing.T) {
	s := newStory(t)
	if err := s.controller.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.controller.Start(t.Context(), "--revisions=default"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.controller.Kill(); err != nil {
			t.Error(err)
		}
		if err := s.startController(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	other := strings.Replace(waypointGateway, "{name: waypoint, namespace: NS}", "{name: other, namespace: NS, labels: {istio.io/rev: canary}}", 1)
	s.Apply(other)
	s.Apply(waypointGateway)
	s.gatewaySays("Accepted True Accepted", "")
	var g gatewayv1.Gateway
	if err := s.Get("other", &g); err != nil || strings.Contains(fmt.Sprint(g.Status.Conditions), "Served by") {
		t.Errorf("it is served: %v %+v", err, g.Status.Conditions)
	}
	s.Apply(strings.Replace(other, "canary", "default", 1))
	s.Eventually("it is ours now", func() error { return s.Get("other", &corev1.ServiceAccount{}) })
}

func service(name, labels string) string {
	return "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", labels: {" + labels +
		"}, namespace: NS}\nspec: {selector: {app: " + name + "}, ports: [{port: 80, appProtocol: http}]}"
}

func target(services ...string) string {
	var refs []string
	for _, name := range services {
		refs = append(refs, `{group: "", kind: Service, name: `+name+"}")
	}
	return "targetRefs: [" + strings.Join(refs, ", ") + "], "
}

// serviceSays waits for our condition of a Service.
func (s *story) serviceSays(name, want, message string) {
	s.Helper()
	s.Eventually("Service "+name+" says "+want, func() error {
		var v corev1.Service
		if err := s.Get(name, &v); err != nil {
			return err
		}
		return expect(v.Status.Conditions, status.BoundCondition+" "+want, message)
	})
}

// policySays waits for our condition of an AuthorizationPolicy.
func (s *story) policySays(name, want, message string) {
	s.Helper()
	s.Eventually("AuthorizationPolicy "+name+" says "+want, func() error {
		var p securityv1.AuthorizationPolicy
		if err := s.Get(name, &p); err != nil {
			return err
		}
		for _, c := range p.Status.GetConditions() {
			if c.GetType() == status.PolicyCondition && c.GetStatus()+" "+c.GetReason() == want && strings.Contains(c.GetMessage(), message) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", p.Status.GetConditions())
	})
}

// routeSays waits for a condition of ours on an HTTPRoute with one parent.
func (s *story) routeSays(name, want, message string) {
	s.Helper()
	s.Eventually("HTTPRoute "+name+" says "+want, func() error {
		var r gatewayv1.HTTPRoute
		if err := s.Get(name, &r); err != nil {
			return err
		}
		if len(r.Status.Parents) != 1 || r.Status.Parents[0].ControllerName != gateway.ControllerName {
			return fmt.Errorf("parents %+v", r.Status.Parents)
		}
		return expect(r.Status.Parents[0].Conditions, want, message)
	})
}

// routeIsCurrent fails until what is said of an HTTPRoute is of its present version.
func (s *story) routeIsCurrent(name string) error {
	var r gatewayv1.HTTPRoute
	if err := s.Get(name, &r); err != nil {
		return err
	}
	for _, p := range r.Status.Parents {
		for _, c := range p.Conditions {
			if c.ObservedGeneration != r.Generation {
				return fmt.Errorf("said of generation %d, now it is %d", c.ObservedGeneration, r.Generation)
			}
		}
	}
	return nil
}

// TestClassWithDefaults: overlays for all Gateways of a class, and a class whose
// overlays cannot be used.
func TestClassWithDefaults(t *testing.T) {
	s := newStory(t)
	s.Apply(`apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: NS}
spec: {controllerName: waypoint-mesh.dev/waypoint-controller, parametersRef: {group: "", kind: ConfigMap, name: defaults, namespace: NS}}`)
	classSays := func(want, message string) {
		t.Helper()
		s.Eventually("the class says "+want, func() error {
			var class gatewayv1.GatewayClass
			if err := s.server.Client.Get(s.Context(), client.ObjectKey{Name: s.ns}, &class); err != nil {
				return err
			}
			return expect(class.Status.Conditions, want, message)
		})
	}
	classSays("Accepted False InvalidParameters", "there is no ConfigMap "+s.ns+"/defaults")
	defaults := func(data string) {
		t.Helper()
		s.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: defaults, namespace: NS}\ndata: " + data)
	}
	defaults(`{daemonSet: "spec: {}"}`)
	classSays("Accepted False InvalidParameters", `the key "daemonSet" means nothing here`)
	defaults(`{podDisruptionBudget: "spec: {minAvailable: 1}"}`)
	classSays("Accepted True Accepted", "")
	s.Apply(strings.Replace(waypointGateway, "gatewayClassName: waypoint", "gatewayClassName: NS", 1))
	s.gatewaySays("Accepted True Accepted", "")
	if err := s.Get("waypoint", &policyv1.PodDisruptionBudget{}); err != nil {
		t.Error(err)
	}
	defaults(`{}`)
	s.Eventually("the budget goes with its key", func() error {
		if err := s.Get("waypoint", &policyv1.PodDisruptionBudget{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}
