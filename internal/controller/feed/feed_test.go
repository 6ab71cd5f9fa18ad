package feed

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// recorder is a sink that remembers a turn.
type recorder struct {
	sent       []string
	recomputed int
	forgotten  []discovery.Gateway
	touched    map[string]bool
}

func (r *recorder) Update(g discovery.Gateway, c translate.Changes) (int, error) {
	for _, res := range c.Upserted {
		r.sent = append(r.sent, g.Name+" + "+res.Key.String())
	}
	for _, key := range c.Removed {
		r.sent = append(r.sent, g.Name+" - "+key.String())
	}
	r.recomputed += c.Recomputed
	return len(c.Upserted) + len(c.Removed), nil
}

func (r *recorder) Forget(g discovery.Gateway) { r.forgotten = append(r.forgotten, g) }

func (r *recorder) Touched(key translate.Key) { r.touched[key.String()] = true }

// rig is a feed whose turns are made by the test.
type rig struct {
	t    *testing.T
	feed *Feed
	sink *recorder
}

func newRig(t *testing.T) *rig {
	sink := &recorder{}
	return &rig{t, New(Options{
		ControllerName: "waypoint-mesh.dev/waypoint-controller", Sink: sink, Log: slog.New(slog.DiscardHandler),
	}), sink}
}

// apply makes a turn with objects and returns what it did.
func (r *rig) apply(docs ...string) *recorder {
	r.t.Helper()
	for _, doc := range docs {
		for one := range strings.SplitSeq(doc, "\n---\n") {
			obj, err := translate.Decode([]byte(one))
			if err != nil {
				r.t.Fatal(err)
			}
			r.feed.inbox.put(translate.KeyOf(obj), obj)
		}
	}
	return r.turn()
}

func (r *rig) remove(keys ...translate.Key) *recorder {
	for _, key := range keys {
		r.feed.inbox.put(key, nil)
	}
	return r.turn()
}

func (r *rig) turn() *recorder {
	*r.sink = recorder{touched: map[string]bool{}}
	r.feed.turn(r.feed.inbox.take())
	return r.sink
}

const mesh = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: waypoint}
spec: {controllerName: waypoint-mesh.dev/waypoint-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: other}
spec: {controllerName: example.com/other}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: one, namespace: shop}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: two, namespace: bank}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: foreign, namespace: shop}
spec: {gatewayClassName: other, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio.io/use-waypoint: one}}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop, resourceVersion: "1"}
spec: {clusterIP: 10.0.0.1, selector: {app: cart}, ports: [{port: 80, targetPort: 8080, appProtocol: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: stock, namespace: shop, resourceVersion: "1"}
spec: {clusterIP: 10.0.0.2, selector: {app: stock}, ports: [{port: 80, targetPort: 8080, appProtocol: http}]}`

func route(generation int, path string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop, generation: %d, uid: a}
spec:
  parentRefs: [{group: "", kind: Service, name: cart}]
  rules: [{matches: [{path: {type: PathPrefix, value: %s}}], backendRefs: [{name: cart, port: 80}]}]`, generation, path)
}

func cart(target int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop, resourceVersion: "%d"}
spec: {clusterIP: 10.0.0.1, selector: {app: cart}, ports: [{port: 80, targetPort: %d, appProtocol: http}]}`, target, target)
}

func endpoints(address string) string {
	return fmt.Sprintf(`apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}, resourceVersion: %q}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [%s]}]`, address, address)
}

const policy = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: shop}
spec: {targetRefs: [{group: "", kind: Service, name: cart}], rules: [{to: [{operation: {methods: [GET]}}]}]}`

