package translate

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

var routeKinds = map[string]waypointv1.RouteKind{
	kindHTTPRoute: waypointv1.RouteKind_HTTP_ROUTE,
	kindGRPCRoute: waypointv1.RouteKind_GRPC_ROUTE,
	kindTCPRoute:  waypointv1.RouteKind_TCP_ROUTE,
	kindTLSRoute:  waypointv1.RouteKind_TLS_ROUTE,
}

// outrankedBy lists the route kinds that take a service port away from one (GEP-1294, with Istio's exception that HTTPRoute
// and GRPCRoute share).
var outrankedBy = map[string][]string{
	kindTLSRoute: {kindGRPCRoute, kindHTTPRoute},
	kindTCPRoute: {kindGRPCRoute, kindHTTPRoute, kindTLSRoute},
}

// routeParents are the parentRefs of a route of any kind; false for other objects.
func routeParents(obj Object) ([]gatewayv1.ParentReference, bool) {
	switch obj := obj.(type) {
	case *gatewayv1.HTTPRoute:
		return obj.Spec.ParentRefs, true
	case *gatewayv1.GRPCRoute:
		return obj.Spec.ParentRefs, true
	case *gatewayv1.TCPRoute:
		return obj.Spec.ParentRefs, true
	case *gatewayv1.TLSRoute:
		return obj.Spec.ParentRefs, true
	}
	return nil, false
}

// parentRef is a ParentReference with its defaults filled in.
type parentRef struct {
	group, kind, namespace, name string
	port                         uint32 // 0: not given
	section                      string
}

func parentOf(ref gatewayv1.ParentReference, namespace string) parentRef {
	p := parentRef{group: groupGateway, kind: kindGateway, namespace: namespace, name: string(ref.Name)}
	if ref.Group != nil {
		p.group = string(*ref.Group)
	}
	if ref.Kind != nil {
		p.kind = string(*ref.Kind)
	}
	if ref.Namespace != nil {
		p.namespace = string(*ref.Namespace)
	}
	if ref.Port != nil {
		p.port = uint32(*ref.Port)
	}
	if ref.SectionName != nil {
		p.section = string(*ref.SectionName)
	}
	return p
}

// fact is what routes of a kind with this parent are filed under.
func (p parentRef) fact(routeKind string) fact {
	return fact{kind: factRoute, namespace: p.namespace, name: p.group + "/" + p.kind + "/" + p.name, value: routeKind}
}

func routeFacts(key Key, refs []gatewayv1.ParentReference) []fact {
	var facts []fact
	for _, ref := range refs {
		if f := parentOf(ref, key.Namespace).fact(key.Kind); !slices.Contains(facts, f) {
			facts = append(facts, f)
		}
	}
	return facts
}

// computeRoute gives a route that has a parent which we front.
func (v *view) computeRoute(kind, namespace, name string) {
	e := v.get(kind, namespace, name)
	if e == nil {
		return
	}
	r := v.about(e.key)
	defer v.keep(r)
	route := &waypointv1.Route{
		Kind:      routeKinds[kind],
		Namespace: namespace,
		Name:      name,
		Rejected:  e.rejected,
	}
	status := v.parents(route, e, r)
	if len(status) > 0 {
		v.statement().parents = status
	}
	if len(route.Parents) == 0 {
		return
	}
	if t := e.obj.GetCreationTimestamp(); !t.IsZero() {
		route.Created = timestamppb.New(t.Time)
	}
	resolved := Condition{true, string(gatewayv1.RouteReasonResolvedRefs), ""}
	if e.rejected == "" {
		resolved = v.fillRoute(route, e.obj, r)
	}
	v.emit(route)
	for i := range status {
		if status[i].Waypoint.Status {
			status[i].ResolvedRefs = resolved
		}
	}
}

