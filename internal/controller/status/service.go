package status

import (
	metaapi "istio.io/api/meta/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
)

// BoundCondition is the type of our condition on Services and ServiceEntries, which
// says whether they have the waypoint that they ask for. Beside istiod there is
// none: its own, istio.io/WaypointBound, says the same.
const BoundCondition = "waypoint-mesh.dev/WaypointBound"

// serviceConditions brings the conditions of a Service up to date.
func serviceConditions(conditions *[]metav1.Condition, r feed.Report) {
	if !r.Alone || r.Bound == nil {
		meta.RemoveStatusCondition(conditions, BoundCondition)
		return
	}
	c := condition(BoundCondition, *r.Bound)
	c.ObservedGeneration = r.Object.GetGeneration()
	meta.SetStatusCondition(conditions, c)
}

// bound is our condition for a ServiceEntry, nil if there is none.
func bound(r feed.Report) *metaapi.IstioCondition {
	if !r.Alone || r.Bound == nil {
		return nil
	}
	c := condition(BoundCondition, *r.Bound)
	return &metaapi.IstioCondition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
}
