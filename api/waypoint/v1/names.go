package waypointv1

import "github.com/waypoint-mesh/waypoint/api/istio/workload"

// KindName is the Kubernetes kind of a route kind ("HTTPRoute"); empty for an unknown one.
func (k RouteKind) KindName() string {
	switch k {
	case RouteKind_HTTP_ROUTE:
		return "HTTPRoute"
	case RouteKind_GRPC_ROUTE:
		return "GRPCRoute"
	case RouteKind_TCP_ROUTE:
		return "TCPRoute"
	case RouteKind_TLS_ROUTE:
		return "TLSRoute"
	}
	return ""
}

// RouteName is the resource name of a route: "Kind/namespace/name", since routes of different kinds may share a name.
func RouteName(kind RouteKind, namespace, name string) string {
	return kind.KindName() + "/" + namespace + "/" + name
}

// ResourceName is the name by which discovery knows r.
func (r *Route) ResourceName() string { return RouteName(r.GetKind(), r.GetNamespace(), r.GetName()) }

// ResourceName is the name by which discovery knows g.
func (g *Gateway) ResourceName() string { return g.GetNamespace() + "/" + g.GetName() }

// ResourceName is the name by which discovery knows p.
func (p *AuthorizationPolicy) ResourceName() string { return p.GetNamespace() + "/" + p.GetName() }

// Key is the resource name of the service that r refers to.
func (r *ServiceRef) Key() string { return workload.ServiceName(r.GetNamespace(), r.GetHostname()) }

// Fronts tells whether a service's or workload's waypoint address names this gateway.
func (g *Gateway) Fronts(w *workload.GatewayAddress) bool {
	h := w.GetHostname()
	return h != nil && h.GetNamespace() == g.GetNamespace() && h.GetHostname() == g.GetHostname()
}