// fillRoute translates the rules and tells whether all that they refer to could be resolved.
func (v *view) fillRoute(route *waypointv1.Route, obj Object, r *report) Condition {
	c := routeContext{
		view: v, report: r, route: route, granted: v.needsGrant(route),
		resolved: Condition{true, string(gatewayv1.RouteReasonResolvedRefs), ""},
	}
	switch obj := obj.(type) {
	case *gatewayv1.HTTPRoute:
		route.Hostnames = c.hostnames(obj.Spec.Hostnames)
		for i, rule := range obj.Spec.Rules {
			route.Rules = append(route.Rules, c.httpRule(path("spec.rules").index(i), rule))
		}
		if len(route.Rules) == 0 { // the API's default: one rule that matches everything and has no backend
			route.Rules = []*waypointv1.RouteRule{{}}
		}
	case *gatewayv1.GRPCRoute:
		route.Hostnames = c.hostnames(obj.Spec.Hostnames)
		for i, rule := range obj.Spec.Rules {
			route.Rules = append(route.Rules, c.grpcRule(path("spec.rules").index(i), rule))
		}
	case *gatewayv1.TCPRoute:
		for i, rule := range obj.Spec.Rules {
			route.Rules = append(route.Rules, c.streamRule(path("spec.rules").index(i), rule.Name, rule.BackendRefs))
		}
	case *gatewayv1.TLSRoute:
		route.Hostnames = texts(obj.Spec.Hostnames)
		for i, rule := range obj.Spec.Rules {
			route.Rules = append(route.Rules, c.streamRule(path("spec.rules").index(i), rule.Name, rule.BackendRefs))
		}
	}
	return c.resolved
}

// hostnames of an HTTP or gRPC route count under a gateway parent only (GEP-1294).
func (c *routeContext) hostnames(from []gatewayv1.Hostname) []string {
	if len(from) > 0 && !c.granted {
		c.report.warnf("spec.hostnames", "a route on a Service sees every request for it; hostnames are ignored")
	}
	return texts(from)
}

// needsGrant: backends in other namespaces need a ReferenceGrant under a gateway parent only (GEP-1294). A route with both
// kinds of parents is held to the stricter rule.
func (v *view) needsGrant(route *waypointv1.Route) bool {
	return slices.ContainsFunc(route.Parents, (*waypointv1.RouteParent).GetGateway)
}

// foundParent is what a parentRef came to.
type foundParent struct {
	parents []*waypointv1.RouteParent
	err     *refError // the parent is ours and does not take the route
	detour  detour    // calls to the parent do not come by us
}

// parents resolves the parentRefs of a route to what this gateway fronts, and gives the status of those that are ours or
// nobody's.
func (v *view) parents(route *waypointv1.Route, e *entry, r *report) []ParentStatus {
	refs, _ := routeParents(e.obj)
	var all []ParentStatus
	for i, ref := range refs {
		p, at := parentOf(ref, e.key.Namespace), path("spec.parentRefs").index(i)
		var found foundParent
		switch (groupKind{p.group, p.kind}) {
		case groupKind{groupGateway, kindGateway}:
			found.parents, found.err = v.gatewayParent(p, e.key)
		case groupKind{groupCore, kindService}, groupKind{groupNetworking, kindServiceEntry}:
			found = v.serviceParents(p, e.key, at, r)
		default:
			unknownParent(p, at, r)
		}
		route.Parents = append(route.Parents, found.parents...)
		if status := v.parentStatus(found, e, at, r); status.Accepted.Reason != "" {
			status.Ref = i
			all = append(all, status)
		}
	}
	return all
}

// parentStatus says what a parentRef came to, nothing if that is for others to say.
func (v *view) parentStatus(found foundParent, e *entry, at path, r *report) ParentStatus {
	status := ParentStatus{
		Accepted: Condition{true, string(gatewayv1.RouteReasonAccepted), ""},
		Waypoint: Condition{true, reasonResolvedWaypoints, "Served by the waypoint " + v.options.GatewayNamespace + "/" + v.options.GatewayName},
	}
	switch d := found.detour; {
	case d.reason != "":
		p := d.problem(e.key, at, ", so nothing follows the route")
		r.add(p)
		status.Accepted = Condition{false, string(gatewayv1.RouteReasonNoMatchingParent), p.because()}
		if d.reason == reasonDenied {
			status.Accepted.Reason = string(gatewayv1.RouteReasonNotAllowedByListeners)
		}
		status.Waypoint, status.Nobodys = Condition{false, d.reason, p.because()}, !d.ours
	case found.err != nil:
		r.errorf(at, "%s", found.err.text)
		status.Accepted = Condition{false, string(found.err.reason), found.err.text}
	case len(found.parents) == 0:
		return ParentStatus{} // somebody else's
	case e.rejected != "":
		status.Accepted = Condition{false, string(gatewayv1.RouteReasonUnsupportedValue), e.rejected}
	}
	return status
}

