package translate

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

// annotationTrafficDistribution is Istio's older form of spec.trafficDistribution.
const annotationTrafficDistribution = "networking.istio.io/traffic-distribution"

// serviceHost is the host name of a Kubernetes Service.
func (m *Mesh) serviceHost(namespace, name string) string {
	return name + "." + namespace + ".svc." + m.common.ClusterDomain
}

// serviceKey is the key of a Service in istio.workload's terms.
type serviceKey struct{ namespace, host string }

func (m *Mesh) keyOfService(s *corev1.Service) serviceKey {
	return serviceKey{s.Namespace, m.serviceHost(s.Namespace, s.Name)}
}

func (m *Mesh) serviceFacts(s *corev1.Service) []fact {
	facts := append(hostFacts(s.Namespace, m.serviceHost(s.Namespace, s.Name)), fact{kind: factServiceOf, namespace: s.Namespace})
	return append(facts, selectorFacts(s.Namespace, s.Spec.Selector)...)
}

func hostFacts(namespace, host string) []fact {
	return []fact{{kind: factHost, namespace: namespace, name: host}, {kind: factHost, name: host}}
}

// selectorFacts files a selector under the first of its labels, in alphabetical order.
func selectorFacts(namespace string, selector map[string]string) []fact {
	first, ok := firstLabel(selector)
	if !ok {
		return nil
	}
	return []fact{{kind: factSelector, namespace: namespace, name: first, value: selector[first]}}
}

func firstLabel(selector map[string]string) (first string, ok bool) {
	for k := range selector {
		if !ok || k < first {
			first, ok = k, true
		}
	}
	return first, ok
}

// computeService gives the service that the namespace's objects declare for host: a Kubernetes Service, else the
// ServiceEntries together.
func (v *view) computeService(namespace, host string) {
	declared := v.find(fact{kind: factHost, namespace: namespace, name: host})
	var entries []*networkingv1.ServiceEntry
	for _, e := range declared {
		switch obj := e.obj.(type) {
		case *corev1.Service:
			v.emitService(obj)
			v.reportShadowed(declared, obj)
			return
		case *networkingv1.ServiceEntry:
			entries = append(entries, obj)
		}
	}
	if len(entries) > 0 {
		v.emitServiceEntries(namespace, host, entries)
	}
}

// reportShadowed tells ServiceEntries that a Kubernetes Service has their host.
func (v *view) reportShadowed(declared []*entry, s *corev1.Service) {
	for _, e := range declared {
		if e.key.Kind == kindServiceEntry {
			r := v.about(e.key)
			r.warnf("spec.hosts", "%s is the host of Service %s/%s, which is used instead", v.serviceHost(s.Namespace, s.Name),
				s.Namespace, s.Name)
			v.keep(r)
		}
	}
}

func (v *view) emitService(s *corev1.Service) {
	r := v.about(KeyOf(s))
	defer v.keep(r)
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		r.warnf("spec.type", "ExternalName services have no endpoints of their own and are not served; declare a ServiceEntry")
		return
	}
	v.bind(s, r)
	v.emit(&workload.Service{
		Name:          s.Name,
		Namespace:     s.Namespace,
		Hostname:      v.serviceHost(s.Namespace, s.Name),
		Addresses:     networkAddresses(clusterIPs(s)),
		Ports:         v.servicePorts(s, r),
		Waypoint:      v.waypointOf(s, true),
		LoadBalancing: loadBalancing(s, r),
		IpFamilies:    ipFamilies(s),
		Canonical:     true,
	})
}

