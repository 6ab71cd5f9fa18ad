package mesh

import (
	"context"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
	"github.com/waypoint-mesh/waypoint/test/gatewayapi"
)

// TestMeshConformance is the Gateway API's conformance suite, against what istiod
// and our controller make of its objects, twice: with requests that are made and
// looked at here, and as the program that others run too, which has the clients in
// its pods make them. Both connect to where istiod says.
func TestMeshConformance(t *testing.T) {
	s := lab.NewStory(t)
	namespaces := map[string]*lab.Story{}
	clients := map[string]*lab.Client{}
	for _, name := range []string{gatewayapi.Namespace, gatewayapi.ConsumerNamespace} {
		own := *s
		own.NS = name
		own.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: NS}")
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(s.Logs(name))
			}
			if err := s.Client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Error(err)
			}
		})
		namespaces[name], clients[name] = &own, own.NewClient("default")
	}
	mesh := namespaces[gatewayapi.Namespace]
	mesh.Apply(waypointGateway)
	mesh.Programmed(gatewayapi.Waypoint)

	scheme, err := gatewayapi.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	gatewayapi.Run(t, gatewayapi.Mesh{
		API: api,
		Dial: func(ctx context.Context, from *corev1.Pod, target string) (net.Conn, error) {
			return clients[from.Namespace].Dial(ctx, target)
		},
		Ready: func() {
			for _, own := range namespaces {
				own.Capture()
			}
			for service := range strings.FieldsSeq("echo echo-v1 echo-v2") {
				s.Eventually("istiod sends clients to the waypoint", func() error { return hasWaypoint(mesh, service, mesh.NS, gatewayapi.Waypoint) })
			}
		},
	})
	for name := range namespaces {
		pods, err := s.Pods(t.Context(), name, "app=echo")
		if err != nil {
			t.Fatal(err)
		}
		for i := range pods {
			s.CaptureOutbound(&pods[i])
		}
	}
	t.Run("program", func(t *testing.T) {
		log, err := s.Suite(t.Context())
		if passed := strings.Count(log, "\n    --- PASS: "); err != nil || passed != gatewayapi.NumberOfTests {
			t.Errorf("%d tests passed, want %d: %v\n%s", passed, gatewayapi.NumberOfTests, err, log)
		}
	})
}
