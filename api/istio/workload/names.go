package workload

import "strings"

// ServiceName is the resource name of a service: "namespace/hostname".
func ServiceName(namespace, hostname string) string { return namespace + "/" + hostname }

// ParseServiceName splits the resource name of a service. It reports false for anything but two non-empty parts.
func ParseServiceName(name string) (namespace, hostname string, ok bool) {
	namespace, hostname, ok = strings.Cut(name, "/")
	return namespace, hostname, ok && namespace != "" && hostname != "" && !strings.Contains(hostname, "/")
}

// ResourceName is the name by which discovery knows s.
func (s *Service) ResourceName() string { return ServiceName(s.GetNamespace(), s.GetHostname()) }

// ResourceName is the name by which discovery knows w.
func (w *Workload) ResourceName() string { return w.GetUid() }

// ResourceName is the name of the workload or service in a; empty if it holds neither.
func (a *Address) ResourceName() string {
	switch t := a.GetType().(type) {
	case *Address_Workload:
		return t.Workload.ResourceName()
	case *Address_Service:
		return t.Service.ResourceName()
	}
	return ""
}

// PodUID names the workload of a pod, as Istio's control plane does.
func PodUID(cluster, namespace, name string) string {
	return cluster + "//Pod/" + namespace + "/" + name
}

// WorkloadEntryUID names the workload of a WorkloadEntry.
func WorkloadEntryUID(cluster, namespace, name string) string {
	return cluster + "/networking.istio.io/WorkloadEntry/" + namespace + "/" + name
}

// ServiceEntryUID names the workload of one endpoint written into a ServiceEntry; address is its IP address or DNS name.
func ServiceEntryUID(cluster, namespace, name, address string) string {
	return cluster + "/networking.istio.io/ServiceEntry/" + namespace + "/" + name + "/" + address
}

// EndpointSliceUID names the workload of an address that the EndpointSlices of a service list and that belongs to no pod.
func EndpointSliceUID(cluster, namespace, service, address string) string {
	return cluster + "/discovery.k8s.io/EndpointSlice/" + namespace + "/" + service + "/" + address
}