func TestEachGatewayOfOursHasATranslator(t *testing.T) {
	r := newRig(t)
	r.apply(mesh)
	got := slices.Sorted(maps.Keys(mapOf(r.feed)))
	if want := []string{"bank/two", "shop/one"}; !slices.Equal(got, want) {
		t.Fatalf("translators for %v, want %v", got, want)
	}
	if !r.feed.Gateway(discovery.Gateway{Namespace: "shop", Name: "one"}) || r.feed.Gateway(discovery.Gateway{Namespace: "shop", Name: "foreign"}) {
		t.Error("Gateway mistakes which are ours")
	}
	forgotten := r.remove(translate.Key{Kind: "Gateway", Namespace: "bank", Name: "two"}).forgotten
	if want := []discovery.Gateway{{Namespace: "bank", Name: "two"}}; !slices.Equal(forgotten, want) {
		t.Errorf("forgot %v, want %v", forgotten, want)
	}
	// A class that changes hands takes its Gateways along.
	forgotten = r.remove(translate.Key{Kind: "GatewayClass", Name: "waypoint"}).forgotten
	if want := []discovery.Gateway{{Namespace: "shop", Name: "one"}}; !slices.Equal(forgotten, want) {
		t.Errorf("forgot %v, want %v", forgotten, want)
	}
}

func mapOf(f *Feed) map[string]bool {
	names := make(map[string]bool)
	for g := range f.translators {
		names[g.String()] = true
	}
	return names
}

func TestAChangeCostsWhatDependsOnIt(t *testing.T) {
	const endpoint = "istio.workload.Address Kubernetes/discovery.k8s.io/EndpointSlice/shop/cart/"
	r := newRig(t)
	r.apply(mesh, route(1, "/a"), policy)
	for _, c := range []struct {
		name       string
		change     string
		recomputed int // in both translators
		sent       []string
		touched    string
	}{
		{"a route's rule", route(2, "/b"), 2, []string{"one + waypoint.v1.Route HTTPRoute/shop/cart"}, "HTTPRoute shop/cart"},
		{"a route's status", route(2, "/b"), 0, nil, "HTTPRoute shop/cart"},
		{
			"a Service's port: itself, its route and its policy", cart(8081), 6,
			[]string{"one + istio.workload.Address shop/cart.shop.svc.cluster.local", "two + istio.workload.Address shop/cart.shop.svc.cluster.local"},
			"Service shop/cart",
		},
		{
			"a first EndpointSlice", endpoints("10.1.0.1"), 2,
			[]string{"one + " + endpoint + "10.1.0.1", "two + " + endpoint + "10.1.0.1"},
			"EndpointSlice shop/cart-1",
		},
		{
			"its endpoint", endpoints("10.1.0.2"), 2, []string{
				"one + " + endpoint + "10.1.0.2", "one - " + endpoint + "10.1.0.1", "two + " + endpoint + "10.1.0.2", "two - " + endpoint + "10.1.0.1",
			}, "EndpointSlice shop/cart-1",
		},
		{
			"a Node's heartbeat", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1, resourceVersion: \"7\"}", 0, nil, "Node node-1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.apply(c.change)
			if got.recomputed != c.recomputed || !slices.Equal(slices.Sorted(slices.Values(got.sent)), c.sent) {
				t.Errorf("recomputed %d and sent %q, want %d and %q", got.recomputed, got.sent, c.recomputed, c.sent)
			}
			if !got.touched[c.touched] {
				t.Errorf("%s may need another status, and nobody was told: %v", c.touched, got.touched)
			}
		})
	}
}

// TestOwnStatusCostsNothing: Services have no generation, and conditions that we
// write ourselves.
func TestOwnStatusCostsNothing(t *testing.T) {
	r := newRig(t)
	r.apply(mesh)
	docs := strings.Split(mesh, "\n---\n")
	cart := docs[slices.IndexFunc(docs, func(doc string) bool { return strings.Contains(doc, "name: cart") })]
	changed := strings.Replace(cart, `"1"`, `"2"`, 1) + "\nstatus: {conditions: [{type: a, status: \"True\"}]}"
	if got := r.apply(changed); got.recomputed != 0 {
		t.Errorf("recomputed %d, want 0", got.recomputed)
	}
	if got := r.apply(strings.Replace(changed, "targetPort: 8080", "targetPort: 8081", 1)); got.recomputed == 0 {
		t.Error("another port changes nothing")
	}
}

