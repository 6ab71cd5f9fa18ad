package translate

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

// sliceFacts files a slice under its service and its endpoints: by the pod they name, or by address if they name none.
func sliceFacts(s *discoveryv1.EndpointSlice) []fact {
	service := s.Labels[discoveryv1.LabelServiceName]
	if service == "" {
		return nil
	}
	facts := []fact{{kind: factSlicesOfService, namespace: s.Namespace, name: service}}
	seen := map[fact]bool{}
	for _, ep := range s.Endpoints {
		for _, f := range endpointFacts(s.Namespace, ep) {
			if !seen[f] {
				seen[f] = true
				facts = append(facts, f)
			}
		}
	}
	return facts
}

func endpointFacts(namespace string, ep discoveryv1.Endpoint) []fact {
	if name := podName(ep); name != "" {
		return []fact{{kind: factSlicesOfPod, namespace: namespace, name: name}}
	}
	var facts []fact
	for _, addr := range endpointAddrs(ep) {
		facts = append(facts, fact{kind: factSlicesOfPod, namespace: namespace, value: addr.String()})
	}
	return facts
}

// hasSlices: a service with EndpointSlices has its endpoints from them alone.
func (v *view) hasSlices(s *corev1.Service) bool {
	return v.any(fact{kind: factSlicesOfService, namespace: s.Namespace, name: s.Name})
}

func podName(ep discoveryv1.Endpoint) string {
	if ref := ep.TargetRef; ref != nil && ref.Kind == kindPod {
		return ref.Name
	}
	return ""
}

func endpointAddrs(ep discoveryv1.Endpoint) []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range ep.Addresses {
		if addr, err := netip.ParseAddr(ip); err == nil { // FQDN slices have host names, which are not served
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// isEndpoint: conditions that are not told count as ready (EndpointConditions, discovery.k8s.io/v1).
func isEndpoint(ep discoveryv1.Endpoint) bool {
	return ep.Conditions.Ready == nil || *ep.Conditions.Ready
}

// podOf is the pod that an endpoint is: the one it names, else the one of the slice's namespace with its address. A slice
// cannot lend another namespace's pod, and so its identity, to its service.
func (v *view) podOf(namespace string, ep discoveryv1.Endpoint) *corev1.Pod {
	if name := podName(ep); name != "" {
		return usablePod(v.get(kindPod, namespace, name))
	}
	for _, addr := range endpointAddrs(ep) {
		for _, e := range v.find(fact{kind: factPodAddress, namespace: namespace, name: addr.String()}) {
			if p := usablePod(e); p != nil && !p.Spec.HostNetwork {
				return p
			}
		}
	}
	return nil
}

// isPod tells whether podOf(ep) is p, looking up others only where the address is shared.
func (v *view) isPod(ep discoveryv1.Endpoint, p *corev1.Pod, addrs []netip.Addr) bool {
	if name := podName(ep); name != "" {
		return name == p.Name
	}
	shared := func(addr netip.Addr) bool { return slices.Contains(addrs, addr) }
	return slices.ContainsFunc(endpointAddrs(ep), shared) && v.podOf(p.Namespace, ep) == p
}

func usablePod(e *entry) *corev1.Pod {
	if e == nil || e.rejected != "" {
		return nil
	}
	return e.obj.(*corev1.Pod)
}

// addSlicePorts adds the ports that slices give an endpoint of a service.
func (v *view) addSlicePorts(to map[string]*workload.PortList, namespace, service string, from []*discoveryv1.EndpointSlice) {
	e := v.get(kindService, namespace, service)
	if e == nil || e.rejected != "" {
		return
	}
	s := e.obj.(*corev1.Service)
	v.addPorts(to, v.keyOfService(s), slicePorts(s, from))
}

// slicePorts joins the service's ports with those of slices, by name.
func slicePorts(s *corev1.Service, from []*discoveryv1.EndpointSlice) []*workload.Port {
	var ports []*workload.Port
	for _, sp := range s.Spec.Ports {
		if target := sliceTarget(sp, from); target != 0 && isTCP(sp.Protocol) {
			ports = append(ports, &workload.Port{ServicePort: uint32(sp.Port), TargetPort: target})
		}
	}
	return ports
}

func sliceTarget(sp corev1.ServicePort, from []*discoveryv1.EndpointSlice) uint32 {
	for _, slice := range from {
		for _, p := range slice.Ports {
			name := ""
			if p.Name != nil {
				name = *p.Name
			}
			if name == sp.Name && p.Port != nil && (p.Protocol == nil || isTCP(*p.Protocol)) {
				return uint32(*p.Port)
			}
		}
	}
	return 0
}

// computeSliceEndpoints gives a workload for each address of a service's slices that is no pod: an external machine, or a
// server on loopback in a folder of manifests. It has no identity and is reached in the plain.
func (v *view) computeSliceEndpoints(namespace, service string) {
	bySlice := map[netip.Addr][]*discoveryv1.EndpointSlice{}
	where := map[netip.Addr]discoveryv1.Endpoint{}
	for _, slice := range v.slicesOf(namespace, service) {
		for _, ep := range slice.Endpoints {
			if !isEndpoint(ep) || v.podOf(namespace, ep) != nil {
				continue
			}
			for _, addr := range endpointAddrs(ep) {
				bySlice[addr] = append(bySlice[addr], slice)
				where[addr] = ep
			}
		}
	}
	for _, addr := range slices.SortedFunc(maps.Keys(bySlice), netip.Addr.Compare) {
		v.emitAddress(namespace, service, addr, where[addr], bySlice[addr])
	}
}

func (v *view) emitAddress(namespace, service string, addr netip.Addr, ep discoveryv1.Endpoint, from []*discoveryv1.EndpointSlice) {
	w := &workload.Workload{
		Uid:           workload.EndpointSliceUID(v.options.ClusterID, namespace, service, addr.String()),
		Name:          service,
		Namespace:     namespace,
		Addresses:     [][]byte{addr.AsSlice()},
		WorkloadType:  workload.WorkloadType_POD,
		WorkloadName:  service,
		CanonicalName: service,
		ClusterId:     v.options.ClusterID,
		Services:      map[string]*workload.PortList{},
	}
	if ep.NodeName != nil {
		w.Node = *ep.NodeName
		w.Locality = v.locality(w.Node)
	}
	if w.Locality == nil && ep.Zone != nil {
		w.Locality = localityOf("", *ep.Zone, "")
	}
	v.addSlicePorts(w.Services, namespace, service, from)
	if len(w.Services) > 0 {
		v.emit(w)
	}
}
