// Package mesh is what we know of the mesh: services, workloads, endpoints, and
// what is to happen to traffic for them.
//
// One writer, the [Builder], assembles an immutable [Snapshot] from compiled
// parts and publishes it through the [Store]. Readers Load it once per
// connection and again per request, and never take a lock.
package mesh

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Protocol is what a port's declaration says is inside a stream.
type Protocol uint8

// The protocols.
const (
	Sniff Protocol = iota // not declared: look at the first bytes
	HTTP1                 // HTTP; HTTP/1.1 towards the endpoint
	HTTP2                 // HTTP; HTTP/2 towards the endpoint
	GRPC                  // as HTTP2
	TLS                   // opaque, with an SNI to look at
	TCP                   // opaque; the server may speak first
)

// String names the protocol.
func (p Protocol) String() string {
	return [...]string{"sniffed", "http", "http2", "grpc", "tls", "tcp"}[p]
}

// IsHTTP reports whether the port is declared to carry HTTP.
func (p Protocol) IsHTTP() bool { return p == HTTP1 || p == HTTP2 || p == GRPC }

// Snapshot is one state of the mesh. Nothing in it changes after publication,
// but for the counters behind [Endpoint.Load].
type Snapshot struct {
	Version  uint64 // grows with every publication; 0: there was none
	Gateway  Gateway
	Services map[string]*Service // by "namespace/hostname"
	// VIPs, Hosts and Workloads are looked up by address and host name. Where
	// several claim the same, Conflicts says who has it.
	VIPs      map[netip.Addr]*Service
	Hosts     map[string]*Service
	Workloads map[netip.Addr]*Workload
	// OtherVIPs and OtherHosts are the services that claim what one of those
	// above has, the next one first.
	OtherVIPs  map[netip.Addr][]*Service
	OtherHosts map[string][]*Service
	// Rejected lists the objects that were refused, by name. The last good
	// version of such an object is in force, or, if there is none, what fails
	// closed in its place.
	Rejected []Problem
	// Conflicts lists the addresses and hosts that several services or
	// workloads claim.
	Conflicts []Problem
}

// Problem says what is wrong with one object.
type Problem struct{ Object, Reason string }

// VIP finds the service and port that an address and port stand for. The port
// is nil if the service has none of that number, the service nil if the address
// is nobody's.
func (s *Snapshot) VIP(addr netip.AddrPort) (*Service, *Port) {
	svc := s.VIPs[addr.Addr()]
	if port := svc.Port(addr.Port()); port != nil || svc == nil {
		return svc, port
	}
	return shared(svc, s.OtherVIPs[addr.Addr()], addr.Port())
}

// Host is VIP for a host name.
func (s *Snapshot) Host(name string, port uint16) (*Service, *Port) {
	svc := s.Hosts[name]
	if p := svc.Port(port); p != nil || svc == nil {
		return svc, p
	}
	return shared(svc, s.OtherHosts[name], port)
}

// shared finds a port that svc has not in another service of the same host name:
// ServiceEntries of several namespaces may give one host each some of its ports.
// Services of other names get nothing of an address that is not theirs.
func shared(svc *Service, others []*Service, number uint16) (*Service, *Port) {
	for _, other := range others {
		if port := other.Port(number); port != nil && other.Attached && other.Hostname == svc.Hostname {
			return other, port
		}
	}
	return svc, nil
}

// Gateway is which waypoint we are.
type Gateway struct {
	Namespace, Name string
	ServesServices  bool // istio.io/waypoint-for: service or all
	ServesWorkloads bool // istio.io/waypoint-for: workload or all
	Trust           identity.Trust
	Locality        Locality // where the proxy runs
}

// Service is one destination service.
type Service struct {
	Key       string // "namespace/hostname"
	Name      string
	Namespace string
	Hostname  string
	VIPs      []netip.Addr
	Attached  bool     // this waypoint fronts it
	SANs      []string // further identities its endpoints may show
	Ports     []*Port
	Telemetry *flow.Service
	Locality  LocalityMode
	Created   time.Time
}

// Port returns the port of that number, nil if there is none. A nil service has
// no ports.
func (s *Service) Port(number uint16) *Port {
	if s == nil {
		return nil
	}
	for _, p := range s.Ports { // a handful: a map would be slower
		if p.Number == number {
			return p
		}
	}
	return nil
}

// LocalityMode is the service's wish for near endpoints (trafficDistribution).
type LocalityMode uint8

// The modes.
const (
	AnyLocality LocalityMode = iota
	PreferZone               // same zone, else region, else any
	PreferNode               // same node, else zone, region, any
)

// Port is one port of a service, with all that is decided for it.
type Port struct {
	Service  *Service
	Number   uint16
	Name     string
	Protocol Protocol
	// Endpoints are the ready ones. The slice is never changed in place.
	Endpoints []*Endpoint
	// NotReady is how many workloads serve the port beside those, and are not
	// ready.
	NotReady int
	// Routes holds the routes of the service's own namespace or of the
	// gateway; Consumer those of other namespaces, which replace Routes for
	// clients of that namespace (GEP-1294). Nil: no route, straight to the port.
	Routes   *Routes
	Consumer map[string]*Routes
	// HTTPAuthz and TCPAuthz check a request, or a connection whose inside is
	// opaque: policies compile differently for the two. Never nil for an
	// attached service.
	HTTPAuthz, TCPAuthz *authz.Engine
}

// Routes are the compiled routes for one port and group of clients. Nil tables:
// no route of that kind.
type Routes struct {
	HTTP *route.Table
	GRPC *route.Table
	TLS  *route.SNITable
	TCP  *route.Rule // weights only
}

// Workload is one pod or WorkloadEntry.
type Workload struct {
	UID       string
	Namespace string
	Name      string // of the Deployment or the like
	Addrs     []netip.Addr
	// HostNetwork: the addresses are those of its node, so that they do not tell
	// who it is.
	HostNetwork bool
	Ready       bool
	Identity    identity.ID
	HBONE       bool // its node proxy terminates HBONE on 15008
	Attached    bool // traffic to its own address comes through this waypoint
	Telemetry   *flow.Workload
	Locality    Locality
	// For traffic to its address.
	HTTPAuthz, TCPAuthz *authz.Engine
}

// Locality says where a workload runs.
type Locality struct{ Region, Zone, Node string }

// Endpoint is where one port of a service, or of a workload, is served.
type Endpoint struct {
	Workload *Workload
	Addr     netip.AddrPort // address and target port
	Hostname string         // instead of Addr: to be resolved (ServiceEntry with DNS)
	// Identities the endpoint may show, besides Workload.Identity.
	SANs []string
	Port *Port // nil for a workload's own address
	// Load is the live state of this address and port. It is never nil, and
	// is carried over by address when the endpoint is compiled anew.
	Load *Load
}

// Load is what balancing knows of one endpoint.
type Load struct {
	InFlight atomic.Int64 // exchanges and connections under way
}
