package translate

import (
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

// declaredPort is a port as its object declares it.
type declaredPort struct {
	number   uint32
	name     string
	protocol workload.AppProtocol
}

// portsOf lists the TCP ports of a Service or ServiceEntry. Protocols of EndpointSlices are not looked at.
func portsOf(obj Object) []declaredPort {
	var ports []declaredPort
	switch obj := obj.(type) {
	case *corev1.Service:
		for _, p := range obj.Spec.Ports {
			if isTCP(p.Protocol) {
				ports = append(ports, declaredPort{uint32(p.Port), p.Name, appProtocol(p.AppProtocol, nil, p.Name, uint32(p.Port))})
			}
		}
	case *networkingv1.ServiceEntry:
		for _, p := range obj.Spec.Ports {
			if isTCPWord(p.Protocol) {
				ports = append(ports, declaredPort{p.Number, p.Name, protocolByWord(p.Protocol)})
			}
		}
	}
	return ports
}

// hostsOf lists the host names of a Service or ServiceEntry.
func (v *view) hostsOf(obj Object) []string {
	switch obj := obj.(type) {
	case *corev1.Service:
		return []string{v.serviceHost(obj.Namespace, obj.Name)}
	case *networkingv1.ServiceEntry:
		return obj.Spec.Hosts
	}
	return nil
}

func hasPort(obj Object, number uint32) bool {
	for _, p := range portsOf(obj) {
		if p.number == number {
			return true
		}
	}
	return false
}
