package conformance

import "fmt"

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

// service is one with a pod behind a node proxy, at 127.66.0.host. Its VIP is
// 10.0.0.host, its port the same everywhere.
func service(name string, host byte, port int, appProtocol string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-1, namespace: default, labels: {app: %[1]s}, annotations: {ambient.istio.io/redirection: enabled}}
spec: {serviceAccountName: %[1]s, nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: 127.66.0.%[2]d, podIPs: [{ip: 127.66.0.%[2]d}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  clusterIP: 10.0.0.%[2]d
  clusterIPs: [10.0.0.%[2]d]
  selector: {app: %[1]s}
  ports: [{name: p, port: %[3]d, targetPort: %[3]d, appProtocol: %[4]s}]
`, name, host, port, appProtocol)
}

// vip is the target of a service as [service] makes it.
func vip(host byte, port int) string { return fmt.Sprintf("10.0.0.%d:%d", host, port) }

// node starts the node proxy in front of the pod of a service.
func (m *mesh) node(name string, host byte) {
	m.t.Helper()
	m.NodeProxy(m.IP(host), trust+name)
}
