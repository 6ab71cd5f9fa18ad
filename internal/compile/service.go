package compile

import (
	"fmt"
	"slices"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// service leaves out what it cannot read: an address or port that nobody can
// reach harms nobody.
func service(s *workload.Service) (*mesh.ServiceSpec, error) {
	var faults problems
	out := &mesh.ServiceSpec{
		Key:          s.ResourceName(),
		Name:         s.GetName(),
		Namespace:    s.GetNamespace(),
		Hostname:     s.GetHostname(),
		Waypoints:    waypointKeys(s.GetWaypoint(), s.GetWeightedWaypoints()),
		SANs:         s.GetSubjectAltNames(),
		Telemetry:    &flow.Service{Host: s.GetHostname(), Name: s.GetName(), Namespace: s.GetNamespace()},
		Locality:     localityMode(s.GetLoadBalancing()),
		Families:     families(s.GetIpFamilies()),
		AllowUnready: s.GetLoadBalancing().GetHealthPolicy() == workload.LoadBalancing_ALLOW_ALL,
	}
	for i, a := range s.GetAddresses() {
		addr, err := addrOf(a.GetAddress())
		if err != nil {
			faults.add(fmt.Sprintf("addresses[%d]", i), err)
			continue
		}
		if n := a.Length; n != nil && int(*n) != addr.BitLen() {
			faults.add(fmt.Sprintf("addresses[%d]", i), fmt.Errorf("a block of addresses (/%d) is not supported", *n))
			continue
		}
		out.VIPs = append(out.VIPs, addr)
	}
	for i, p := range s.GetPorts() {
		number, err := portOf(p.GetServicePort())
		if err != nil {
			faults.add(fmt.Sprintf("ports[%d].service_port", i), err)
			continue
		}
		out.Ports = append(out.Ports, mesh.PortSpec{Number: number, Protocol: protocol(p.GetAppProtocol())})
	}
	return out, faults.err()
}

// protocol takes a value that is newer than we are for one to be sniffed.
func protocol(p workload.AppProtocol) mesh.Protocol {
	switch p {
	case workload.AppProtocol_HTTP11:
		return mesh.HTTP1
	case workload.AppProtocol_HTTP2:
		return mesh.HTTP2
	case workload.AppProtocol_GRPC:
		return mesh.GRPC
	case workload.AppProtocol_TCP:
		return mesh.TCP
	case workload.AppProtocol_TLS:
		return mesh.TLS
	}
	return mesh.Sniff
}

// localityMode reads the scopes that Istio writes for trafficDistribution. The
// strict mode (internalTrafficPolicy: Local) is a wish here, too: a waypoint is
// not where the client is, so that the client's node says nothing.
func localityMode(lb *workload.LoadBalancing) mesh.LocalityMode {
	switch scopes := lb.GetRoutingPreference(); {
	case slices.Contains(scopes, workload.LoadBalancing_NODE):
		return mesh.PreferNode
	case slices.Contains(scopes, workload.LoadBalancing_ZONE):
		return mesh.PreferZone
	}
	return mesh.AnyLocality
}

func families(f workload.IPFamilies) mesh.Families {
	switch f {
	case workload.IPFamilies_IPV4_ONLY:
		return mesh.IPv4Only
	case workload.IPFamilies_IPV6_ONLY:
		return mesh.IPv6Only
	}
	return mesh.AnyFamily
}
