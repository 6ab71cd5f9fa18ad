package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// outcome is what a reconciliation has to say of a Gateway.
type outcome struct {
	// unacceptable is why nothing can be made of it, with the reason.
	reason       gatewayv1.GatewayConditionReason
	unacceptable string
	// hindered is why it is accepted and not all was applied.
	hindered string
	again    time.Duration // when to look at it again; 0: at the next event
	// addresses where clients reach it, empty while nobody would answer.
	addresses []gatewayv1.GatewayStatusAddress
	found     Findings
}

// Findings are what is known of a Gateway elsewhere, for its status.
type Findings struct {
	// Attached counts the routes at each listener, by its name.
	Attached map[gatewayv1.SectionName]int32
	// Remarks says what of it does nothing, or not what it seems to; empty: all does.
	Remarks string
	// Refused says which resources its waypoints refuse, and why; empty: none.
	Refused string
}

// ConditionConfigured is the type of a condition of ours, which a Gateway has only
// while its waypoints refuse something.
const ConditionConfigured = "waypoint-mesh.dev/Configured"

// fill brings the outcome into a status. The addresses of a Gateway stay once they
// are there: without one, istiod would have clients go around the waypoint and
// its policies while no pod of it is ready.
func (o *outcome) fill(g *gatewayv1.Gateway, s *gatewayv1.GatewayStatus) {
	if len(o.addresses) > 0 {
		s.Addresses = o.addresses
	}
	o.accepted(g, s)
	o.programmed(g, s)
	o.configured(g, s)
	s.Listeners = o.listeners(g, s.Listeners)
}

func (o *outcome) accepted(g *gatewayv1.Gateway, s *gatewayv1.GatewayStatus) {
	c := metav1.Condition{
		Type: string(gatewayv1.GatewayConditionAccepted), Status: metav1.ConditionTrue,
		Reason: string(gatewayv1.GatewayReasonAccepted), Message: "Served by " + string(ControllerName),
	}
	if !slices.ContainsFunc(g.Spec.Listeners, isTunnels) {
		c.Reason = string(gatewayv1.GatewayReasonListenersNotValid) // it serves all the same
	}
	if o.found.Remarks != "" {
		c.Message += ", but: " + o.found.Remarks
	}
	if o.unacceptable != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(o.reason), o.unacceptable
	}
	set(&s.Conditions, g, c)
}

func (o *outcome) configured(g *gatewayv1.Gateway, s *gatewayv1.GatewayStatus) {
	if o.found.Refused == "" {
		meta.RemoveStatusCondition(&s.Conditions, ConditionConfigured)
		return
	}
	set(&s.Conditions, g, metav1.Condition{
		Type: ConditionConfigured, Status: metav1.ConditionFalse, Reason: "ResourcesRefused",
		Message: "Waypoints refuse, and go on with the last version that was right: " + o.found.Refused,
	})
}

func (o *outcome) programmed(g *gatewayv1.Gateway, s *gatewayv1.GatewayStatus) {
	c := metav1.Condition{Type: string(gatewayv1.GatewayConditionProgrammed), Status: metav1.ConditionFalse}
	switch {
	case o.unacceptable != "":
		c.Reason, c.Message = string(gatewayv1.GatewayReasonInvalid), "Not accepted: "+o.unacceptable
	case o.hindered != "":
		c.Reason, c.Message = string(gatewayv1.GatewayReasonInvalid), o.hindered
	case len(o.addresses) == 0 && len(s.Addresses) > 0:
		c.Reason = string(gatewayv1.GatewayReasonAddressNotUsable)
		c.Message = "No pod is ready; requests fail until one is, rather than go around the waypoint"
	case len(o.addresses) == 0:
		c.Reason, c.Message = string(gatewayv1.GatewayReasonAddressNotAssigned), "Waiting for a pod to get ready"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, string(gatewayv1.GatewayReasonProgrammed)
		c.Message = "Serving at " + listed(o.addresses)
	}
	set(&s.Conditions, g, c)
}

func listed(addresses []gatewayv1.GatewayStatusAddress) string {
	var values []string
	for _, a := range addresses {
		values = append(values, a.Value)
	}
	return strings.Join(values, ", ")
}

// maxMessage bounds a condition's message, in bytes. The API refuses the whole status
// beyond 32768, and a message may quote all that is wrong with an overlay.
const maxMessage = 4096

