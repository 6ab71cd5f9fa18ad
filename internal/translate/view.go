package translate

import (
	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
)

// view is how a unit reads: every look is recorded, whether it found something or not.
type view struct {
	*Translator
	reads []*node
	out   []api.Resource
	// problems go to the object they are about, which need not be the one the unit belongs to.
	problems []Problem
	says     *statement
}

// statement is what the unit has to say in statuses.
func (v *view) statement() *statement {
	if v.says == nil {
		v.says = &statement{}
	}
	return v.says
}

// look records a look under a fact.
func (v *view) look(f fact) *node {
	n := v.node(f)
	if n.looked != v.turn {
		n.looked = v.turn
		v.reads = append(v.reads, n)
	}
	return n
}

// get finds one object; nil if there is none.
func (v *view) get(kind, namespace, name string) *entry {
	if n := v.look(objectFact(Key{kind, namespace, name})); len(n.filed) > 0 {
		return n.filed[0]
	}
	return nil
}

// find lists the objects filed under f, ordered by key. The list must not be changed.
func (v *view) find(f fact) []*entry { return v.look(f).filed }

// any tells whether something is filed under f. The unit is computed again only when that changes.
func (v *view) any(f fact) bool {
	v.look(f.anything())
	return v.isFiled(f)
}

// emit gives a resource of the unit.
func (v *view) emit(m proto.Message) {
	v.out = append(v.out, api.Of(m))
}

// about starts a report whose problems are the unit's.
func (v *view) about(key Key) *report { return &report{object: key} }

func (v *view) keep(r *report) { v.problems = append(v.problems, r.problems...) }

func (v *view) compute(u unit) {
	switch u.kind {
	case unitGateway:
		v.computeGateway()
	case unitService:
		v.computeService(u.namespace, u.name)
	case unitPod:
		v.computePod(u.namespace, u.name)
	case unitWorkloadEntry:
		v.computeWorkloadEntry(u.namespace, u.name)
	case unitEntryEndpoints:
		v.computeEntryEndpoints(u.namespace, u.name)
	case unitSliceEndpoints:
		v.computeSliceEndpoints(u.namespace, u.name)
	case unitRoute:
		v.computeRoute(u.route, u.namespace, u.name)
	case unitPolicy:
		v.computePolicy(u.namespace, u.name)
	case unitListeners:
		v.computeListeners()
	}
}
