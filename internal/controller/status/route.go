package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// resolvedWaypoints is Istio's condition for a route whose parent has a waypoint.
const resolvedWaypoints = "ResolvedWaypoints"

// RouteParts gives what all kinds of routes have in common; nil for other objects.
func RouteParts(obj translate.Object) (refs []gatewayv1.ParentReference, status *gatewayv1.RouteStatus) {
	switch obj := obj.(type) {
	case *gatewayv1.HTTPRoute:
		return obj.Spec.ParentRefs, &obj.Status.RouteStatus
	case *gatewayv1.GRPCRoute:
		return obj.Spec.ParentRefs, &obj.Status.RouteStatus
	case *gatewayv1.TCPRoute:
		return obj.Spec.ParentRefs, &obj.Status.RouteStatus
	case *gatewayv1.TLSRoute:
		return obj.Spec.ParentRefs, &obj.Status.RouteStatus
	}
	return nil, nil
}

// parents returns what the status of a route has to be: the entries of others, and
// ours for the parents of the report.
func parents(name gatewayv1.GatewayController, r feed.Report, refusals []Refusal) []gatewayv1.RouteParentStatus {
	refs, status := RouteParts(r.Object)
	ours := make([]gatewayv1.RouteParentStatus, 0, len(r.Parents))
	for _, p := range r.Parents {
		if p.Nobodys && !r.Alone {
			continue // istiod speaks
		}
		entry := gatewayv1.RouteParentStatus{ParentRef: refs[p.Ref], ControllerName: name}
		if i := slices.IndexFunc(status.Parents, func(old gatewayv1.RouteParentStatus) bool {
			return old.ControllerName == name && sameRef(old.ParentRef, entry.ParentRef)
		}); i >= 0 {
			entry.Conditions = slices.Clone(status.Parents[i].Conditions)
		}
		setConditions(&entry.Conditions, conditions(p, r, refusals), r.Object.GetGeneration())
		ours = append(ours, entry)
	}
	list := slices.DeleteFunc(slices.Clone(status.Parents), func(p gatewayv1.RouteParentStatus) bool {
		if p.ControllerName != name {
			return false
		}
		// What another revision of the controller says is called like ours.
		return !r.Shared || slices.ContainsFunc(ours, func(o gatewayv1.RouteParentStatus) bool { return sameRef(o.ParentRef, p.ParentRef) })
	})
	list = append(list, ours...)
	return list[:min(len(list), maxParents)]
}

// setConditions makes the conditions be those, and keeps the time of one that does
// not change.
func setConditions(conditions *[]metav1.Condition, want []metav1.Condition, generation int64) {
	*conditions = slices.DeleteFunc(*conditions, func(old metav1.Condition) bool { return meta.FindStatusCondition(want, old.Type) == nil })
	for _, c := range want {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, c)
	}
}

// maxParents is the API's limit.
const maxParents = 32

// conditions of a route at one parent. A route that was refused as a whole is not
// accepted, even where its last good version is still in force.
func conditions(p feed.Parent, r feed.Report, refusals []Refusal) []metav1.Condition {
	accepted, waypoint := condition(string(gatewayv1.RouteConditionAccepted), p.Accepted), condition(resolvedWaypoints, p.Waypoint)
	if p.Accepted.Status {
		refused, reason := texts(r.Faults, translate.Error), string(gatewayv1.RouteReasonUnsupportedValue)
		if refused == "" {
			refused, reason = listRefusals(ofGateway(refusals, p.Gateway)), ReasonByWaypoint
		}
		if refused != "" {
			accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, reason, sentence(refused+stays)
		} else {
			accepted.Message = clip(orElse(texts(all(r), translate.Warning), "In force"))
		}
	}
	if p.Waypoint.Status && p.Idle {
		waypoint.Status, waypoint.Reason = metav1.ConditionFalse, "WaypointIsNotReady"
		waypoint.Message = "No pod of the waypoint " + p.Gateway.String() + " is ready yet, so calls go around it and the route"
	}
	list := []metav1.Condition{accepted}
	if p.ResolvedRefs.Reason != "" {
		list = append(list, condition(string(gatewayv1.RouteConditionResolvedRefs), p.ResolvedRefs))
	}
	return append(list, waypoint)
}

func ofGateway(refusals []Refusal, g discovery.Gateway) []Refusal {
	return slices.DeleteFunc(slices.Clone(refusals), func(r Refusal) bool { return r.Gateway != g })
}

func condition(kind string, c translate.Condition) metav1.Condition {
	status := metav1.ConditionFalse
	if c.Status {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: c.Reason, Message: sentence(c.Message)}
}

func sameRef(a, b gatewayv1.ParentReference) bool {
	return a.Name == b.Name && same(a.Group, b.Group) && same(a.Kind, b.Kind) && same(a.Namespace, b.Namespace) &&
		same(a.SectionName, b.SectionName) && same(a.Port, b.Port)
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
