package feed

import (
	"cmp"
	"maps"
	"slices"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Report is what the translators have to say of one object.
type Report struct {
	// Object is the version that all of it is about.
	Object translate.Object
	// Faults are of the object by itself. With one that is an error the object was
	// refused, and its last good version stays.
	Faults []translate.Problem
	// Parents is the status of a route at its parents, ordered by Ref: one for each
	// that a Gateway of ours fronts or that is nobody's.
	Parents []Parent
	// Targets is the status of a policy at its targets, ordered by Ref; of a target
	// that several Gateways front there are several.
	Targets []Target
	// Bound tells whether a service has the waypoint that it asks for; nil: that is
	// not for us to say.
	Bound *translate.Condition
	// Asks is the same for each Gateway of ours that has something to say of it.
	Asks map[discovery.Gateway]translate.Condition
	// Listeners counts the routes at the listeners of a Gateway of ours.
	Listeners []translate.ListenerRoutes
	// By says what is wrong with the object, faults included, as each Gateway finds.
	By map[discovery.Gateway][]translate.Problem
	// Alone: there is no istiod beside us, which speaks for services without a
	// waypoint and says of services which waypoint they have.
	Alone bool
	// Shared: there are Gateways of our class that another revision of the
	// controller serves, whose entries in statuses are called like ours.
	Shared bool
}

// Parent is the status of a route at a parent.
type Parent struct {
	translate.ParentStatus
	Gateway discovery.Gateway
	// Idle: no pod of the Gateway was ever ready, so it has no address, and calls
	// go around it.
	Idle bool
}

// Target is the status of a policy at a target.
type Target struct {
	translate.TargetStatus
	Gateway discovery.Gateway
	Idle    bool // see Parent
}

// Report looks up what there is to say of an object; false if it is gone.
func (f *Feed) Report(key translate.Key) (Report, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	obj := f.objects[key]
	if obj == nil {
		return Report{}, false
	}
	r := Report{
		Object: obj, Faults: Faults(obj), By: make(map[discovery.Gateway][]translate.Problem),
		Alone: f.alone(), Shared: f.shared,
	}
	for g, t := range f.translators {
		idle := !f.hasAddress(g)
		r.By[g] = t.Problems(key)
		for _, s := range t.RouteStatus(key) {
			r.Parents = append(r.Parents, Parent{s, g, idle})
		}
		for _, s := range t.PolicyStatus(key) {
			r.Targets = append(r.Targets, Target{s, g, idle})
		}
		if c, ok := t.ServiceStatus(key); ok {
			r.bind(c, g, idle)
		}
		if key == gatewayKey(g) {
			r.Listeners = t.ListenerRoutes()
		}
	}
	r.settle()
	return r, true
}

func gatewayKey(g discovery.Gateway) translate.Key {
	return translate.Key{Kind: "Gateway", Namespace: g.Namespace, Name: g.Name}
}

// bind: a service may have a waypoint and a canary; what is wrong comes first.
func (r *Report) bind(c translate.Condition, g discovery.Gateway, idle bool) {
	if idle && c.Status {
		c = translate.Condition{Reason: "WaypointIsNotReady", Message: "no pod of the waypoint " + g.String() + " is ready yet, so calls go around it"}
	}
	if r.Asks == nil {
		r.Asks = make(map[discovery.Gateway]translate.Condition)
	}
	r.Asks[g] = c
	if r.Bound == nil || r.Bound.Status && !c.Status || r.Bound.Status == c.Status && c.Message < r.Bound.Message {
		r.Bound = &c
	}
}

// settle brings what the translators said, in no order, into one. A parent has one
// status: that of a Gateway before that of nobody, and what is wrong before what is
// well, since two may front it as waypoint and canary. What is wrong with a target
// and nobody's, all say alike.
func (r *Report) settle() {
	rank := func(p Parent) int {
		switch {
		case p.Nobodys:
			return 2
		case p.Accepted.Status:
			return 1
		}
		return 0
	}
	slices.SortFunc(r.Parents, func(a, b Parent) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Gateway.String(), b.Gateway.String()))
	})
	r.Parents = slices.CompactFunc(r.Parents, func(a, b Parent) bool { return a.Ref == b.Ref })
	slices.SortFunc(r.Targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Fault.Fault, b.Fault.Fault), cmp.Compare(a.Gateway.String(), b.Gateway.String()))
	})
	r.Targets = slices.CompactFunc(r.Targets, func(a, b Target) bool {
		return a.Ref == b.Ref && !a.Enforced() && a.TargetStatus == b.TargetStatus
	})
}

// Faults says what is wrong with an object by itself, whatever else there is: what
// a translator says of it before it has looked around.
func Faults(obj translate.Object) []translate.Problem {
	t := translate.New(translate.Options{})
	t.Set(obj)
	return t.Problems(translate.KeyOf(obj))
}

// Gateway reports whether there is a Gateway of ours of that name.
func (f *Feed) Gateway(g discovery.Gateway) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.translators[g] != nil
}

// Gateways lists the Gateways of ours, in no order.
func (f *Feed) Gateways() []discovery.Gateway {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.translators))
}

// Any reports whether there is a Gateway of ours at all.
func (f *Feed) Any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.translators) > 0
}