// set keeps the time of a condition that does not change.
func set(conditions *[]metav1.Condition, g *gatewayv1.Gateway, c metav1.Condition) {
	c.ObservedGeneration = g.Generation
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + " ..."
	}
	meta.SetStatusCondition(conditions, c)
}

// routeKinds may be attached to a waypoint.
var routeKinds = []gatewayv1.Kind{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"}

func (o *outcome) listeners(g *gatewayv1.Gateway, before []gatewayv1.ListenerStatus) []gatewayv1.ListenerStatus {
	list := make([]gatewayv1.ListenerStatus, 0, len(g.Spec.Listeners))
	for i := range g.Spec.Listeners {
		l := &g.Spec.Listeners[i]
		s := gatewayv1.ListenerStatus{Name: l.Name}
		if i := slices.IndexFunc(before, func(s gatewayv1.ListenerStatus) bool { return s.Name == l.Name }); i >= 0 {
			s.Conditions = slices.Clone(before[i].Conditions)
		}
		s.AttachedRoutes = o.found.Attached[l.Name]
		o.listener(g, l, &s)
		list = append(list, s)
	}
	return list
}

func isTunnels(l gatewayv1.Listener) bool { return l.Protocol == "HBONE" && l.Port == portTunnels }

func (o *outcome) listener(g *gatewayv1.Gateway, l *gatewayv1.Listener, s *gatewayv1.ListenerStatus) {
	accepted := metav1.Condition{
		Type: string(gatewayv1.ListenerConditionAccepted), Status: metav1.ConditionTrue, Reason: string(gatewayv1.ListenerReasonAccepted),
	}
	if !isTunnels(*l) {
		accepted.Status, accepted.Reason = metav1.ConditionFalse, string(gatewayv1.ListenerReasonUnsupportedProtocol)
		accepted.Message = fmt.Sprintf(`A waypoint listens on port %d with protocol "HBONE", not on port %d with protocol %q`,
			portTunnels, l.Port, l.Protocol)
	}
	set(&s.Conditions, g, accepted)
	set(&s.Conditions, g, metav1.Condition{
		Type: string(gatewayv1.ListenerConditionConflicted), Status: metav1.ConditionFalse,
		Reason: string(gatewayv1.ListenerReasonNoConflicts),
	})
	programmed := metav1.Condition{
		Type: string(gatewayv1.ListenerConditionProgrammed), Status: metav1.ConditionTrue, Reason: string(gatewayv1.ListenerReasonProgrammed),
	}
	if accepted.Status == metav1.ConditionFalse || o.unacceptable != "" || o.hindered != "" {
		programmed.Status, programmed.Reason = metav1.ConditionFalse, string(gatewayv1.ListenerReasonInvalid)
	}
	set(&s.Conditions, g, programmed)
	o.kinds(g, l, s)
}

// kinds says which of the kinds that a listener names can be attached to it.
func (o *outcome) kinds(g *gatewayv1.Gateway, l *gatewayv1.Listener, s *gatewayv1.ListenerStatus) {
	resolved := metav1.Condition{
		Type: string(gatewayv1.ListenerConditionResolvedRefs), Status: metav1.ConditionTrue, Reason: string(gatewayv1.ListenerReasonResolvedRefs),
	}
	group := gatewayv1.Group(gatewayv1.GroupName)
	s.SupportedKinds = []gatewayv1.RouteGroupKind{}
	if l.AllowedRoutes == nil || len(l.AllowedRoutes.Kinds) == 0 {
		for _, kind := range routeKinds {
			s.SupportedKinds = append(s.SupportedKinds, gatewayv1.RouteGroupKind{Group: &group, Kind: kind})
		}
		set(&s.Conditions, g, resolved)
		return
	}
	for _, kind := range l.AllowedRoutes.Kinds {
		if (kind.Group == nil || *kind.Group == group) && slices.Contains(routeKinds, kind.Kind) {
			s.SupportedKinds = append(s.SupportedKinds, gatewayv1.RouteGroupKind{Group: &group, Kind: kind.Kind})
			continue
		}
		resolved.Status, resolved.Reason = metav1.ConditionFalse, string(gatewayv1.ListenerReasonInvalidRouteKinds)
		resolved.Message = fmt.Sprintf("allowedRoutes.kinds: a waypoint has no %s; it has %v", kind.Kind, routeKinds)
	}
	set(&s.Conditions, g, resolved)
}
