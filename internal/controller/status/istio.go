package status

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	metaapi "istio.io/api/meta/v1alpha1"
)

// replace puts our condition, nil for none, in the place of the one that stands in
// a list of Istio's conditions, beside those of others. It reports whether that
// changes anything. The time moves with the state only: who waits for a condition
// looks at its time.
func replace(list *[]*metaapi.IstioCondition, kind string, ours *metaapi.IstioCondition, generation int64) (changed bool) {
	i := slices.IndexFunc(*list, func(c *metaapi.IstioCondition) bool { return c.GetType() == kind })
	if ours == nil {
		if i >= 0 { // nobody of ours is concerned any more
			*list = slices.Delete(*list, i, i+1)
		}
		return i >= 0
	}
	ours.ObservedGeneration, ours.LastTransitionTime = generation, timestamppb.Now()
	if i < 0 {
		*list = append(*list, ours)
		return true
	}
	old := (*list)[i]
	if ours.GetStatus() == old.GetStatus() {
		ours.LastTransitionTime = old.GetLastTransitionTime()
	}
	ours.LastProbeTime = old.GetLastProbeTime()
	(*list)[i] = ours
	return !proto.Equal(old, ours)
}
