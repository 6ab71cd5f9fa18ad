package translate

import "slices"

// Condition is one condition of a status, without its time.
type Condition struct {
	Status  bool
	Reason  string
	Message string
}

// ParentStatus is what a route's status says of one of its parents (Gateway API, RouteParentStatus).
type ParentStatus struct {
	Ref int // which of spec.parentRefs
	// Accepted: the route is in effect there.
	Accepted Condition
	// ResolvedRefs: all that its rules refer to can be used. Empty where no parent accepts the route.
	ResolvedRefs Condition
}

// RouteStatus gives the status of a route as of the last Update: of those parents that this gateway fronts, since others are
// for others to speak of.
func (t *Translator) RouteStatus(key Key) []ParentStatus {
	u := unit{kind: unitRoute, namespace: key.Namespace, name: key.Name, route: key.Kind}
	if s := t.store.units[u]; s != nil {
		return slices.Clone(s.status)
	}
	return nil
}
