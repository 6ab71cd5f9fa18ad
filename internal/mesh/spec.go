package mesh

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Part is one piece of the mesh as its source knows it, before it is joined
// with the others: a *GatewaySpec, *ServiceSpec, *WorkloadSpec, *RouteSpec or
// *PolicySpec. Parts refer to each other by key and may come in any order. They
// belong to the [Builder] once they are handed to it, and do not change.
type Part interface {
	// PartKey names the part among all others.
	PartKey() Key
}

// Key names a part.
type Key struct {
	Kind Kind
	Name string // see the kinds
}

// Kind is the kind of a part.
type Kind uint8

// The kinds, and what parts of a kind are named by.
const (
	GatewayKind  Kind = iota // nothing: there is one
	ServiceKind              // "namespace/hostname"
	WorkloadKind             // UID
	RouteKind                // "HTTPRoute/namespace/name"
	PolicyKind               // "namespace/name"
)

// GatewaySpec says which waypoint we are.
type GatewaySpec struct {
	Gateway
	// Key is the "namespace/hostname" by which services and workloads say that
	// this gateway fronts them.
	Key string
}

// ServiceSpec is a destination service without its endpoints, routes and
// policies.
type ServiceSpec struct {
	Key                       string // "namespace/hostname"
	Name, Namespace, Hostname string
	VIPs                      []netip.Addr
	Waypoints                 []string // keys of the gateways that front it
	SANs                      []string // URIs that its endpoints may show besides their own identity
	Ports                     []PortSpec
	Telemetry                 *flow.Service
	Locality                  LocalityMode
	// Families are the address families that endpoints may be dialled by.
	Families Families
	// AllowUnready counts endpoints that are not ready too
	// (publishNotReadyAddresses).
	AllowUnready bool
	// Created decides between services that claim the same address or host: the
	// older has it. Zero counts as oldest.
	Created time.Time
}

// PortSpec is one port of a service.
type PortSpec struct {
	Number   uint16
	Name     string
	Protocol Protocol
}

// Families restricts the address families of endpoints.
type Families uint8

// The families. AnyFamily takes a workload's first address.
const (
	AnyFamily Families = iota
	IPv4Only
	IPv6Only
)

// WorkloadSpec is a workload and what it serves.
type WorkloadSpec struct {
	UID             string
	Namespace, Name string // Name is that of the Deployment or the like
	Addrs           []netip.Addr
	Hostname        string // resolved when there is no address
	// HostNetwork: the addresses are those of its node, so they do not tell who
	// it is and are not looked up.
	HostNetwork bool
	Identity    identity.ID
	HBONE       bool
	Ready       bool
	Unpicked    bool     // its capacity is 0: never an endpoint
	Waypoints   []string // keys of the gateways that front its own addresses
	Telemetry   *flow.Workload
	Locality    Locality
	// Serves lists, by service key, the ports at which it is an endpoint. A
	// service port that is missing is not served.
	Serves map[string][]PortMapping
}

// PortMapping says where a workload serves one port of a service.
type PortMapping struct{ Service, Target uint16 }

// RouteType is the type of a route object.
type RouteType uint8

// The types.
const (
	HTTPRoute RouteType = iota
	GRPCRoute
	TLSRoute
	TCPRoute
)

// String is the Kubernetes kind.
func (t RouteType) String() string {
	return [...]string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"}[t]
}

// RouteSpec is one route object.
type RouteSpec struct {
	serial
	Type            RouteType
	Namespace, Name string
	Created         time.Time // zero counts as oldest
	Parents         []RouteParent
	// Hostnames are the server names of a TLSRoute or, where the parent is the
	// gateway, the hosts of requests. Empty: any.
	Hostnames []string
	// Rules have no Hosts: the builder fills them in where Hostnames count.
	Rules []route.Rule
	// Rejected, if not empty, is why the object was refused. It then has no
	// rules, and what no other route of its parents takes is answered 500.
	Rejected string
}

// RouteParent is what a route is attached to.
type RouteParent struct {
	Service string // key; empty: the gateway
	Port    uint16 // 0: every port
}

// Object names the route as its author does: "HTTPRoute namespace/name".
func (r *RouteSpec) Object() string { return r.Type.String() + " " + r.Namespace + "/" + r.Name }

// PolicySpec is one AuthorizationPolicy and what it holds for.
type PolicySpec struct {
	serial
	Policy  authz.Policy
	Targets []PolicyTarget
}

// PolicyTarget is what a policy holds for. Zero: everything that the gateway
// fronts.
type PolicyTarget struct {
	Service   string // key of one service
	Namespace string // every service and workload of this namespace
}

// Object names the policy as its author does.
func (p *PolicySpec) Object() string { return "AuthorizationPolicy " + p.name() }

func (p *PolicySpec) name() string { return p.Policy.Namespace + "/" + p.Policy.Name }

// PartKey implements [Part].
func (g *GatewaySpec) PartKey() Key { return Key{Kind: GatewayKind} }

// PartKey implements [Part].
func (s *ServiceSpec) PartKey() Key { return Key{ServiceKind, s.Key} }

// PartKey implements [Part].
func (w *WorkloadSpec) PartKey() Key { return Key{WorkloadKind, w.UID} }

// PartKey implements [Part].
func (r *RouteSpec) PartKey() Key {
	return Key{RouteKind, r.Type.String() + "/" + r.Namespace + "/" + r.Name}
}

// PartKey implements [Part].
func (p *PolicySpec) PartKey() Key { return Key{PolicyKind, p.name()} }

// byPrecedence orders routes as the Gateway API settles ties: the older first,
// then by "namespace/name". Rejected ones come last, so that they take only what
// nobody else does.
func byPrecedence(a, b *RouteSpec) int {
	return cmp.Or(
		compareBool(a.Rejected != "", b.Rejected != ""),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name),
		cmp.Compare(a.Type, b.Type),
	)
}

// byName orders policies; the order decides nothing but which of several that
// agree is named.
func byName(a, b *PolicySpec) int {
	return cmp.Or(cmp.Compare(a.Policy.Namespace, b.Policy.Namespace), cmp.Compare(a.Policy.Name, b.Policy.Name))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
