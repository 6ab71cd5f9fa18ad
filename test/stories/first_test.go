package stories

import (
	"io"
	"net/http"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

const client = "spiffe://cluster.local/ns/default/sa/client"

const reviews = `
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {istio.io/use-waypoint: waypoint}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default, labels: {istio.io/waypoint-for: service}}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
---
apiVersion: v1
kind: Pod
metadata: {name: reviews-1, namespace: default, labels: {app: reviews}, annotations: {ambient.istio.io/redirection: enabled}}
spec: {serviceAccountName: reviews, nodeName: n1, containers: [{name: app, image: none, ports: [{containerPort: 8080}]}]}
status: {phase: Running, podIP: 127.66.0.21, podIPs: [{ip: 127.66.0.21}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: reviews, namespace: default}
spec:
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1]
  selector: {app: reviews}
  ports: [{name: http, port: 8080, targetPort: 8080, appProtocol: http}]
`

func TestFirstRequest(t *testing.T) {
	m := meshtest.New(t)
	m.HTTP("reviews", m.Addr(21, 8080))
	m.NodeProxy(m.IP(21), "spiffe://cluster.local/ns/default/sa/reviews", meshtest.Settings{})
	wp := m.Waypoint(reviews, nil)
	resp, err := m.Client(client).HTTP(wp.Addr).Get("http://10.0.0.1:8080/hello")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, wp.Log, wp.AccessLog)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	t.Logf("%s\n%s", body, wp.AccessLog)
}
