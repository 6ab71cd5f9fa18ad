package mesh

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// cartLabel makes a Service's own label for its waypoint.
const cartLabel = `apiVersion: v1
kind: Service
metadata: {name: cart, namespace: NS, labels: {istio.io/use-waypoint: WAYPOINT}}
spec: {selector: {app: cart}, ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]}
---
`

// TestStatusTellsWhatTrafficMeets: whatever is right or wrong with what a user
// applies, the status says what requests then get. Each case changes something in a
// shop that works, where cart lets web read and nobody else do anything.
func TestStatusTellsWhatTrafficMeets(t *testing.T) {
	s := newShop(t, cartRoute, cartPolicy)
	healthy := func() {
		t.Helper()
		s.Apply(strings.ReplaceAll(cartLabel, "WAYPOINT", "waypoint") + waypointGateway + cartRoute + cartPolicy)
		s.GatewaySays("waypoint", "Accepted True Accepted", "")
		routeSays(s, "cart", "Accepted True Accepted", "")
		routeSays(s, "cart", "ResolvedRefs True ResolvedRefs", "")
		policySays(s, "cart", "waypoint-mesh.dev/Enforced True", "In force on Service "+s.NS+"/cart at the waypoint "+s.NS+"/waypoint")
		s.Eventually("clients are sent to the waypoint", func() error { return hasWaypoint(s, "cart", s.NS, "waypoint") })
		gets(s, "web", "http://cart/", 200)
		gets(s, "other", "http://cart/", 403)
	}
	cases := []struct {
		name   string
		change string
		says   func()
		web    int // what web gets
		other  int // what others get
	}{
		{
			"the route's destination does not exist", strings.ReplaceAll(cartRoute, "name: cart-v1", "name: cart-v9"),
			func() {
				routeSays(s, "cart", "Accepted True Accepted", "")
				routeSays(s, "cart", "ResolvedRefs False BackendNotFound", "cart-v9")
			},
			500, 403,
		},
		{
			"the route's parent has no such port", strings.Replace(cartRoute, "name: cart}]\n", "name: cart, port: 81}]\n", 1),
			func() { routeSays(s, "cart", "Accepted False NoMatchingParent", "has no port") },
			200, 403,
		},
		{
			"the Service opts out", strings.ReplaceAll(cartLabel, "WAYPOINT", "none"),
			func() { policySays(s, "cart", "waypoint-mesh.dev/Enforced False", "nothing enforces the policy") },
			200, 200,
		},
		{
			"the Service's waypoint does not exist", strings.ReplaceAll(cartLabel, "WAYPOINT", "misspelt"),
			func() {
				serviceSays(s, "cart", "istio.io/WaypointBound", metav1.ConditionFalse)
				policySays(s, "cart", "waypoint-mesh.dev/Enforced False", "misspelt")
			},
			200, 200,
		},
		{
			"the waypoint is for pods", strings.Replace(waypointGateway, "namespace: NS", "namespace: NS, labels: {istio.io/waypoint-for: workload}", 1),
			func() {
				serviceSays(s, "cart", "istio.io/WaypointBound", metav1.ConditionFalse)
				policySays(s, "cart", "waypoint-mesh.dev/Enforced False", "does not serve Services")
			},
			200, 200,
		},
		{
			"the Gateway's parameters cannot be read",
			strings.Replace(waypointGateway, "spec: {", `spec: {infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: nowhere}}, `, 1),
			func() { s.GatewaySays("waypoint", "Accepted False InvalidParameters", "nowhere") },
			200, 403,
		},
		{
			"the policy selects pods and looks at HTTP",
			strings.Replace(cartPolicy, `targetRefs: [{group: "", kind: Service, name: cart}]`, "selector: {matchLabels: {app: cart}}", 1),
			func() {
				policySays(s, "cart", "waypoint-mesh.dev/Enforced False", "write targetRefs")
				policySays(s, "cart", "ZtunnelAccepted True", "")
			},
			200, 200,
		},
		{
			"the policy's target does not exist", strings.Replace(cartPolicy, "kind: Service, name: cart", "kind: Service, name: chart", 1),
			func() { policySays(s, "cart", "waypoint-mesh.dev/Enforced False", "does not exist") },
			200, 200,
		},
	}
	for _, c := range cases {
		healthy()
		t.Log(c.name)
		s.Apply(c.change)
		c.says()
		gets(s, "web", "http://cart/", c.web)
		gets(s, "other", "http://cart/", c.other)
	}
	healthy()
}

// TestAroundTheWaypoint: who calls a pod by its own address meets no policy of its
// Services, and the policy says so, until there is one for the pods.
func TestAroundTheWaypoint(t *testing.T) {
	s := newShop(t, cartPolicy)
	policySays(s, "cart", "waypoint-mesh.dev/Enforced True", "who calls a pod by its own address goes around the waypoint")
	gets(s, "other", "http://cart/", 403)
	gets(s, "other", "http://"+s.PodsOf("app=cart,version=v1")[0].Status.PodIP+":8080/", 200)
	s.Apply(`apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: cart-pods, namespace: NS}
spec:
  selector: {matchLabels: {app: cart}}
  rules: [{from: [{source: {principals: [cluster.local/ns/NS/sa/waypoint]}}]}]`)
	s.Eventually("the policy says no more of it", func() error {
		if c, err := policyCondition(s, "cart", "waypoint-mesh.dev/Enforced"); err != nil || strings.Contains(c.GetMessage(), "goes around") {
			return fmt.Errorf("%v %w", c, err)
		}
		return nil
	})
	policySays(s, "cart-pods", "ZtunnelAccepted True", "")
	// It is for ztunnels to enforce. The waypoint is let through.
	gets(s, "web", "http://cart/", 200)
}

// gets waits until GET requests of an account, over a new connection each, get a
// status.
func gets(s *lab.Story, account, url string, status int) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%s gets %d of %s", account, status, url), func() error {
		c := s.NewClient(account)
		defer c.Close()
		echo, err := lab.Ask(c.HTTP(), http.MethodGet, url)
		if err == nil && echo.Status != status {
			err = fmt.Errorf("got %d: %s", echo.Status, echo.Body)
		}
		return err
	})
}
