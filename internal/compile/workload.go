package compile

import (
	"cmp"
	"fmt"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// workloadOf leaves out what it cannot read.
func workloadOf(w *workload.Workload) (*mesh.WorkloadSpec, error) {
	var faults problems
	out := &mesh.WorkloadSpec{
		UID:         w.GetUid(),
		Namespace:   w.GetNamespace(),
		Name:        cmp.Or(w.GetWorkloadName(), w.GetName()),
		Hostname:    w.GetHostname(),
		HostNetwork: w.GetNetworkMode() == workload.NetworkMode_HOST_NETWORK,
		HBONE:       w.GetTunnelProtocol() == workload.TunnelProtocol_HBONE,
		Ready:       w.GetStatus() == workload.WorkloadStatus_HEALTHY,
		Unpicked:    w.GetCapacity() != nil && w.GetCapacity().GetValue() == 0,
		Waypoints:   waypointKeys(w.GetWaypoint(), nil),
		Locality:    locality(w.GetLocality(), w.GetNode()),
		Serves:      make(map[string][]mesh.PortMapping, len(w.GetServices())),
	}
	out.Identity.TrustDomain = cmp.Or(w.GetTrustDomain(), defaultTrustDomain)
	out.Identity.Namespace = w.GetNamespace()
	out.Identity.ServiceAccount = cmp.Or(w.GetServiceAccount(), "default")
	out.Telemetry = workloadTelemetry(w, out)
	for i, raw := range w.GetAddresses() {
		addr, err := addrOf(raw)
		if err != nil {
			faults.add(fmt.Sprintf("addresses[%d]", i), err)
			continue
		}
		out.Addrs = append(out.Addrs, addr)
	}
	for service, list := range w.GetServices() {
		mappings, err := portMappings(list)
		faults.add("services["+service+"]", err)
		out.Serves[service] = mappings
	}
	return out, faults.err()
}

func portMappings(list *workload.PortList) (mappings []mesh.PortMapping, err error) {
	for _, p := range list.GetPorts() {
		from, errFrom := portOf(p.GetServicePort())
		to, errTo := portOf(p.GetTargetPort())
		if e := cmp.Or(errFrom, errTo); e != nil {
			err = e
			continue
		}
		mappings = append(mappings, mesh.PortMapping{Service: from, Target: to})
	}
	return mappings, err
}

// workloadTelemetry says of a workload what Istio's standard metrics do: app and
// version are the canonical name and revision.
func workloadTelemetry(w *workload.Workload, spec *mesh.WorkloadSpec) *flow.Workload {
	return &flow.Workload{
		Name:              spec.Name,
		Namespace:         w.GetNamespace(),
		Pod:               w.GetName(),
		Principal:         spec.Identity.String(),
		App:               w.GetCanonicalName(),
		Version:           w.GetCanonicalRevision(),
		CanonicalName:     w.GetCanonicalName(),
		CanonicalRevision: w.GetCanonicalRevision(),
		Cluster:           w.GetClusterId(),
		Region:            spec.Locality.Region,
		Zone:              spec.Locality.Zone,
		Node:              w.GetNode(),
	}
}
