package stories

import (
	"fmt"
	"strings"
)

// Who is who. A workload's service account has the name of its application.
const (
	clientID = "spiffe://cluster.local/ns/default/sa/client"
	trust    = "spiffe://cluster.local/ns/default/sa/"
)

// idOf is the identity of an application's workloads.
func idOf(app string) string { return trust + app }

// gateway is the waypoint of the namespace default, which all of it uses.
const gateway = `
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
`

// world is a gateway and what else there is.
func world(manifests ...string) string {
	return strings.Join(append([]string{gateway}, manifests...), "\n---\n")
}

// pod is one behind a node proxy, at 127.66.0.host, which [meshtest.Mesh.IP] of
// the same number is.
func pod(app string, host byte) string {
	return podManifest(app, fmt.Sprintf("%s-%d", app, host), fmt.Sprintf("127.66.0.%d", host), "{ambient.istio.io/redirection: enabled}")
}

// plainPod is one outside of the mesh: no node proxy, plain TCP.
func plainPod(app string, host byte) string {
	return podManifest(app, fmt.Sprintf("%s-%d", app, host), fmt.Sprintf("127.66.0.%d", host), "{}")
}

func podManifest(app, name, ip, annotations string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {app: %[2]s}, annotations: %[4]s}
spec: {serviceAccountName: %[2]s, nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: "%[3]s", podIPs: [{ip: "%[3]s"}], conditions: [{type: Ready, status: "True"}]}
`, name, app, ip, annotations)
}

// service is the Service of an application, at a VIP.
func service(app, vip string, ports ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  clusterIP: %[2]q
  clusterIPs: [%[2]q]
  selector: {app: %[1]s}
  ports: [%[3]s]
`, app, vip, strings.Join(ports, ", "))
}

// port is a port of a service whose protocol is declared; the pods have the same
// number. Without a protocol it is undeclared.
func port(number int, appProtocol string) string {
	declared := ""
	if appProtocol != "" {
		declared = ", appProtocol: " + appProtocol
	}
	return fmt.Sprintf("{name: p%[1]d, port: %[1]d, targetPort: %[1]d%[2]s}", number, declared)
}

// httpRoute is an HTTPRoute of a service. The rules are YAML, one list item each.
func httpRoute(app string, rules ...string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: %[1]s}]
  rules: [%[2]s]
`, app, strings.Join(rules, ", "))
}
