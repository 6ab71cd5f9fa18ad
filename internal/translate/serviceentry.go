package translate

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networkingapi "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

func serviceEntryFacts(se *networkingv1.ServiceEntry) []fact {
	var facts []fact
	for _, host := range se.Spec.Hosts {
		facts = append(facts, hostFacts(se.Namespace, host)...)
	}
	return append(facts, selectorFacts(se.Namespace, se.Spec.GetWorkloadSelector().GetLabels())...)
}

// emitServiceEntries gives one service for the entries of a namespace that share a host: ports and addresses of all, of two
// that differ the older entry's.
func (v *view) emitServiceEntries(namespace, host string, entries []*networkingv1.ServiceEntry) {
	slices.SortFunc(entries, func(a, b *networkingv1.ServiceEntry) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	first := entries[0]
	s := &workload.Service{
		Name:            first.Name,
		Namespace:       namespace,
		Hostname:        host,
		SubjectAltNames: first.Spec.SubjectAltNames,
		Canonical:       v.isCanonical(host, first),
	}
	ports, addresses := map[uint32]bool{}, map[netip.Addr]bool{}
	for _, se := range entries {
		r := v.about(KeyOf(se))
		for i, p := range se.Spec.Ports {
			if ports[p.Number] {
				r.warnf(path("spec.ports").index(i).at("number"), "ServiceEntry %s declares port %d of %s already", first.Name, p.Number, host)
				continue
			}
			if port := entryPort(p, path("spec.ports").index(i), r); port != nil {
				ports[p.Number] = true
				s.Ports = append(s.Ports, port)
			}
		}
		for _, addr := range entryAddresses(se, host, r) {
			if !addresses[addr] {
				addresses[addr] = true
				s.Addresses = append(s.Addresses, networkAddresses([]netip.Addr{addr})...)
			}
		}
		v.entryResolution(se, s, r)
		v.bind(se, r)
		if s.Waypoint == nil {
			s.Waypoint = v.waypointOf(se, true)
		}
		v.keep(r)
	}
	v.emit(s)
}

// entryResolution tells how endpoints are found, and what of it is not done.
func (v *view) entryResolution(se *networkingv1.ServiceEntry, s *workload.Service, r *report) {
	switch se.Spec.Resolution {
	case networkingapi.ServiceEntry_NONE:
		s.LoadBalancing = &workload.LoadBalancing{Mode: workload.LoadBalancing_PASSTHROUGH}
		r.warnf("spec.resolution", "NONE is not supported: the hosts have no endpoints; use DNS or STATIC")
	case networkingapi.ServiceEntry_DYNAMIC_DNS:
		r.warnf("spec.resolution", "DYNAMIC_DNS is not supported: the hosts have no endpoints")
	case networkingapi.ServiceEntry_STATIC:
		if len(se.Spec.Endpoints) == 0 && se.Spec.WorkloadSelector == nil {
			r.warnf("spec.resolution", "STATIC, with neither endpoints nor a workloadSelector: it has no endpoints for its hosts")
		}
	}
}

// isCanonical: a Kubernetes Service has its host to itself; else the oldest entry of the mesh, then the first by name.
func (v *view) isCanonical(host string, first *networkingv1.ServiceEntry) bool {
	for _, e := range v.find(fact{kind: factHost, name: host}) {
		if e.key.Kind == kindService {
			return false
		}
		other := e.obj.(*networkingv1.ServiceEntry)
		if cmp.Or(other.CreationTimestamp.Time.Compare(first.CreationTimestamp.Time),
			cmp.Compare(other.Namespace, first.Namespace), cmp.Compare(other.Name, first.Name)) < 0 {
			return false
		}
	}
	return true
}

// entryPort is nil for a port that HBONE does not carry.
func entryPort(p *networkingapi.ServicePort, at path, r *report) *workload.Port {
	if !isTCPWord(p.Protocol) {
		r.warnf(at.at("protocol"), "UDP is not carried by HBONE; the port is left out")
		return nil
	}
	return &workload.Port{ServicePort: p.Number, TargetPort: entryTarget(p), AppProtocol: protocolByWord(p.Protocol)}
}

func isTCPWord(protocol string) bool { return !strings.EqualFold(protocol, "udp") }

func entryTarget(p *networkingapi.ServicePort) uint32 {
	if p.TargetPort != 0 {
		return p.TargetPort
	}
	return p.Number
}

// entryAddresses: the addresses written in the entry, else those that a control plane allocated for the host.
func entryAddresses(se *networkingv1.ServiceEntry, host string, r *report) []netip.Addr {
	var out []netip.Addr
	for i, text := range se.Spec.Addresses {
		block, err := netip.ParsePrefix(text)
		switch addr, isAddr := netip.ParseAddr(text); {
		case isAddr == nil:
			out = append(out, addr.Unmap())
		case err == nil && block.IsSingleIP():
			out = append(out, block.Addr().Unmap())
		default:
			r.warnf(path("spec.addresses").index(i), "blocks of addresses are not supported; list the addresses")
		}
	}
	if len(se.Spec.Addresses) > 0 {
		return out
	}
	for _, a := range se.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Value); err == nil && (a.Host == host || a.Host == "") {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// entryPorts maps the entry's ports to those of one endpoint, whose own ports go by name.
func entryPorts(se *networkingv1.ServiceEntry, own map[string]uint32) []*workload.Port {
	var ports []*workload.Port
	for _, p := range se.Spec.Ports {
		if !isTCPWord(p.Protocol) {
			continue
		}
		target := entryTarget(p)
		if n := own[p.Name]; n != 0 {
			target = n
		}
		ports = append(ports, &workload.Port{ServicePort: p.Number, TargetPort: target})
	}
	return ports
}

// computeEntryEndpoints gives the workloads that a ServiceEntry names: its endpoints or, resolved by DNS without any, its
// hosts themselves.
func (v *view) computeEntryEndpoints(namespace, name string) {
	e := v.get(kindServiceEntry, namespace, name)
	if e == nil || e.rejected != "" {
		return
	}
	se := e.obj.(*networkingv1.ServiceEntry)
	for _, ep := range se.Spec.Endpoints {
		v.emitEndpoint(se, ep, v.liveHosts(se))
	}
	dns := se.Spec.Resolution == networkingapi.ServiceEntry_DNS ||
		se.Spec.Resolution == networkingapi.ServiceEntry_DNS_ROUND_ROBIN
	if !dns || len(se.Spec.Endpoints) > 0 || se.Spec.WorkloadSelector != nil {
		return
	}
	for _, host := range v.liveHosts(se) {
		v.emitEndpoint(se, &networkingapi.WorkloadEntry{Address: host}, []string{host})
	}
}

// liveHosts leaves out hosts that a Kubernetes Service has, so that the entry adds no endpoints to it.
func (v *view) liveHosts(se *networkingv1.ServiceEntry) []string {
	return slices.DeleteFunc(slices.Clone(se.Spec.Hosts), func(host string) bool {
		return slices.ContainsFunc(v.find(fact{kind: factHost, namespace: se.Namespace, name: host}), func(e *entry) bool {
			return e.key.Kind == kindService
		})
	})
}

func (v *view) emitEndpoint(se *networkingv1.ServiceEntry, ep *networkingapi.WorkloadEntry, hosts []string) {
	w := v.machine(ep, se.Namespace, se.Name, ep.Labels)
	w.Uid = workload.ServiceEntryUID(v.options.ClusterID, se.Namespace, se.Name, ep.Address)
	for _, host := range hosts {
		v.addPorts(w.Services, serviceKey{se.Namespace, host}, entryPorts(se, ep.Ports))
	}
	v.emit(w)
}

// machine is what a WorkloadEntry, standing alone or in a ServiceEntry, says about a workload.
func (v *view) machine(ep *networkingapi.WorkloadEntry, namespace, name string, labels map[string]string) *workload.Workload {
	w := &workload.Workload{
		Name:           name,
		Namespace:      namespace,
		Network:        ep.Network,
		TrustDomain:    v.trustDomain(),
		ServiceAccount: orDefault(ep.ServiceAccount),
		WorkloadType:   workload.WorkloadType_POD,
		WorkloadName:   name,
		ClusterId:      v.options.ClusterID,
		Locality:       parseLocality(ep.Locality),
		Services:       map[string]*workload.PortList{},
	}
	if addr, err := netip.ParseAddr(ep.Address); err == nil {
		w.Addresses = [][]byte{addr.Unmap().AsSlice()}
	} else {
		w.Hostname = ep.Address
	}
	if ep.Weight > 0 {
		w.Capacity = wrapperspb.UInt32(ep.Weight)
	}
	w.TunnelProtocol, w.NativeTunnel = tunnelProtocol(nil, labels)
	w.CanonicalName, w.CanonicalRevision = canonical(labels, name)
	return w
}

// workloadEntryLabels are the labels that selectors see: the spec's win over the object's.
func workloadEntryLabels(we *networkingv1.WorkloadEntry) map[string]string {
	labels := maps.Clone(we.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, we.Spec.Labels)
	return labels
}

func (v *view) computeWorkloadEntry(namespace, name string) {
	e := v.get(kindWorkloadEntry, namespace, name)
	if e == nil || e.rejected != "" {
		return
	}
	we := e.obj.(*networkingv1.WorkloadEntry)
	labels := workloadEntryLabels(we)
	w := v.machine(&we.Spec, namespace, name, labels)
	w.Uid = workload.WorkloadEntryUID(v.options.ClusterID, namespace, name)
	w.Waypoint = v.waypointOf(we, false)
	w.Status = entryStatus(we)
	for _, by := range v.selecting(namespace, labels) {
		switch obj := by.obj.(type) {
		case *corev1.Service:
			if !v.hasSlices(obj) {
				v.addPorts(w.Services, v.keyOfService(obj), machinePorts(obj, we.Spec.Ports))
			}
		case *networkingv1.ServiceEntry:
			for _, host := range v.liveHosts(obj) {
				v.addPorts(w.Services, serviceKey{obj.Namespace, host}, entryPorts(obj, we.Spec.Ports))
			}
		}
	}
	v.emit(w)
}

// entryStatus: Istio writes condition Healthy where the machine is health-checked.
func entryStatus(we *networkingv1.WorkloadEntry) workload.WorkloadStatus {
	for _, c := range we.Status.Conditions {
		if c.Type == "Healthy" && c.Status == "False" {
			return workload.WorkloadStatus_UNHEALTHY
		}
	}
	return workload.WorkloadStatus_HEALTHY
}

// machinePorts maps a Service's ports to a WorkloadEntry's, by the name of the target port or of the port.
func machinePorts(s *corev1.Service, own map[string]uint32) []*workload.Port {
	var ports []*workload.Port
	for _, sp := range s.Spec.Ports {
		if !isTCP(sp.Protocol) {
			continue
		}
		target := cmp.Or(own[sp.TargetPort.StrVal], own[sp.Name], numericTarget(sp))
		if target != 0 {
			ports = append(ports, &workload.Port{ServicePort: uint32(sp.Port), TargetPort: target})
		}
	}
	return ports
}
