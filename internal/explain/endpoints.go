package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// backends tells all backends of the rule that is followed, with their shares.
func (t *telling) backends(v *decide.Verdict) (told []Backend) {
	total := 0.0
	for _, b := range v.Rule.Backends {
		total += float64(b.Weight)
	}
	if _, redirects := redirectStatus(v.Rule); redirects || total == 0 {
		return nil
	}
	for i := range v.Rule.Backends {
		b := &v.Rule.Backends[i]
		out := t.backend(b)
		out.Percent = 100 * float64(b.Weight) / total
		told = append(told, out)
	}
	return told
}

func (t *telling) backend(b *route.Backend) Backend {
	port, reply := decide.BackendPort(t.snap, b)
	switch {
	case b.Weight == 0:
		return Backend{Service: b.Service, Port: b.Port, Why: "its weight is 0"}
	case b.Invalid != "":
		return Backend{Service: b.Service, Port: b.Port, Status: reply.Status, Why: b.Invalid}
	case reply != nil:
		return Backend{Service: b.Service, Port: b.Port, Status: reply.Status, Why: "no such service and port is known here"}
	}
	out := t.portBackend(port)
	for _, f := range b.Filters {
		if h, ok := f.(*route.HeaderModifier); ok {
			out.Filters = append(out.Filters, h.String())
		}
	}
	return out
}

// whyNone says why a port has no endpoint.
func whyNone(p *mesh.Port) string {
	if p.NotReady > 0 {
		return "no workload that serves the port is ready"
	}
	return "no workload serves the port: look at selector and targetPort, or at the EndpointSlices"
}

// maxEndpoints bounds what is told of one backend.
const maxEndpoints = 20

// portBackend tells the endpoints of a port, those first that are drawn from.
func (t *telling) portBackend(p *mesh.Port) Backend {
	out := Backend{Service: p.Service.Key, Port: p.Number, Percent: 100}
	out.NotReady = p.NotReady
	if len(p.Endpoints) == 0 {
		out.Status, out.Why = http.StatusServiceUnavailable, whyNone(p)
		return out
	}
	near := func(ep *mesh.Endpoint) int {
		return upstream.Nearness(p.Service.Locality, t.snap.Gateway.Locality, ep.Workload.Locality)
	}
	eps := slices.Clone(p.Endpoints)
	slices.SortStableFunc(eps, func(a, b *mesh.Endpoint) int { return cmp.Compare(near(b), near(a)) })
	for _, ep := range eps[:min(len(eps), maxEndpoints)] {
		told := endpointOf(ep)
		if told.Eligible = near(ep) == near(eps[0]); !told.Eligible {
			told.Why = "farther away: " + place(ep.Workload.Locality)
		}
		out.Endpoints = append(out.Endpoints, told)
	}
	out.More = max(0, len(eps)-maxEndpoints)
	return out
}

func place(l mesh.Locality) string {
	return fmt.Sprintf("region %q, zone %q, node %q", l.Region, l.Zone, l.Node)
}

// workloadBackend tells the workload whose own address was called.
func (t *telling) workloadBackend() Backend {
	told := endpointOf(t.dest.Endpoint)
	told.Eligible = true
	return Backend{Service: "workload " + t.Destination.Workload, Port: t.dest.Dialled.Port(), Percent: 100, Endpoints: []Endpoint{told}}
}

func endpointOf(ep *mesh.Endpoint) Endpoint {
	w := ep.Workload
	out := Endpoint{Address: ep.Addr.String(), Workload: w.Namespace + "/" + w.Name, Identity: w.Identity.String(), HBONE: w.HBONE}
	if ep.Hostname != "" {
		out.Address = fmt.Sprintf("%s:%d", ep.Hostname, ep.Addr.Port())
	}
	return out
}