// TestWhatEverybodySays depends on is touched for everybody: whether a waypoint has
// an address, whether there is an istiod, whether another revision serves Gateways.
func TestWhatEverybodySays(t *testing.T) {
	r := newRig(t)
	r.feed.o.Serves = func(g *gatewayv1.Gateway, _ map[string]string) bool { return g.Labels["istio.io/rev"] == "" }
	r.apply(mesh, route(1, "/a"), policy)
	key := translate.Key{Kind: "HTTPRoute", Namespace: "shop", Name: "cart"}
	gateway := strings.Split(mesh, "\n---\n")[2]
	for _, c := range []struct {
		name, change        string
		idle, alone, shared bool
	}{
		{"nothing", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}", true, true, false},
		{"the waypoint has an address", gateway + "\nstatus: {addresses: [{value: a}]}", false, true, false},
		{"there is an istiod", "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: istio-waypoint}", false, false, false},
		{
			"another revision", strings.NewReplacer("name: one, namespace: shop", "name: three, namespace: shop, labels: {istio.io/rev: x}").Replace(gateway),
			false, false, true,
		},
	} {
		got := r.apply(c.change)
		if c.name != "nothing" && !got.touched[key.String()] {
			t.Errorf("%s: the route is not looked at again", c.name)
		}
		report, _ := r.feed.Report(key)
		if len(report.Parents) != 1 || report.Parents[0].Idle != c.idle || report.Alone != c.alone || report.Shared != c.shared {
			t.Errorf("%s: %+v", c.name, report)
		}
	}
	if n := len(r.feed.Gateways()); n != 2 {
		t.Errorf("%d Gateways, want those that are ours to serve", n)
	}
}

func TestReport(t *testing.T) {
	r := newRig(t)
	r.apply(mesh, route(1, "/a"), policy)
	report, ok := r.feed.Report(translate.Key{Kind: "HTTPRoute", Namespace: "shop", Name: "cart"})
	if !ok || len(report.Parents) != 1 || !report.Parents[0].Accepted.Status {
		t.Errorf("route: %v %+v", ok, report)
	}
	key := translate.Key{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "p"}
	if report, _ = r.feed.Report(key); len(report.Targets) != 1 || !report.Targets[0].Enforced() || !report.Targets[0].Idle {
		t.Errorf("policy: %+v", report)
	}
	r.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}") // no waypoint any more
	if report, _ = r.feed.Report(key); len(report.Targets) != 1 || report.Targets[0].Enforced() || len(report.By) == 0 {
		t.Errorf("policy without a waypoint: %+v", report)
	}
	r.remove(key)
	if _, ok = r.feed.Report(key); ok {
		t.Error("a report on what is gone")
	}
	broken := &gatewayv1.HTTPRoute{}
	broken.Name, broken.Namespace = "x", "shop"
	broken.Spec.Rules = []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: new("no-slash")}}}}}
	if faults := Faults(broken); len(faults) == 0 || faults[0].Severity != translate.Error {
		t.Errorf("faults %v", faults)
	}
}

// TestNothingIsServedBeforeEverythingIsListed: half of a mesh would have waypoints
// drop the other half.
func TestNothingIsServedBeforeEverythingIsListed(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	listed, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.feed.Run(ctx, listed)
	}()
	obj, err := translate.Decode([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}"))
	if err != nil {
		t.Fatal(err)
	}
	r.feed.inbox.put(translate.KeyOf(obj), obj)
	select {
	case <-r.feed.Synced():
		t.Fatal("synced before everything was listed")
	default:
	}
	r.sink.touched = map[string]bool{}
	close(listed)
	<-r.feed.Synced()
	cancel()
	<-ended
	if !r.sink.touched["Namespace shop"] {
		t.Error("what was there at the start is not handed on")
	}
}

func TestKindsAreThoseOfTranslate(t *testing.T) {
	var got, want []string
	for _, obj := range Kinds() {
		got = append(got, translate.KeyOf(obj).Kind)
	}
	for _, kind := range translate.Kinds() {
		want = append(want, kind.Name)
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("followed are %v, translated %v", got, want)
	}
}

func TestTrimKeepsWhatIsRead(t *testing.T) {
	p := &corev1.Pod{}
	p.Spec.ServiceAccountName = "sa"
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c"}}
	got, err := Trim(p)
	want := &corev1.Pod{}
	want.Spec.ServiceAccountName = "sa"
	want.Spec.Containers = []corev1.Container{{Name: "c", Ports: p.Spec.Containers[0].Ports}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}
