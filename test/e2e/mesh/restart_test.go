package mesh

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// TestStatusesOutliveRestarts: neither control plane touches what the other wrote,
// nor what it wrote itself, when it comes back and finds everything as it left it.
func TestStatusesOutliveRestarts(t *testing.T) {
	s := newShop(t, cartRoute, cartPolicy)
	serviceSays(s, "cart", "istio.io/WaypointBound", "True")
	routeSays(s, "cart", "Accepted True Accepted", "")
	policySays(s, "cart", "WaypointAccepted True", "")
	policySays(s, "cart", "waypoint-mesh.dev/Enforced True", "")
	before := versions(s)

	load := s.Load("web", "http://cart/")
	defer load.End()
	s.Down("istiod", func() { load.More(50) })
	fence(s, "one")
	if after := versions(s); after != before {
		t.Errorf("after a restart of istiod, written was\n%swas\n%s", after, before)
	}
	s.Restart(lab.ControllerNamespace, "waypoint-controller")
	fence(s, "two")
	if after := versions(s); after != before {
		t.Errorf("after a restart of the controller, written was\n%swas\n%s", after, before)
	}
	s.Answers(s.HTTP("other"), http.MethodGet, "http://cart/", 403, "")
}

// fence has both control planes say something new, so that they have looked at what
// was there before.
func fence(s *lab.Story, name string) {
	s.Helper()
	s.Apply(strings.ReplaceAll(waypointGateway, "name: waypoint", "name: waypoint-"+name) + `apiVersion: v1
kind: Service
metadata: {name: ` + name + `, namespace: NS, labels: {istio.io/use-waypoint: waypoint-` + name + `}}
spec: {ports: [{name: http, port: 80}]}
---
` + strings.ReplaceAll(cartPolicy, "name: cart", "name: "+name))
	s.Programmed("waypoint-" + name)
	serviceSays(s, name, "istio.io/WaypointBound", "True")
	policySays(s, name, "WaypointAccepted True", "")
	policySays(s, name, "waypoint-mesh.dev/Enforced True", "")
}

// versions tells of every write to the objects of the shop.
func versions(s *lab.Story) string {
	s.Helper()
	var list strings.Builder
	for _, each := range []struct {
		name string
		obj  client.Object
	}{
		{"waypoint", &gatewayv1.Gateway{}},
		{"waypoint", &appsv1.Deployment{}},
		{"waypoint", &corev1.Service{}},
		{"waypoint", &corev1.ServiceAccount{}},
		{"cart", &corev1.Service{}},
		{"cart", &gatewayv1.HTTPRoute{}},
		{"cart", &securityv1.AuthorizationPolicy{}},
	} {
		if err := s.Get(each.name, each.obj); err != nil {
			s.Fatal(err)
		}
		fmt.Fprintf(&list, "%T %s %s\n", each.obj, each.name, each.obj.GetResourceVersion())
	}
	return list.String()
}
