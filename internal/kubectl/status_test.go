package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// mesh is a namespace with services of every kind, of which the waypoint has some.
const mesh = waypoint + `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio.io/use-waypoint: waypoint, istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Namespace
metadata: {name: legacy}
---
apiVersion: v1
kind: Namespace
metadata: {name: guest}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {clusterIP: 10.0.0.1, selector: {app: cart}, ports: [{port: 80, appProtocol: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{port: 5432, appProtocol: tcp}]}
---
apiVersion: v1
kind: Service
metadata: {name: admin, namespace: shop, labels: {istio.io/use-waypoint: none}}
spec: {clusterIP: 10.0.0.2, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: shop, labels: {istio.io/use-waypoint: none, gateway.networking.k8s.io/gateway-name: waypoint}}
spec: {clusterIP: 10.0.0.3, ports: [{port: 15008}]}
---
apiVersion: v1
kind: Service
metadata: {name: lost, namespace: shop, labels: {istio.io/use-waypoint: gone}}
spec: {clusterIP: 10.0.0.4, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: guest, namespace: guest, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop}}
spec: {clusterIP: 10.0.0.5, ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec: {parentRefs: [{group: "", kind: Service, name: cart, port: 80}], rules: [{backendRefs: [{name: gone, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: admin, namespace: shop}
spec: {parentRefs: [{group: "", kind: Service, name: admin}], rules: [{backendRefs: [{name: admin, port: 80}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec: {targetRefs: [{group: "", kind: Service, name: cart}], rules: [{to: [{operation: {methods: [GET]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: nothing, namespace: shop}
spec: {targetRefs: [{group: "", kind: Service, name: admin}], rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: other, namespace: legacy}
spec: {targetRefs: [{group: "", kind: Service, name: admin}], rules: [{}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ingress, namespace: legacy}
spec: {gatewayClassName: nginx, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: public, namespace: legacy}
spec: {parentRefs: [{name: ingress}], rules: [{backendRefs: [{name: cart, namespace: shop, port: 80}]}]}
---
`

