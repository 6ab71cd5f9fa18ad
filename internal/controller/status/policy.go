package status

import (
	"fmt"
	"slices"
	"strings"

	metaapi "istio.io/api/meta/v1alpha1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// PolicyCondition is the type of our condition on policies. istiod's own,
// WaypointAccepted, says that a policy is bound; this one whether it works.
const PolicyCondition = "waypoint-mesh.dev/Enforced"

// Reasons of PolicyCondition.
const (
	reasonEnforced       = "Enforced"
	reasonPartly         = "DoesPartlyNothing" // something that it says does nothing
	reasonPartlyEnforced = "PartlyEnforced"    // at some of its targets
	reasonNotEnforced    = "NotEnforced"       // at none
	reasonRefused        = "Refused"
)

// ReasonByWaypoint is the reason on routes and policies that a waypoint refuses,
// which only the controller that the waypoint is connected to knows.
const ReasonByWaypoint = "RefusedByWaypoint"

// stays ends what is said of an object that somebody refuses.
const stays = ". The last version that was right stays in force"

// verdict is our condition for a policy, nil where it is not for us to speak: none
// of its targets is ours, and nothing is wrong with them.
func verdict(r feed.Report, refusals []Refusal) *metaapi.IstioCondition {
	if len(r.By) == 0 {
		return nil // there is no Gateway of ours
	}
	if faults := texts(r.Faults, translate.Error); faults != "" && hasTargets(r.Object) {
		return policyCondition("False", reasonRefused, faults+stays+"; without one, everything is denied on its targets")
	}
	holds, lacks := targets(r)
	if len(holds)+len(lacks) == 0 {
		return nil
	}
	others := slices.DeleteFunc(all(r), func(p translate.Problem) bool {
		return slices.ContainsFunc(r.Targets, func(t feed.Target) bool { return t.Fault == p })
	})
	errs, warnings := texts(others, translate.Error), texts(others, translate.Warning)
	inForce := "In force on " + strings.Join(holds, ", ")
	switch {
	case len(holds) == 0:
		return policyCondition("False", reasonNotEnforced, strings.Join(lacks, "; "))
	case len(refusals) > 0:
		return policyCondition("False", ReasonByWaypoint, listRefusals(refusals)+stays)
	case len(lacks) > 0:
		return policyCondition("False", reasonPartlyEnforced, strings.Join(lacks, "; ")+". "+inForce)
	case errs != "":
		return policyCondition("False", reasonPartly, errs)
	case warnings != "":
		return policyCondition("True", reasonPartly, inForce+", but: "+warnings+around(r))
	}
	return policyCondition("True", reasonEnforced, inForce+around(r))
}

func policyCondition(status, reason, message string) *metaapi.IstioCondition {
	return &metaapi.IstioCondition{Type: PolicyCondition, Status: status, Reason: reason, Message: sentence(message)}
}

func hasTargets(obj translate.Object) bool {
	p, ok := obj.(*securityv1.AuthorizationPolicy)
	return ok && (p.Spec.GetTargetRef() != nil || len(p.Spec.GetTargetRefs()) > 0)
}

// targets tells where a policy holds, and why not where it does not.
func targets(r feed.Report) (holds, lacks []string) {
	for _, t := range r.Targets {
		text, list := "", &lacks
		switch {
		case !t.Enforced():
			text = describe(t.Fault)
		case t.Idle:
			text = fmt.Sprintf("no pod of the waypoint %s is ready yet, so calls to %s go around it", t.Gateway, t.Target)
		default:
			text, list = fmt.Sprintf("%s at the waypoint %s", t.Target, t.Gateway), &holds
		}
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	return holds, lacks
}

// around is how clients get around a policy, once.
func around(r feed.Report) string {
	for _, t := range r.Targets {
		if t.Around != "" {
			return ". But " + t.Around
		}
	}
	return ""
}
