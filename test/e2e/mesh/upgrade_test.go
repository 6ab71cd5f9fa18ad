package mesh

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// TestComingFromIstio: what was written for Istio's own waypoints works unchanged but
// for the name of the class.
func TestComingFromIstio(t *testing.T) {
	manifests, err := os.ReadFile("testdata/istio.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := lab.NewStory(t)
	s.Apply(strings.ReplaceAll(string(manifests), "gatewayClassName: istio-waypoint", "gatewayClassName: waypoint"))
	s.Apply(lab.EchoApp("cart", "v1", "v2"))
	s.Apply(strings.ReplaceAll(lab.EchoApp("stock", "v1"), "namespace: NS}", "namespace: NS-other}"))
	s.Patch(&corev1.Service{}, s.NS+"-other", "stock",
		s.Own(`{"metadata":{"labels":{"istio.io/use-waypoint":"waypoint","istio.io/use-waypoint-namespace":"NS"}}}`))
	s.Programmed("waypoint")
	s.Available("cart-v1", "cart-v2")
	s.Capture()
	s.CaptureIn(s.NS + "-other")

	for _, host := range []string{"cart", "stock." + s.NS + "-other"} {
		s.Eventually("istiod sends clients to the waypoint", func() error { return hasWaypoint(s, host, s.NS, "waypoint") })
	}

	web := s.HTTP("web")
	s.Answers(web, http.MethodGet, "http://cart/", 200, "v1")
	s.Answers(web, http.MethodGet, "http://cart/", 200, "v2")
	s.Answers(web, http.MethodGet, "http://cart/admin/x", 403, "")
	s.Answers(web, http.MethodPost, "http://cart/", 403, "")
	s.Answers(s.HTTP("other"), http.MethodGet, "http://cart/", 403, "")
	// Of another namespace, which the waypoint serves too.
	s.Answers(web, http.MethodGet, "http://stock."+s.NS+"-other/", 200, "v1")
	s.Answers(web, http.MethodGet, "http://stock."+s.NS+"-other/admin/x", 403, "")

	serviceSays(s, "cart", "istio.io/WaypointBound", metav1.ConditionTrue)
	routeSays(s, "cart", "Accepted True Accepted", "")
	policySays(s, "cart-waypoint", "waypoint-mesh.dev/Enforced True", "In force")
	policySays(s, "no-admin", "waypoint-mesh.dev/Enforced True", "In force")
	policySays(s, "cart-ztunnel", "ZtunnelAccepted True", "")

	t.Log("pods with a waypoint of their own")
	s.Programmed("cart-v2-pod-waypoint")
	s.Patch(&appsv1.Deployment{}, s.NS, "cart-v2",
		`{"spec":{"template":{"metadata":{"labels":{"istio.io/use-waypoint":"cart-v2-pod-waypoint"}}}}}`)
	s.Available("cart-v2")
	s.Capture()
	pod := s.PodsOf("app=cart,version=v2")[0]
	s.Eventually("istiod sends the pod's clients to its waypoint", func() error {
		if w, _ := s.Directory.Workload(pod.Status.PodIP); w.Waypoint == nil {
			return fmt.Errorf("%+v", w)
		}
		return nil
	})
	s.Answers(web, http.MethodGet, "http://"+pod.Status.PodIP+":8080/", 200, "v2")
	for _, c := range s.NodeProxy(pod.Status.PodIP).Connects() {
		if c.Peer.ServiceAccount != "cart-v2-pod-waypoint" {
			t.Errorf("%s called the pod's address and did not go through the pod's waypoint", c.Peer)
		}
	}
}
