package translate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// kindHostname lets a backendRef name any known host (Istio's extension).
const kindHostname = "Hostname"

// refError is why a reference cannot be used, and the reason that stands for it in a route's status.
type refError struct {
	reason gatewayv1.RouteConditionReason
	text   string
}

func refErrorf(reason gatewayv1.RouteConditionReason, format string, args ...any) *refError {
	return &refError{reason, fmt.Sprintf(format, args...)}
}

// unresolved notes the first reference of the route that cannot be used.
func (c *routeContext) unresolved(err *refError) {
	if c.resolved.Status {
		c.resolved = Condition{false, string(err.reason), err.text}
	}
}

// backend resolves a backendRef. One that cannot be used keeps its weight, as its share of the requests is answered 500.
func (c *routeContext) backend(at path, ref gatewayv1.BackendRef) *waypointv1.Backend {
	out := &waypointv1.Backend{Weight: 1}
	if ref.Weight != nil {
		out.Weight = uint32(*ref.Weight)
	}
	if ref.Port != nil {
		out.Port = uint32(*ref.Port)
	}
	service, err := c.resolve(ref.BackendObjectReference)
	if err != nil {
		c.unresolved(err)
		c.report.errorf(at, "%s; its share of the requests is answered 500", err.text)
		out.Target = &waypointv1.Backend_Invalid{Invalid: err.text}
		return out
	}
	out.Target = &waypointv1.Backend_Service{Service: service}
	return out
}

// resolve finds the service that a reference names, or tells why it cannot be used.
func (c *routeContext) resolve(ref gatewayv1.BackendObjectReference) (*waypointv1.ServiceRef, *refError) {
	kind, namespace := kindService, c.route.Namespace
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if ref.Namespace != nil {
		namespace = string(*ref.Namespace)
	}
	named := groupKind{value(ref.Group), kind}
	switch {
	case named != groupKind{groupCore, kindService} && named != groupKind{groupNetworking, kindHostname}:
		return nil, refErrorf(gatewayv1.RouteReasonInvalidKind, "a backend of kind %s is not supported, only a Service", kind)
	case ref.Port == nil:
		return nil, refErrorf(gatewayv1.RouteReasonUnsupportedValue, "%s %s needs a port", kind, ref.Name)
	case kind == kindHostname:
		return c.backendHost(string(ref.Name), uint32(*ref.Port))
	}
	return c.backendService(namespace, string(ref.Name), uint32(*ref.Port))
}

func (c *routeContext) backendService(namespace, name string, port uint32) (*waypointv1.ServiceRef, *refError) {
	if err := c.permits(Key{kindService, namespace, name}); err != nil {
		return nil, err
	}
	e := c.get(kindService, namespace, name)
	if e == nil || e.rejected != "" {
		return nil, refErrorf(gatewayv1.RouteReasonBackendNotFound, "Service %s/%s does not exist", namespace, name)
	}
	return c.backendPort(e, c.serviceHost(namespace, name), port)
}

// backendHost finds the object that declares host with the port: in the route's namespace, else a Service before a
// ServiceEntry, else the first by namespace and name. Two that share a host may each have ports of their own.
func (c *routeContext) backendHost(host string, port uint32) (*waypointv1.ServiceRef, *refError) {
	declared := slices.Clone(c.find(fact{kind: factHost, name: host}))
	if len(declared) == 0 {
		return nil, refErrorf(gatewayv1.RouteReasonBackendNotFound, "no Service or ServiceEntry declares the host %s", host)
	}
	rank := func(e *entry) int {
		switch {
		case e.key.Namespace == c.route.Namespace:
			return 0
		case e.key.Kind == kindService:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(declared, func(a, b *entry) int { return cmp.Compare(rank(a), rank(b)) })
	chosen := declared[0]
	if i := slices.IndexFunc(declared, func(e *entry) bool { return hasPort(e.obj, port) }); i >= 0 {
		chosen = declared[i]
	}
	if err := c.permits(chosen.key); err != nil {
		return nil, err
	}
	return c.backendPort(chosen, host, port)
}

func (c *routeContext) backendPort(e *entry, host string, port uint32) (*waypointv1.ServiceRef, *refError) {
	if s, ok := e.obj.(*corev1.Service); ok && s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, refErrorf(gatewayv1.RouteReasonUnsupportedValue, "%s is of type ExternalName, which has no endpoints", e.key)
	}
	if !hasPort(e.obj, port) {
		return nil, refErrorf(gatewayv1.RouteReasonBackendNotFound, "%s has no TCP port %d", e.key, port)
	}
	return &waypointv1.ServiceRef{Namespace: e.key.Namespace, Hostname: host}, nil
}

// permits looks for the ReferenceGrant (GEP-709) that an object of another namespace needs under a gateway parent.
func (c *routeContext) permits(key Key) *refError {
	if key.Namespace == c.route.Namespace || !c.granted {
		return nil
	}
	for _, e := range c.find(fact{kind: factGrant, namespace: key.Namespace}) {
		spec := e.obj.(*gatewayv1.ReferenceGrant).Spec
		if grantsFrom(spec.From, c.route) && grantsTo(spec.To, key) {
			return nil
		}
	}
	return refErrorf(gatewayv1.RouteReasonRefNotPermitted, "no ReferenceGrant in namespace %s lets %ss of namespace %s use %s %s",
		key.Namespace, c.route.Kind.KindName(), c.route.Namespace, key.Kind, key.Name)
}

func grantsFrom(from []gatewayv1.ReferenceGrantFrom, route *waypointv1.Route) bool {
	return slices.ContainsFunc(from, func(f gatewayv1.ReferenceGrantFrom) bool {
		return f.Group == groupGateway && string(f.Kind) == route.Kind.KindName() && string(f.Namespace) == route.Namespace
	})
}

func grantsTo(to []gatewayv1.ReferenceGrantTo, key Key) bool {
	group := groupCore
	if key.Kind == kindServiceEntry {
		group = groupNetworking
	}
	return slices.ContainsFunc(to, func(t gatewayv1.ReferenceGrantTo) bool {
		return string(t.Group) == group && string(t.Kind) == key.Kind && (t.Name == nil || string(*t.Name) == key.Name)
	})
}
