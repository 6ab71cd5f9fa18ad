package decide

import (
	"fmt"
	"net/netip"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Destination is what a stream is addressed to: a port of a service that this
// waypoint fronts, or a workload whose own address comes through it.
type Destination struct {
	Port     *mesh.Port     // nil: the workload's own address
	Workload *mesh.Workload // nil: a service
	// Endpoint is the workload's address as dialled; nil for a service.
	Endpoint *mesh.Endpoint
	// Dialled is the address and port of the CONNECT. A host name stands for
	// the first address of its service, which may have none.
	Dialled netip.AddrPort
}

// Protocol is what the destination's declaration says is inside. Ports of
// workloads are not declared.
func (d *Destination) Protocol() mesh.Protocol {
	if d.Port == nil {
		return mesh.Sniff
	}
	return d.Port.Protocol
}

// Service is what telemetry says of the destination service, nil for a workload.
func (d *Destination) Service() *flow.Service {
	if d.Port == nil {
		return nil
	}
	return d.Port.Service.Telemetry
}

func (d *Destination) httpAuthz() *authz.Engine {
	if d.Port == nil {
		return d.Workload.HTTPAuthz
	}
	return d.Port.HTTPAuthz
}

func (d *Destination) tcpAuthz() *authz.Engine {
	if d.Port == nil {
		return d.Workload.TCPAuthz
	}
	return d.Port.TCPAuthz
}

// NotServed is a CONNECT target that this waypoint does not front: the CONNECT
// is answered 404, and nothing is dialled.
type NotServed struct{ Reason string }

func (e *NotServed) Error() string { return e.Reason }

func notServed(format string, args ...any) error {
	return &NotServed{Reason: fmt.Sprintf(format, args...)}
}

// Address finds the destination of a CONNECT to an address: a service by each of
// its addresses, a workload by its own. The error is a [*NotServed].
func Address(snap *mesh.Snapshot, target netip.AddrPort) (Destination, error) {
	target = netip.AddrPortFrom(target.Addr().Unmap(), target.Port())
	svc, port := snap.VIP(target)
	if svc != nil {
		return service(snap, svc, port, target.Addr(), target.Port())
	}
	w := snap.Workloads[target.Addr()]
	switch {
	case w == nil:
		return Destination{}, notServed("%s is no address of a service or workload that is known here", target.Addr())
	case !snap.Gateway.ServesWorkloads:
		return Destination{}, notServed("%s is the address of workload %s/%s, and this waypoint serves services only (label istio.io/waypoint-for)", target.Addr(), w.Namespace, w.Name)
	case !w.Attached:
		return Destination{}, notServed("workload %s/%s does not use this waypoint (label istio.io/use-waypoint)", w.Namespace, w.Name)
	}
	// Load belongs to this stream alone: there is nothing to balance.
	ep := &mesh.Endpoint{Workload: w, Addr: target, Load: new(mesh.Load)}
	return Destination{Workload: w, Endpoint: ep, Dialled: target}, nil
}

// Host finds the destination of a CONNECT to a host name: a service's. The error
// is a [*NotServed].
func Host(snap *mesh.Snapshot, host string, number uint16) (Destination, error) {
	svc, port := snap.Host(route.NormalizeHost(host), number)
	if svc == nil {
		return Destination{}, notServed("no service with the host name %q is known here", host)
	}
	var addr netip.Addr // of a service without addresses: headless, or known by name alone
	if len(svc.VIPs) > 0 {
		addr = svc.VIPs[0]
	}
	return service(snap, svc, port, addr, number)
}

func service(snap *mesh.Snapshot, svc *mesh.Service, port *mesh.Port, addr netip.Addr, number uint16) (Destination, error) {
	switch {
	case !snap.Gateway.ServesServices:
		return Destination{}, notServed("%s is a service, and this waypoint serves workloads only (label istio.io/waypoint-for)", svc.Key)
	case !svc.Attached:
		return Destination{}, notServed("service %s does not use this waypoint (label istio.io/use-waypoint)", svc.Key)
	case port == nil:
		return Destination{}, notServed("service %s has no port %d", svc.Key, number)
	}
	return Destination{Port: port, Dialled: netip.AddrPortFrom(addr, number)}, nil
}