// reasonResolvedWaypoints is Istio's for a route whose parent has a waypoint.
const reasonResolvedWaypoints = "ResolvedWaypoints"

// unknownParent: a route on another implementation's object is no fault, but the group of a Service is easily forgotten, and
// then defaults to the Gateway API's.
func unknownParent(p parentRef, at path, r *report) {
	group, ok := map[string]string{kindService: groupCore, kindServiceEntry: groupNetworking}[p.kind]
	if !ok {
		r.warnf(at.at("kind"), "must be Service, ServiceEntry or Gateway, got %q of group %q", p.kind, p.group)
		return
	}
	r.add(Problem{
		r.object, string(at.at("group")), fmt.Sprintf("a %s is not of group %q, so the route does nothing", p.kind, p.group),
		fmt.Sprintf("write group: %q", group), Error,
	})
}

type groupKind struct{ group, kind string }

// gatewayParent tells whether p is our gateway, and whether one of its listeners lets the route in.
func (v *view) gatewayParent(p parentRef, route Key) ([]*waypointv1.RouteParent, *refError) {
	g := v.gateway()
	if g == nil || p.namespace != g.Namespace || p.name != g.Name {
		return nil, nil
	}
	named := false
	for _, l := range g.Spec.Listeners {
		if !p.names(&l) {
			continue
		}
		named = true
		if v.listenerAllows(g, &l, route.Namespace) && allowsKind(l, route.Kind) {
			return []*waypointv1.RouteParent{{Target: &waypointv1.RouteParent_Gateway{Gateway: true}}}, nil
		}
	}
	if !named {
		return nil, refErrorf(gatewayv1.RouteReasonNoMatchingParent, "Gateway %s/%s has no listener with that port or sectionName",
			p.namespace, p.name)
	}
	return nil, refErrorf(gatewayv1.RouteReasonNotAllowedByListeners,
		"the listener of Gateway %s/%s does not allow %ss from namespace %s (allowedRoutes)", p.namespace, p.name, route.Kind,
		route.Namespace)
}

func allowsKind(l gatewayv1.Listener, kind string) bool {
	if l.AllowedRoutes == nil || len(l.AllowedRoutes.Kinds) == 0 {
		return true
	}
	return slices.ContainsFunc(l.AllowedRoutes.Kinds, func(k gatewayv1.RouteGroupKind) bool {
		return string(k.Kind) == kind && (k.Group == nil || *k.Group == groupGateway)
	})
}

// serviceParents gives the services of a parent object that we front, restricted to the port that was named.
func (v *view) serviceParents(p parentRef, route Key, at path, r *report) (found foundParent) {
	e := v.get(p.kind, p.namespace, p.name)
	if e == nil || e.rejected != "" {
		r.errorf(at, "%s %s/%s does not exist", p.kind, p.namespace, p.name)
		return found // whose it will be is not known
	}
	if found.detour = v.detourOf(e.obj); found.detour.reason != "" || !v.attached(e.obj, true) {
		return found
	}
	if s, ok := e.obj.(*corev1.Service); ok && s.Spec.Type == corev1.ServiceTypeExternalName {
		found.err = refErrorf(gatewayv1.RouteReasonNoMatchingParent, "an ExternalName Service cannot have routes")
		return found
	}
	port, err := parentPort(p, e.obj, at, r)
	if err != nil {
		found.err = err
		return found
	}
	ports, err := v.withoutOutranked(port, p, route, e.obj, at, r)
	for _, port := range ports {
		for _, host := range v.hostsOf(e.obj) {
			ref := &waypointv1.ServiceRef{Namespace: p.namespace, Hostname: host}
			found.parents = append(found.parents, &waypointv1.RouteParent{Target: &waypointv1.RouteParent_Service{Service: ref}, Port: port})
		}
	}
	found.err = err
	return found
}

