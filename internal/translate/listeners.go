package translate

import gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

// computeListeners counts the routes at each listener: those that name our Gateway as a parent and that the listener lets in,
// whether they are of use or not (Gateway API, ListenerStatus.attachedRoutes). Routes of services are not among them.
func (v *view) computeListeners() {
	g := v.gateway()
	if g == nil {
		return
	}
	counts := make([]ListenerRoutes, len(g.Spec.Listeners))
	for i, l := range g.Spec.Listeners {
		counts[i].Listener = string(l.Name)
	}
	us := parentRef{group: groupGateway, kind: kindGateway, namespace: g.Namespace, name: g.Name}
	for kind := range routeKinds {
		for _, e := range v.find(us.fact(kind)) {
			for i := range g.Spec.Listeners {
				if v.isAt(&g.Spec.Listeners[i], g, e, us) {
					counts[i].Routes++
				}
			}
		}
	}
	v.statement().listeners = counts
}

// isAt tells whether one of a route's parentRefs is the listener, which lets it in.
func (v *view) isAt(l *gatewayv1.Listener, g *gatewayv1.Gateway, route *entry, us parentRef) bool {
	refs, _ := routeParents(route.obj)
	for _, ref := range refs {
		p := parentOf(ref, route.key.Namespace)
		if p.fact("") == us.fact("") && p.names(l) && v.listenerAllows(g, l, route.key.Namespace) && allowsKind(*l, route.key.Kind) {
			return true
		}
	}
	return false
}

// names tells whether the parentRef, which is for the listener's Gateway, means that listener, among others perhaps.
func (p parentRef) names(l *gatewayv1.Listener) bool {
	return (p.port == 0 || uint32(l.Port) == p.port) && (p.section == "" || string(l.Name) == p.section)
}
