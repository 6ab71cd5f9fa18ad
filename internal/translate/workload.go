package translate

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

const (
	annotationRedirection = "ambient.istio.io/redirection"
	labelTunnel           = "networking.istio.io/tunnel"
	labelPodTemplateHash  = "pod-template-hash"
)

func podFacts(p *corev1.Pod) []fact {
	facts := labelFacts(p.Namespace, p.Labels)
	for _, addr := range podAddrs(p) {
		facts = append(facts, fact{kind: factPodAddress, namespace: p.Namespace, name: addr.String()})
	}
	return facts
}

func labelFacts(namespace string, labels map[string]string) []fact {
	facts := make([]fact, 0, len(labels))
	for k, value := range labels {
		facts = append(facts, fact{kind: factLabel, namespace: namespace, name: k, value: value})
	}
	return facts
}

func podAddrs(p *corev1.Pod) []netip.Addr {
	ips := p.Status.PodIPs
	if len(ips) == 0 && p.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	var addrs []netip.Addr
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip.IP); err == nil { // checked by validation
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// computePod gives the workload of a pod; none while it has no address or after it ended.
func (v *view) computePod(namespace, name string) {
	e := v.get(kindPod, namespace, name)
	if e == nil || e.rejected != "" {
		return
	}
	p := e.obj.(*corev1.Pod)
	addrs := podAddrs(p)
	if len(addrs) == 0 || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	w := &workload.Workload{
		Uid:            workload.PodUID(v.options.ClusterID, namespace, name),
		Name:           name,
		Namespace:      namespace,
		Addresses:      rawAddresses(addrs),
		TrustDomain:    v.trustDomain(),
		ServiceAccount: orDefault(p.Spec.ServiceAccountName),
		Waypoint:       v.waypointOf(p, false),
		Node:           p.Spec.NodeName,
		ClusterId:      v.options.ClusterID,
		Locality:       v.locality(p.Spec.NodeName),
		Services:       v.servicesOfPod(p, addrs),
		Status:         podStatus(p),
	}
	if p.Spec.HostNetwork {
		w.NetworkMode = workload.NetworkMode_HOST_NETWORK
	}
	w.TunnelProtocol, w.NativeTunnel = tunnelProtocol(p.Annotations, p.Labels)
	w.WorkloadType, w.WorkloadName = owner(p)
	w.CanonicalName, w.CanonicalRevision = canonical(p.Labels, w.WorkloadName)
	v.emit(w)
}

// trustDomain is left out where it is Istio's default, as Istio does.
func (v *view) trustDomain() string {
	if v.options.TrustDomain == defaultDomain {
		return ""
	}
	return v.options.TrustDomain
}

func rawAddresses(addrs []netip.Addr) [][]byte {
	raw := make([][]byte, 0, len(addrs))
	for _, addr := range addrs {
		raw = append(raw, addr.AsSlice())
	}
	return raw
}

func orDefault(serviceAccount string) string {
	if serviceAccount == "" {
		return "default"
	}
	return serviceAccount
}

// podStatus: a pod that is not ready, or is told to end, takes no new work.
func podStatus(p *corev1.Pod) workload.WorkloadStatus {
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if ready && p.DeletionTimestamp == nil {
		return workload.WorkloadStatus_HEALTHY
	}
	return workload.WorkloadStatus_UNHEALTHY
}

// tunnelProtocol: captured by a node proxy, which takes HBONE for it, or taking HBONE itself (native).
func tunnelProtocol(annotations, labels map[string]string) (p workload.TunnelProtocol, native bool) {
	if labels[labelTunnel] == "http" {
		return workload.TunnelProtocol_HBONE, true
	}
	if annotations[annotationRedirection] == "enabled" {
		return workload.TunnelProtocol_HBONE, false
	}
	return workload.TunnelProtocol_NONE, false
}

// cronJobRun is what the CronJob controller appends to the name of a Job: the scheduled minute.
var cronJobRun = regexp.MustCompile(`-\d{8,10}$`)

// owner tells what runs the pod, by the name that people gave it.
func owner(p *corev1.Pod) (workload.WorkloadType, string) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return workload.WorkloadType_POD, p.Name
	}
	switch ref.Kind {
	case "ReplicaSet":
		if hash := p.Labels[labelPodTemplateHash]; hash != "" && strings.HasSuffix(ref.Name, "-"+hash) {
			return workload.WorkloadType_DEPLOYMENT, strings.TrimSuffix(ref.Name, "-"+hash)
		}
		return workload.WorkloadType_DEPLOYMENT, ref.Name
	case "Job":
		if name := cronJobRun.ReplaceAllString(ref.Name, ""); name != ref.Name {
			return workload.WorkloadType_CRONJOB, name
		}
		return workload.WorkloadType_JOB, ref.Name
	}
	return workload.WorkloadType_POD, ref.Name
}

