package gatewayapi

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// unresolved is the reason of ResolvedRefs in those tests whose routes refer to
// something that is not there.
var unresolved = map[string]gatewayv1.RouteConditionReason{
	"MeshGRPCRouteWeight": gatewayv1.RouteReasonBackendNotFound, // echo-v3, with weight 0
}

// checkStatuses waits until the status of every route that there is says for each
// of its parents that it is accepted, and whether its references were resolved.
func (c *cluster) checkStatuses(t *testing.T, test string) {
	t.Helper()
	resolved := string(gatewayv1.RouteReasonResolvedRefs)
	if reason, ok := unresolved[test]; ok {
		resolved = string(reason)
	}
	for _, r := range c.routes(t) {
		for i := range r.parents {
			c.awaitReasons(t, r, i, string(gatewayv1.RouteReasonAccepted), resolved)
		}
	}
}

// route is a route of any kind.
type route struct {
	name       string
	generation int64
	parents    []gatewayv1.ParentReference
	status     gatewayv1.RouteStatus
}

func (c *cluster) routes(t *testing.T) (all []route) {
	t.Helper()
	var https gatewayv1.HTTPRouteList
	var grpcs gatewayv1.GRPCRouteList
	if err := c.List(t.Context(), &https); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &grpcs); err != nil {
		t.Fatal(err)
	}
	for _, r := range https.Items {
		all = append(all, route{"HTTPRoute " + r.Namespace + "/" + r.Name, r.Generation, r.Spec.ParentRefs, r.Status.RouteStatus})
	}
	for _, r := range grpcs.Items {
		all = append(all, route{"GRPCRoute " + r.Namespace + "/" + r.Name, r.Generation, r.Spec.ParentRefs, r.Status.RouteStatus})
	}
	return all
}

// awaitReasons waits until the one entry of ours for a parent has the reasons of
// the conditions Accepted and ResolvedRefs that are given, "" for a condition that
// is not there.
func (c *cluster) awaitReasons(t *testing.T, of route, parent int, accepted, resolved string) {
	t.Helper()
	var wrong string
	c.mesh.Eventually("the status of "+of.name, func() bool {
		i := slices.IndexFunc(c.routes(t), func(r route) bool { return r.name == of.name })
		if i < 0 {
			wrong = "it is gone"
			return true
		}
		wrong = c.routes(t)[i].fault(parent, accepted, resolved)
		return wrong == ""
	})
	if wrong != "" {
		t.Errorf("%s, parent %d: %s", of.name, parent, wrong)
	}
}

func (r route) fault(parent int, accepted, resolved string) string {
	var ours []gatewayv1.RouteParentStatus
	for _, p := range r.status.Parents {
		if p.ControllerName == gateway.ControllerName && p.ParentRef.Name == r.parents[parent].Name && equal(p.ParentRef.Port, r.parents[parent].Port) {
			ours = append(ours, p)
		}
	}
	if len(ours) != 1 {
		return fmt.Sprintf("%d entries of ours in %+v", len(ours), r.status.Parents)
	}
	for _, want := range []struct{ condition, reason string }{
		{string(gatewayv1.RouteConditionAccepted), accepted},
		{string(gatewayv1.RouteConditionResolvedRefs), resolved},
	} {
		got := meta.FindStatusCondition(ours[0].Conditions, want.condition)
		switch {
		case got == nil:
			if want.reason != "" {
				return fmt.Sprintf("no condition %s, want reason %s", want.condition, want.reason)
			}
		case got.Reason != want.reason || got.ObservedGeneration != r.generation || (got.Status == metav1.ConditionTrue) != positive(want.reason):
			return fmt.Sprintf("%+v, want reason %s and generation %d", *got, want.reason, r.generation)
		}
	}
	return ""
}

// positive are the reasons of conditions that are true.
func positive(reason string) bool {
	return reason == string(gatewayv1.RouteReasonAccepted) || reason == string(gatewayv1.RouteReasonResolvedRefs)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
