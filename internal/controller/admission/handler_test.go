package admission

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

func newHandler(t *testing.T, gateways ...discovery.Gateway) *Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, gatewayv1.Install, networkingv1.AddToScheme, securityv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return &Handler{
		Scheme:  scheme,
		Gateway: func(g discovery.Gateway) bool { return slices.Contains(gateways, g) },
		Any:     func() bool { return len(gateways) > 0 },
	}
}

func request(t *testing.T, now, before string) admission.Request {
	t.Helper()
	raw := func(doc string) runtime.RawExtension {
		if doc == "" {
			return runtime.RawExtension{}
		}
		js, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: js}
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(now), &kind); err != nil {
		t.Fatal(err)
	}
	gvk := kind.GroupVersionKind()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: raw(now), OldObject: raw(before),
		Kind: metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
	}}
	if before != "" {
		r.Operation = admissionv1.Update
	}
	return r
}

// route with a path, metadata and a parent.
func route(meta, parent, path string) string {
	return `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop` + meta + `}
spec: {parentRefs: [` + parent + `], rules: [{matches: [{path: {value: ` + path + `}}]}]}`
}

const (
	service = `{group: "", kind: Service, name: cart}`
	policy  = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: shop}
spec: {targetRefs: [{group: "", kind: Service, name: cart}], rules: [{from: [{source: {ipBlocks: [%]}}]}]}`
)

func TestHandle(t *testing.T) {
	ours := discovery.Gateway{Namespace: "shop", Name: "waypoint"}
	for name, c := range map[string]struct {
		gateways    []discovery.Gateway
		now, before string
		denied      string // what the answer says; empty: allowed
		warning     string
	}{
		"right":                 {gateways: []discovery.Gateway{ours}, now: route("", service, "/a")},
		"wrong":                 {gateways: []discovery.Gateway{ours}, now: route("", service, "a"), denied: "spec.rules[0].matches[0].path.value"},
		"no Gateway of ours":    {now: route("", service, "a"), warning: "path.value"},
		"on a Gateway of ours":  {gateways: []discovery.Gateway{ours}, now: route("", "{name: waypoint}", "a"), denied: "path.value"},
		"on somebody's Gateway": {gateways: []discovery.Gateway{ours}, now: route("", "{name: ingress}", "a"), warning: "path.value"},
		"the fault was there":   {gateways: []discovery.Gateway{ours}, now: route(", labels: {a: b}", service, "a"), before: route("", service, "a"), warning: "path.value"},
		"another fault":         {gateways: []discovery.Gateway{ours}, now: route("", service, "b"), before: route("", service, "/a"), denied: "path.value"},
		"the specification is as it was": {
			gateways: []discovery.Gateway{ours}, now: route(", generation: 2, finalizers: []", service, "a"),
			before: route(", generation: 2, finalizers: [x/y]", service, "/older"), warning: "path.value",
		},
		"it is being deleted": {
			gateways: []discovery.Gateway{ours}, now: route(`, deletionTimestamp: "2030-01-01T00:00:00Z"`, service, "a"),
			before: route("", service, "/a"), warning: "path.value",
		},
		"a policy":        {gateways: []discovery.Gateway{ours}, now: strings.ReplaceAll(policy, "%", "300.1.1.1"), denied: "ipBlocks[0]"},
		"another kind":    {gateways: []discovery.Gateway{ours}, now: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}"},
		"an unread field": {gateways: []discovery.Gateway{ours}, now: route("", service, "/a}, fromTheFuture: {a: b"), warning: "fromTheFuture"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newHandler(t, c.gateways...).Handle(t.Context(), request(t, c.now, c.before))
			if got.Allowed != (c.denied == "") || got.Result.Code == http.StatusBadRequest {
				t.Fatalf("allowed %v: %v", got.Allowed, got.Result)
			}
			if !strings.Contains(got.Result.Message, c.denied) {
				t.Errorf("said %q, want %q in it", got.Result.Message, c.denied)
			}
			if warnings := strings.Join(got.Warnings, "\n"); !strings.Contains(warnings, c.warning) || c.warning == "" && c.denied == "" && warnings != "" {
				t.Errorf("warned %q, want %q in it", warnings, c.warning)
			}
		})
	}
}

func TestDeletionsAreNotAskedAbout(t *testing.T) {
	r := request(t, route("", service, "a"), "")
	r.Operation = admissionv1.Delete
	if !newHandler(t, discovery.Gateway{Namespace: "shop", Name: "waypoint"}).Handle(t.Context(), r).Allowed {
		t.Error("a deletion is refused")
	}
}