func statusOf(t *testing.T, c *Cluster) (*Status, string) {
	t.Helper()
	gateways, err := c.Chosen(t.Context(), "waypoint", false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Status(t.Context(), gateways, Mesh{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return s, text.String()
}

func TestStatus(t *testing.T) {
	c := clusterOf(t, anything, mesh)
	for _, p := range []*corev1.Pod{podOf("w-1", corev1.ConditionTrue), podOf("w-2", corev1.ConditionFalse)} {
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	s, text := statusOf(t, c)
	contains(t, "what the waypoint has", text,
		"Waypoint shop/waypoint of class waypoint, for traffic of type service, revision default",
		"Programmed   True   Programmed: Serving", "Pods         1/2    ready", "Pod shop/w-2: not ready",
		"Service shop/cart     bound", "Service guest/guest   not bound   Gateway shop/waypoint does not let namespace guest use it",
		"HTTPRoute shop/cart   at Service shop/cart:80   ResolvedRefs False: BackendNotFound",
		"AuthorizationPolicy shop/cart   Enforced: In force on Service shop/cart",
	)
	contains(t, "what goes around it", text,
		"Service shop/admin, which is labelled istio.io/use-waypoint=none", "calls to Service shop/db, which is headless", "who calls a pod by its own address",
		"requests for Service shop/cart that Gateway legacy/ingress lets in by HTTPRoute legacy/public", "istio.io/ingress-use-waypoint=true",
		"istio.io/dataplane-mode=ambient are guest, legacy\n",
	)
	contains(t, "what does nothing", text,
		"Service shop/lost: Gateway shop/gone, which Service shop/lost asks for by label, does not exist",
		"HTTPRoute shop/admin: Service shop/admin: ", "AuthorizationPolicy shop/nothing: ",
	)
	for _, no := range []string{
		"Service shop/waypoint", // which is the waypoint's own
		"legacy/other",          // of a namespace that has nothing to do with it
		"Not seen", "Enforced: In force on Service shop/cart at the waypoint shop/waypoint. But",
	} {
		if strings.Contains(text, no) {
			t.Errorf("%q is in\n%s", no, text)
		}
	}
	if w := s.Waypoints[0]; w.Ready != 1 || w.Pods != 2 || w.Traffic != "service" || len(w.Services) != 3 {
		t.Errorf("%+v", w)
	}
}

func TestStatusOfWhatIsNotThereYet(t *testing.T) {
	c := clusterOf(t, anything, strings.Replace(mesh, "  addresses: [{type: Hostname, value: waypoint.shop.svc.cluster.local}]\n", "", 1))
	s, text := statusOf(t, c)
	contains(t, "around", text, "everything: the Gateway has no address", "WaypointIsNotReady")
	if w := s.Waypoints[0]; len(w.Around) != 1 {
		t.Errorf("everything, and more: %q", w.Around)
	}
}

// TestStatusByIngressLabel: the Service's own label goes before its namespace's.
func TestStatusByIngressLabel(t *testing.T) {
	for labels, around := range map[string]bool{
		"istio.io/ingress-use-waypoint: 'true'":  false,
		"istio.io/ingress-use-waypoint: 'false'": true,
	} {
		c := clusterOf(t, anything, strings.Replace(mesh, "metadata: {name: cart, namespace: shop}\nspec: {clusterIP",
			"metadata: {name: cart, namespace: shop, labels: {"+labels+"}}\nspec: {clusterIP", 1))
		s, _ := statusOf(t, c)
		got := slices.ContainsFunc(s.Waypoints[0].Around, func(a string) bool { return strings.Contains(a, "legacy/ingress") })
		if got != around {
			t.Errorf("%s: around %v, want %v", labels, got, around)
		}
	}
}

// TestStatusKeepsWhatOnlyTheControllerKnows: that a waypoint refuses a policy.
func TestStatusKeepsWhatOnlyTheControllerKnows(t *testing.T) {
	for name, c := range map[string]struct{ generation, want string }{
		"of this version": {"0", "RefusedByWaypoint: a waypoint of shop/waypoint refuses it"},
		"of an older one": {"-1", "Enforced: In force"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := `spec: {targetRefs: [{group: "", kind: Service, name: cart}], rules: [{to: [{operation: {methods: [GET]}}]}]}`
			_, text := statusOf(t, clusterOf(t, anything, strings.Replace(mesh, policy, policy+`
status: {conditions: [{type: waypoint-mesh.dev/Enforced, status: "False", reason: RefusedByWaypoint, observedGeneration: "`+c.generation+`", message: a waypoint of shop/waypoint refuses it}]}`, 1)))
			contains(t, name, text, "AuthorizationPolicy shop/cart   "+c.want)
		})
	}
}

// TestStatusWithFewRights: what may be seen is told, and what may not is named.
func TestStatusWithFewRights(t *testing.T) {
	refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*"), "List")
		_, single := map[string]bool{"v1.Namespace": true, "v1.GatewayClass": true, "v1.Pod": true}[kind]
		if options := new(client.ListOptions).ApplyOptions(o); single || options.Namespace == "" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("not for you"))
		}
		return c.List(ctx, list, o...)
	}}
	labelled := strings.Replace(mesh, "metadata: {name: cart, namespace: shop}\nspec: {clusterIP",
		"metadata: {name: cart, namespace: shop, labels: {istio.io/use-waypoint: waypoint}}\nspec: {clusterIP", 1)
	s, text := statusOf(t, clusterOf(t, refuse, labelled))
	contains(t, "few rights", text, "Service shop/cart", "bound", "Not seen, for want of rights", "HTTPRoutes of other namespaces than shop", "Pods of shop")
	if !slices.Contains(s.Unseen, "Namespaces") {
		t.Errorf("unseen is %q", s.Unseen)
	}
}

func TestListing(t *testing.T) {
	c := clusterOf(t, anything, waypoint+`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: strict, namespace: bank, labels: {istio.io/waypoint-for: all, istio.io/rev: canary}, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {gatewayClassName: waypoint, listeners: []}
---
`)
	l, err := c.Listing(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := l.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	contains(t, "list", text.String(), "bank        strict     canary     all            Unknown      0/0     -", "shop        waypoint   default    service        True")
	text.Reset()
	if l, err = c.Listing(t.Context(), "nowhere"); err != nil || l.WriteText(&text) != nil || !strings.HasPrefix(text.String(), "No waypoints found") {
		t.Errorf("%v, %q", err, text.String())
	}
	if _, err := c.Chosen(t.Context(), "", true); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllOf(t.Context(), &gatewayv1.Gateway{}, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Chosen(t.Context(), "", false); err == nil {
		t.Error("something is chosen of nothing")
	}
}