// canonical is what telemetry calls a workload and its revision.
func canonical(labels map[string]string, name string) (service, revision string) {
	return firstOf(labels, name, "service.istio.io/canonical-name", "app.kubernetes.io/name", "app"),
		firstOf(labels, "latest", "service.istio.io/canonical-revision", "app.kubernetes.io/version", "version")
}

func firstOf(labels map[string]string, otherwise string, keys ...string) string {
	for _, k := range keys {
		if labels[k] != "" {
			return labels[k]
		}
	}
	return otherwise
}

// servicesOfPod lists the services that the pod is an endpoint of, with its target ports.
func (v *view) servicesOfPod(p *corev1.Pod, addrs []netip.Addr) map[string]*workload.PortList {
	out := map[string]*workload.PortList{}
	for _, e := range v.selecting(p.Namespace, p.Labels) {
		switch obj := e.obj.(type) {
		case *corev1.Service:
			if !v.hasSlices(obj) {
				v.addPorts(out, v.keyOfService(obj), podPorts(obj, p))
			}
		case *networkingv1.ServiceEntry:
			for _, host := range v.liveHosts(obj) {
				v.addPorts(out, serviceKey{obj.Namespace, host}, entryPorts(obj, nil))
			}
		}
	}
	for service, endpoints := range v.slicesNaming(p, addrs) {
		v.addSlicePorts(out, p.Namespace, service, endpoints)
	}
	return out
}

func (v *view) addPorts(to map[string]*workload.PortList, service serviceKey, ports []*workload.Port) {
	if len(ports) > 0 {
		to[workload.ServiceName(service.namespace, service.host)] = &workload.PortList{Ports: ports}
	}
}

// selecting lists the Services and ServiceEntries of the namespace whose selector matches.
func (v *view) selecting(namespace string, labels map[string]string) []*entry {
	var found []*entry
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		for _, e := range v.find(fact{kind: factSelector, namespace: namespace, name: k, value: labels[k]}) {
			if selects(selectorOf(e.obj), labels) {
				found = append(found, e)
			}
		}
	}
	return found
}

func selectorOf(obj Object) map[string]string {
	switch obj := obj.(type) {
	case *corev1.Service:
		return obj.Spec.Selector
	case *networkingv1.ServiceEntry:
		return obj.Spec.GetWorkloadSelector().GetLabels()
	}
	return nil
}

func selects(selector, labels map[string]string) bool {
	for k, value := range selector {
		if got, ok := labels[k]; !ok || got != value {
			return false
		}
	}
	return len(selector) > 0
}

// podPorts maps a service's ports to the pod's. A named target port that no container has is left out: the pod does not
// serve it.
func podPorts(s *corev1.Service, p *corev1.Pod) []*workload.Port {
	var ports []*workload.Port
	for _, sp := range s.Spec.Ports {
		if !isTCP(sp.Protocol) {
			continue
		}
		target := numericTarget(sp)
		if sp.TargetPort.Type == intstr.String {
			target = containerPort(p, sp.TargetPort.StrVal)
		}
		if target != 0 {
			ports = append(ports, &workload.Port{ServicePort: uint32(sp.Port), TargetPort: target})
		}
	}
	return ports
}

// containerPort finds a TCP port by name, in init containers too: those may be sidecars that stay.
func containerPort(p *corev1.Pod, name string) uint32 {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range containers {
			for _, port := range c.Ports {
				if port.Name == name && isTCP(port.Protocol) {
					return uint32(port.ContainerPort)
				}
			}
		}
	}
	return 0
}

// slicesNaming lists the slices with an endpoint that is the pod, by service.
func (v *view) slicesNaming(p *corev1.Pod, addrs []netip.Addr) map[string][]*discoveryv1.EndpointSlice {
	found := map[string][]*discoveryv1.EndpointSlice{}
	seen := map[Key]bool{}
	facts := []fact{{kind: factSlicesOfPod, namespace: p.Namespace, name: p.Name}}
	for _, addr := range addrs {
		facts = append(facts, fact{kind: factSlicesOfPod, namespace: p.Namespace, value: addr.String()})
	}
	for _, f := range facts {
		for _, e := range v.find(f) {
			slice := e.obj.(*discoveryv1.EndpointSlice)
			service := slice.Labels[discoveryv1.LabelServiceName]
			if !seen[e.key] && slices.ContainsFunc(slice.Endpoints, func(ep discoveryv1.Endpoint) bool {
				return isEndpoint(ep) && v.isPod(ep, p, addrs)
			}) {
				seen[e.key] = true
				found[service] = append(found[service], slice)
			}
		}
	}
	return found
}
