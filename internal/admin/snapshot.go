package admin

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// snapshot answers with the configuration in force, or with one service of it.
func snapshot(store *mesh.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		snap := store.Load()
		name := r.URL.Query().Get("service")
		if name == "" {
			writeJSON(w, http.StatusOK, Dump(snap))
			return
		}
		s := find(snap, name)
		if s == nil {
			failJSON(w, http.StatusNotFound, fmt.Errorf(
				"no service %q among the %d known: it has to be NAMESPACE/NAME or NAMESPACE/HOSTNAME; /snapshot lists all", name, len(snap.Services)))
			return
		}
		writeJSON(w, http.StatusOK, dumpService(s))
	})
}

// find looks a service up by namespace and name, or by namespace and host name.
func find(snap *mesh.Snapshot, name string) *mesh.Service {
	if s := snap.Services[name]; s != nil {
		return s
	}
	namespace, short, _ := strings.Cut(name, "/")
	for _, s := range snap.Services {
		if s.Namespace == namespace && s.Name == short {
			return s
		}
	}
	return nil
}

// Dump returns the snapshot as something that marshals to JSON, sorted so that
// two can be compared.
func Dump(snap *mesh.Snapshot) any {
	d := snapshotDump{
		Version:   snap.Version,
		Gateway:   dumpGateway(&snap.Gateway),
		Services:  []serviceDump{},
		Workloads: dumpWorkloads(snap),
		Rejected:  dumpProblems(snap.Rejected),
		Conflicts: dumpProblems(snap.Conflicts),
	}
	for _, key := range slices.Sorted(maps.Keys(snap.Services)) {
		d.Services = append(d.Services, dumpService(snap.Services[key]))
	}
	return d
}

func dumpGateway(g *mesh.Gateway) gatewayDump {
	return gatewayDump{
		Namespace: g.Namespace, Name: g.Name, ServesServices: g.ServesServices, ServesWorkloads: g.ServesWorkloads,
		TrustDomain: g.Trust.Domain, TrustDomainAliases: g.Trust.Aliases, Locality: localityDump(g.Locality),
	}
}

func dumpProblems(problems []mesh.Problem) []problemDump {
	dumps := make([]problemDump, len(problems))
	for i, p := range problems {
		dumps[i] = problemDump(p)
	}
	return dumps
}

// dumpWorkloads lists each workload once, whatever the number of its addresses.
func dumpWorkloads(snap *mesh.Snapshot) []workloadDump {
	seen := map[*mesh.Workload]bool{}
	dumps := []workloadDump{}
	for _, w := range snap.Workloads {
		if !seen[w] {
			seen[w] = true
			dumps = append(dumps, dumpWorkload(w))
		}
	}
	slices.SortFunc(dumps, func(a, b workloadDump) int { return cmp.Compare(a.UID, b.UID) })
	return dumps
}

func dumpWorkload(w *mesh.Workload) workloadDump {
	return workloadDump{
		UID: w.UID, Namespace: w.Namespace, Name: w.Name, Addresses: texts(w.Addrs), Identity: w.Identity.String(),
		HBONE: w.HBONE, Ready: w.Ready, Attached: w.Attached, HostNetwork: w.HostNetwork, Locality: localityDump(w.Locality),
	}
}

func dumpService(s *mesh.Service) serviceDump {
	d := serviceDump{
		Namespace: s.Namespace, Name: s.Name, Hostname: s.Hostname, Addresses: texts(s.VIPs),
		Attached: s.Attached, SANs: s.SANs, Locality: localityNames[s.Locality],
		Ports: make([]portDump, len(s.Ports)),
	}
	for i, p := range s.Ports {
		d.Ports[i] = dumpPort(p)
	}
	return d
}

var localityNames = map[mesh.LocalityMode]string{mesh.PreferZone: "PreferZone", mesh.PreferNode: "PreferNode"}

func dumpPort(p *mesh.Port) portDump {
	d := portDump{Number: p.Number, Name: p.Name, Protocol: p.Protocol.String(), Endpoints: make([]endpointDump, len(p.Endpoints))}
	for i, e := range p.Endpoints {
		d.Endpoints[i] = dumpEndpoint(e)
	}
	slices.SortFunc(d.Endpoints, func(a, b endpointDump) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Address, b.Address))
	})
	d.Routes = dumpRoutes(p.Routes)
	for namespace, routes := range p.Consumer {
		if d.ConsumerRoutes == nil {
			d.ConsumerRoutes = map[string]*routesDump{}
		}
		d.ConsumerRoutes[namespace] = dumpRoutes(routes)
	}
	d.Policies = dumpPolicies(p.HTTPAuthz) // TCPAuthz is of the same ones
	return d
}

func dumpEndpoint(e *mesh.Endpoint) endpointDump {
	d := endpointDump{Hostname: e.Hostname, SANs: e.SANs}
	if e.Addr.IsValid() {
		d.Address = e.Addr.String()
	}
	if e.Load != nil {
		d.InFlight = e.Load.InFlight.Load()
	}
	if w := e.Workload; w != nil {
		d.Workload, d.Identity, d.HBONE = w.UID, w.Identity.String(), w.HBONE
	}
	return d
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}
