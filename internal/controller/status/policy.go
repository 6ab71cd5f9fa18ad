package status

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
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
	reasonEnforced  = "Enforced"
	reasonPartly    = "DoesPartlyNothing"
	reasonRefused   = "Refused"
	reasonUnrelated = "NoTarget"
)

// policyConditions returns what the conditions of a policy have to be: ours beside
// those of others.
func policyConditions(before []*metaapi.IstioCondition, r feed.Report, now *timestamppb.Timestamp) []*metaapi.IstioCondition {
	ours := verdict(r)
	list := slices.Clone(before)
	i := slices.IndexFunc(list, func(c *metaapi.IstioCondition) bool { return c.GetType() == PolicyCondition })
	switch {
	case ours == nil && i < 0:
		return before
	case ours == nil: // nobody of ours is concerned any more
		return slices.Delete(list, i, i+1)
	case i < 0:
		ours.LastTransitionTime = now
		return append(list, ours)
	}
	ours.LastTransitionTime = list[i].GetLastTransitionTime()
	if ours.GetStatus() != list[i].GetStatus() {
		ours.LastTransitionTime = now
	}
	ours.LastProbeTime = list[i].GetLastProbeTime()
	list[i] = ours
	return list
}

// verdict is our condition for a policy, nil where it is not for us to speak:
// nothing is wrong and none of its targets is ours.
func verdict(r feed.Report) *metaapi.IstioCondition {
	if p, ok := r.Object.(*securityv1.AuthorizationPolicy); !ok || p.Spec.GetTargetRef() == nil && len(p.Spec.GetTargetRefs()) == 0 {
		return nil // ztunnels enforce it, and istiod says how that goes
	}
	c := &metaapi.IstioCondition{Type: PolicyCondition, ObservedGeneration: r.Object.GetGeneration()}
	problems := all(r)
	refused, errs, warnings := texts(r.Faults, translate.Error), texts(problems, translate.Error), texts(problems, translate.Warning)
	switch {
	case refused != "":
		c.Status, c.Reason = "False", reasonRefused
		c.Message = refused + ". The last version that was right stays in force; without one, everything is denied on its targets"
	case errs != "":
		c.Status, c.Reason, c.Message = "False", reasonPartly, errs
	case r.Emitted && warnings != "":
		c.Status, c.Reason, c.Message = "True", reasonPartly, "In force, but: "+warnings
	case r.Emitted:
		c.Status, c.Reason, c.Message = "True", reasonEnforced, "In force at the waypoint of every target"
	case warnings != "":
		c.Status, c.Reason, c.Message = "False", reasonUnrelated, warnings
	default:
		return nil
	}
	return c
}