// parentPort gives the one port that a parentRef names by number or section, or 0 for all.
func parentPort(p parentRef, obj Object, at path, r *report) (uint32, *refError) {
	if p.port == 0 && p.section == "" {
		warnProtocols(obj, at, r)
		return 0, nil
	}
	for _, sp := range portsOf(obj) {
		if (p.port == 0 || p.port == sp.number) && (p.section == "" || p.section == sp.name) {
			warnProtocol(sp, at, r)
			return sp.number, nil
		}
	}
	return 0, refErrorf(gatewayv1.RouteReasonNoMatchingParent, "%s %s/%s has no port with that number or name", p.kind, p.namespace,
		p.name)
}

// carries tells whether routes of a kind see what a port of a protocol carries.
func carries(routeKind string, p workload.AppProtocol) bool {
	switch p {
	case workload.AppProtocol_HTTP11, workload.AppProtocol_HTTP2, workload.AppProtocol_GRPC:
		return routeKind == kindHTTPRoute || routeKind == kindGRPCRoute
	case workload.AppProtocol_TLS:
		return routeKind == kindTLSRoute || routeKind == kindTCPRoute
	case workload.AppProtocol_TCP:
		return routeKind == kindTCPRoute
	}
	return true
}

// warnProtocol tells of a route on a port that is declared to carry something it cannot see.
func warnProtocol(port declaredPort, at path, r *report) {
	if !carries(r.object.Kind, port.protocol) {
		r.warnf(at, "port %d is declared as %s, so %ss do nothing there", port.number, port.protocol, r.object.Kind)
	}
}

// warnProtocols is warnProtocol for a route on all ports, none of which it can see.
func warnProtocols(obj Object, at path, r *report) {
	ports := portsOf(obj)
	sees := func(p declaredPort) bool { return carries(r.object.Kind, p.protocol) }
	if len(ports) == 0 || slices.ContainsFunc(ports, sees) {
		return
	}
	for _, p := range ports {
		warnProtocol(p, at, r)
	}
}

// reasonConflicted is the reason of a route that loses its port to one of a stronger kind (GEP-1294).
const reasonConflicted gatewayv1.RouteConditionReason = "Conflicted"

// withoutOutranked takes away the ports for which a route of a stronger kind exists, and fails if none is left. It keeps
// 0, all ports, if nothing is taken.
func (v *view) withoutOutranked(port uint32, p parentRef, route Key, obj Object, at path, r *report) ([]uint32, *refError) {
	taken := v.takenPorts(p, route)
	if len(taken) == 0 {
		return []uint32{port}, nil
	}
	var left []uint32
	var lost []*refError
	for _, sp := range portsOf(obj) {
		if port != 0 && port != sp.number {
			continue
		}
		if by, ok := takenBy(taken, sp); ok {
			lost = append(lost, refErrorf(reasonConflicted, "port %d is routed by %s already, beside which %ss are ignored", sp.number, by,
				route.Kind))
		} else {
			left = append(left, sp.number)
		}
	}
	if len(left) == 0 && len(lost) > 0 {
		return nil, lost[0]
	}
	for _, err := range lost {
		r.warnf(at, "%s", err.text)
	}
	return left, nil
}

// takenPort is a parentRef of a stronger route.
type takenPort struct {
	ref parentRef
	by  Key
}

// takenPorts looks among the routes of the same namespace: those of another one are for other clients.
func (v *view) takenPorts(p parentRef, route Key) []takenPort {
	var taken []takenPort
	for _, kind := range outrankedBy[route.Kind] {
		for _, e := range v.find(p.fact(kind)) {
			if e.key.Namespace != route.Namespace {
				continue
			}
			refs, _ := routeParents(e.obj)
			for _, ref := range refs {
				other := parentOf(ref, e.key.Namespace)
				if other.fact(kind) == p.fact(kind) {
					taken = append(taken, takenPort{other, e.key})
				}
			}
		}
	}
	return taken
}

func takenBy(taken []takenPort, port declaredPort) (Key, bool) {
	for _, t := range taken {
		if (t.ref.port == 0 || t.ref.port == port.number) && (t.ref.section == "" || t.ref.section == port.name) &&
			carries(t.by.Kind, port.protocol) {
			return t.by, true
		}
	}
	return Key{}, false
}