// clusterIPs are the virtual addresses of a service; a headless one has none.
func clusterIPs(s *corev1.Service) []netip.Addr {
	all := s.Spec.ClusterIPs
	if len(all) == 0 && s.Spec.ClusterIP != "" {
		all = []string{s.Spec.ClusterIP}
	}
	var addrs []netip.Addr
	for _, ip := range all {
		if addr, err := netip.ParseAddr(ip); err == nil { // "None" is not one
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func networkAddresses(addrs []netip.Addr) []*workload.NetworkAddress {
	var out []*workload.NetworkAddress
	for _, addr := range addrs {
		out = append(out, &workload.NetworkAddress{Address: addr.Unmap().AsSlice()})
	}
	return out
}

func (v *view) servicePorts(s *corev1.Service, r *report) []*workload.Port {
	var ports []*workload.Port
	for i, p := range s.Spec.Ports {
		if !isTCP(p.Protocol) {
			r.warnf(path("spec.ports").index(i).at("protocol"), "%s is not carried by HBONE; the port is left out", p.Protocol)
			continue
		}
		ports = append(ports, &workload.Port{
			ServicePort: uint32(p.Port),
			TargetPort:  numericTarget(p),
			AppProtocol: appProtocol(p.AppProtocol, v.sliceAppProtocol(s, p), p.Name, uint32(p.Port)),
		})
	}
	return ports
}

func isTCP(p corev1.Protocol) bool { return p == "" || p == corev1.ProtocolTCP }

// numericTarget is the port the application listens on, 0 if it differs by workload (a named port).
func numericTarget(p corev1.ServicePort) uint32 {
	switch {
	case p.TargetPort.Type == intstr.String:
		return 0
	case p.TargetPort.IntVal == 0:
		return uint32(p.Port)
	}
	return uint32(p.TargetPort.IntVal)
}

// sliceAppProtocol is what the service's EndpointSlices declare for a port that declares nothing itself.
func (v *view) sliceAppProtocol(s *corev1.Service, p corev1.ServicePort) *string {
	if p.AppProtocol != nil {
		return nil
	}
	for _, e := range v.slicesOf(s.Namespace, s.Name) {
		for _, sp := range e.Ports {
			if sp.AppProtocol != nil && (sp.Name == nil && p.Name == "" || sp.Name != nil && *sp.Name == p.Name) {
				return sp.AppProtocol
			}
		}
	}
	return nil
}

func (v *view) slicesOf(namespace, service string) []*discoveryv1.EndpointSlice {
	var slices []*discoveryv1.EndpointSlice
	for _, e := range v.find(fact{kind: factSlicesOfService, namespace: namespace, name: service}) {
		slices = append(slices, e.obj.(*discoveryv1.EndpointSlice))
	}
	return slices
}

func ipFamilies(s *corev1.Service) workload.IPFamilies {
	var v4, v6 bool
	for _, f := range s.Spec.IPFamilies {
		v4 = v4 || f == corev1.IPv4Protocol
		v6 = v6 || f == corev1.IPv6Protocol
	}
	for _, addr := range clusterIPs(s) {
		v4 = v4 || addr.Unmap().Is4()
		v6 = v6 || !addr.Unmap().Is4()
	}
	switch {
	case v4 && v6:
		return workload.IPFamilies_DUAL
	case v4:
		return workload.IPFamilies_IPV4_ONLY
	case v6:
		return workload.IPFamilies_IPV6_ONLY
	}
	return workload.IPFamilies_AUTOMATIC
}

// Scopes of the traffic distributions. The network leads: another network's endpoints cost a gateway hop.
var (
	zoneScopes = []workload.LoadBalancing_Scope{
		workload.LoadBalancing_NETWORK, workload.LoadBalancing_REGION, workload.LoadBalancing_ZONE,
	}
	nodeScopes = append(slices.Clip(zoneScopes), workload.LoadBalancing_SUBZONE, workload.LoadBalancing_NODE)
)

// loadBalancing reads which endpoints a service prefers; nil if all alike.
func loadBalancing(s *corev1.Service, r *report) *workload.LoadBalancing {
	lb := &workload.LoadBalancing{}
	if s.Spec.PublishNotReadyAddresses {
		lb.HealthPolicy = workload.LoadBalancing_ALLOW_ALL
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		lb.Mode = workload.LoadBalancing_STRICT
		lb.RoutingPreference = []workload.LoadBalancing_Scope{workload.LoadBalancing_NODE}
	} else if scopes := distribution(s, r); scopes != nil {
		lb.Mode = workload.LoadBalancing_FAILOVER
		lb.RoutingPreference = scopes
	}
	if lb.Mode == workload.LoadBalancing_UNSPECIFIED_MODE && lb.HealthPolicy == workload.LoadBalancing_ONLY_HEALTHY {
		return nil
	}
	return lb
}

func distribution(s *corev1.Service, r *report) []workload.LoadBalancing_Scope {
	field := path("spec.trafficDistribution")
	value := ""
	if s.Spec.TrafficDistribution != nil {
		value = *s.Spec.TrafficDistribution
	} else if a, ok := s.Annotations[annotationTrafficDistribution]; ok {
		field, value = path("metadata.annotations").key(annotationTrafficDistribution), a
	}
	switch strings.ToLower(value) {
	case "", "any":
		return nil
	case "preferclose", "prefersamezone":
		return zoneScopes
	case "prefersamenode":
		return nodeScopes
	}
	r.warnf(field, "must be PreferSameZone, PreferClose or PreferSameNode, got %q; all endpoints are treated alike", value)
	return nil
}
