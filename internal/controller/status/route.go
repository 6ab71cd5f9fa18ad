package status

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// resolvedWaypoints is Istio's condition for a route whose parent has a waypoint.
// An entry of ours exists for such parents only, so with us it is always true.
const resolvedWaypoints = "ResolvedWaypoints"

// routeParts gives what all kinds of routes have in common; nil for other objects.
func routeParts(obj translate.Object) (refs []gatewayv1.ParentReference, status *gatewayv1.RouteStatus) {
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
func parents(name gatewayv1.GatewayController, r feed.Report) []gatewayv1.RouteParentStatus {
	refs, status := routeParts(r.Object)
	list := slices.DeleteFunc(slices.Clone(status.Parents), func(p gatewayv1.RouteParentStatus) bool { return p.ControllerName == name })
	for _, p := range r.Parents {
		entry := gatewayv1.RouteParentStatus{ParentRef: refs[p.Ref], ControllerName: name}
		if i := slices.IndexFunc(status.Parents, func(old gatewayv1.RouteParentStatus) bool {
			return old.ControllerName == name && sameRef(old.ParentRef, entry.ParentRef)
		}); i >= 0 {
			entry.Conditions = slices.Clone(status.Parents[i].Conditions)
		}
		for _, c := range conditions(p, r) {
			c.ObservedGeneration = r.Object.GetGeneration()
			meta.SetStatusCondition(&entry.Conditions, c)
		}
		list = append(list, entry)
	}
	return list[:min(len(list), maxParents)]
}

// maxParents is the API's limit.
const maxParents = 32

// conditions of a route at one parent. A route that was refused as a whole is not
// accepted, even where its last good version is still in force.
func conditions(p translate.ParentStatus, r feed.Report) []metav1.Condition {
	accepted := condition(string(gatewayv1.RouteConditionAccepted), p.Accepted)
	if text := texts(r.Faults, translate.Error); text != "" && p.Accepted.Status {
		accepted.Status, accepted.Reason = metav1.ConditionFalse, string(gatewayv1.RouteReasonUnsupportedValue)
		accepted.Message = text + ". The last version that was right stays in force"
	} else if p.Accepted.Status && accepted.Message == "" {
		accepted.Message = orElse(texts(all(r), translate.Warning), "In force")
	}
	list := []metav1.Condition{accepted}
	if p.ResolvedRefs.Reason != "" {
		list = append(list, condition(string(gatewayv1.RouteConditionResolvedRefs), p.ResolvedRefs))
	}
	return append(list, metav1.Condition{
		Type: resolvedWaypoints, Status: metav1.ConditionTrue, Reason: resolvedWaypoints, Message: "The parent has a waypoint, which serves the route",
	})
}

func condition(kind string, c translate.Condition) metav1.Condition {
	status := metav1.ConditionFalse
	if c.Status {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: c.Reason, Message: sentence(c.Message)}
}

// all is what every Gateway finds wrong, each thing once.
func all(r feed.Report) []translate.Problem {
	list := slices.Clone(r.Faults)
	for _, problems := range r.By {
		list = append(list, problems...)
	}
	slices.SortFunc(list, func(a, b translate.Problem) int {
		return strings.Compare(a.Field+"\x00"+a.Fault+a.Cure, b.Field+"\x00"+b.Fault+b.Cure)
	})
	return slices.Compact(list)
}

// texts joins problems of one severity.
func texts(problems []translate.Problem, severity translate.Severity) string {
	var list []string
	for _, p := range problems {
		if p.Severity == severity {
			_, text, _ := strings.Cut(p.String(), ": ") // the object is the one that it stands on
			list = append(list, text)
		}
	}
	return clip(strings.Join(list, "; "))
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return clip(string(unicode.ToUpper(r)) + s[n:])
}

// clip keeps a message within what is read in a terminal; the API allows 32768
// bytes.
func clip(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}

func sameRef(a, b gatewayv1.ParentReference) bool {
	return a.Name == b.Name && same(a.Group, b.Group) && same(a.Kind, b.Kind) && same(a.Namespace, b.Namespace) &&
		same(a.SectionName, b.SectionName) && same(a.Port, b.Port)
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
