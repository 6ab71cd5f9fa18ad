package admission

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

func newHandler(t testing.TB, gateways ...discovery.Gateway) *Handler {
	t.Helper()
	return &Handler{
		Gateway: func(g discovery.Gateway) bool { return slices.Contains(gateways, g) },
		Any:     func() bool { return len(gateways) > 0 },
		// The Service cart has a waypoint, if there is any.
		Fronts: func(key translate.Key) bool {
			return len(gateways) > 0 && key == translate.Key{Kind: "Service", Namespace: "shop", Name: "cart"}
		},
	}
}

func request(t testing.TB, now, before string) admission.Request {
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

func policyOn(ref string) string {
	return strings.Replace(strings.ReplaceAll(policy, "%", "300.1.1.1"), `{group: "", kind: Service, name: cart}`, ref, 1)
}

// rules is a route with a rule for each path.
func rules(parent string, paths ...string) string {
	return route("", parent, strings.Join(paths, "}}]}, {matches: [{path: {value: "))
}

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
		"a policy": {gateways: []discovery.Gateway{ours}, now: strings.ReplaceAll(policy, "%", "300.1.1.1"), denied: "ipBlocks[0]"},
		"a policy on somebody's Gateway": {
			gateways: []discovery.Gateway{ours}, now: policyOn(`{group: gateway.networking.k8s.io, kind: Gateway, name: istio}`), warning: "ipBlocks[0]",
		},
		"a policy on ours": {
			gateways: []discovery.Gateway{ours}, now: policyOn(`{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}`), denied: "ipBlocks[0]",
		},
		"a policy for a class": {
			gateways: []discovery.Gateway{ours}, now: policyOn(`{group: gateway.networking.k8s.io, kind: GatewayClass, name: waypoint}`), denied: "ipBlocks[0]",
		},
		"a policy on pods": {gateways: []discovery.Gateway{ours}, now: strings.Replace(strings.ReplaceAll(policy, "%", "300.1.1.1"),
			`targetRefs: [{group: "", kind: Service, name: cart}]`, "selector: {matchLabels: {app: a}}", 1), warning: "ipBlocks[0]"},
		"a Service of somebody's waypoint": {
			gateways: []discovery.Gateway{ours}, now: route("", `{group: "", kind: Service, name: other}`, "a"), warning: "path.value",
		},
		"a Service of another namespace": {
			gateways: []discovery.Gateway{ours}, now: strings.Replace(route("", `{group: "", kind: Service, name: cart, namespace: shop}`, "a"), "namespace: shop}\nspec", "namespace: bank}\nspec", 1), denied: "path.value",
		},
		"a fault has moved": {
			gateways: []discovery.Gateway{ours}, now: route("", service, "a"), before: rules(service, "/right", "a"), warning: "path.value",
		},
		"one of two faults is mended": {
			gateways: []discovery.Gateway{ours}, now: rules(service, "/right", "a"), before: rules(service, "a", "a"), warning: "path.value",
		},
		"the same fault twice": {
			gateways: []discovery.Gateway{ours}, now: rules(service, "a", "a"), before: rules(service, "a", "/right"), denied: "rules[1].matches[0].path.value",
		},
		"what was stored cannot be read": {
			gateways: []discovery.Gateway{ours}, now: route("", service, "a"), before: strings.Replace(route("", service, "/a"), "rules: [", "hostnames: 5, rules: [", 1), warning: "path.value",
		},
		"it cannot be read": {
			gateways: []discovery.Gateway{ours}, now: strings.Replace(route("", service, "/a"), "rules: [", "hostnames: 5, rules: [", 1), warning: "cannot read the object",
		},
		"an older version": {
			gateways: []discovery.Gateway{ours}, now: strings.Replace(route("", service, "a"), "k8s.io/v1", "k8s.io/v1beta1", 1), denied: "path.value",
		},
		"an older version of a policy": {
			gateways: []discovery.Gateway{ours}, now: strings.Replace(strings.ReplaceAll(policy, "%", "300.1.1.1"), "istio.io/v1", "istio.io/v1beta1", 1), denied: "ipBlocks[0]",
		},
		"a version from the future": {
			gateways: []discovery.Gateway{ours}, now: strings.Replace(route("", service, "a"), "k8s.io/v1", "k8s.io/v9", 1),
		},
		"a Gateway of Istio's own API": {
			gateways: []discovery.Gateway{ours}, now: "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop}\nspec: {selector: {a: b}}",
		},
		"a status from the future": {
			gateways: []discovery.Gateway{ours}, now: route("", service, "/a") + "\nstatus: {parents: [], fromTheFuture: 1}",
		},
		"a thousand faults": {
			gateways: []discovery.Gateway{ours}, now: rules(service, slices.Repeat([]string{"a"}, 1000)...), denied: "and 992 more",
		},
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
