package kubectl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
)

// clusterOf is an API server that has these objects, as YAML, and no others.
func clusterOf(t *testing.T, refuse interceptor.Funcs, manifests string) *Cluster {
	t.Helper()
	scheme, err := feed.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(refuse)
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	for doc := range strings.SplitSeq(manifests, "---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		obj, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		b = b.WithObjects(obj.(client.Object)).WithStatusSubresource(obj.(client.Object))
	}
	return &Cluster{Client: b.Build(), Namespace: "shop"}
}

// anything is refused to nobody.
var anything interceptor.Funcs

const class = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: waypoint}
spec: {controllerName: waypoint-mesh.dev/waypoint-controller}
status: {conditions: [{type: Accepted, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
---
`

const waypoint = class + `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop, generation: 2}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
status:
  addresses: [{type: Hostname, value: waypoint.shop.svc.cluster.local}]
  conditions:
  - {type: Programmed, status: "True", reason: Programmed, message: Serving, observedGeneration: 2, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Accepted, status: "True", reason: Accepted, message: Served, observedGeneration: 2, lastTransitionTime: "2026-01-01T00:00:00Z"}
---
`

// podOf is a pod of the waypoint.
func podOf(name string, ready corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "waypoint"},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "helper"}, {Name: "waypoint"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

func contains(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: no %q in\n%s", what, w, got)
		}
	}
}
