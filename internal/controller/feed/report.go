package feed

import (
	"cmp"
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
	// Parents is the status of a route at the parents that Gateways of ours front,
	// by the number of the parentRef.
	Parents []translate.ParentStatus
	// By says what is wrong with the object, faults included, as each Gateway finds.
	By map[discovery.Gateway][]translate.Problem
	// Emitted: some Gateway of ours enforces it, being a policy.
	Emitted bool
}

// Report looks up what there is to say of an object; false if it is gone.
func (f *Feed) Report(key translate.Key) (Report, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	obj := f.objects[key]
	if obj == nil {
		return Report{}, false
	}
	r := Report{Object: obj, Faults: Faults(obj), By: make(map[discovery.Gateway][]translate.Problem), Emitted: len(f.policies[key]) > 0}
	for g, t := range f.translators {
		r.Parents = append(r.Parents, t.RouteStatus(key)...)
		r.By[g] = t.Problems(key)
	}
	// A parentRef is fronted by one Gateway, so there is one status for each.
	slices.SortStableFunc(r.Parents, func(a, b translate.ParentStatus) int { return cmp.Compare(a.Ref, b.Ref) })
	return r, true
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

// Any reports whether there is a Gateway of ours at all.
func (f *Feed) Any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.translators) > 0
}
