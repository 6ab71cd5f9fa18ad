package translate

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
)

// fact is something by which objects are found. Objects are filed under facts; units look under them.
type fact struct {
	kind      factKind
	namespace string
	name      string
	value     string
	// presence is set for the look of a unit that cares only whether there is something under the fact.
	presence bool
}

type factKind uint8

const (
	// The object of kind value called namespace/name.
	factObject factKind = iota
	// Pods and WorkloadEntries of the namespace with label name=value.
	factLabel
	// Services and ServiceEntries of the namespace whose selector asks for label name=value. Each is filed under one label
	// of its selector only, so that a pod finds it by one look and another label's change does not touch it.
	factSelector
	// EndpointSlices of Service namespace/name.
	factSlicesOfService
	// EndpointSlices with an endpoint that is Pod namespace/name.
	factSlicesOfPod
	// Pods of the namespace with address name.
	factPodAddress
	// Services and ServiceEntries that declare host name; with an empty namespace: in any.
	factHost
	// Routes of kind value with the parent namespace/name, where name is "group/kind/name".
	factRoute
	// ReferenceGrants of the namespace.
	factGrant
	// Objects that ask for a waypoint by label.
	factUsesWaypoint
	// Services of the namespace.
	factServiceOf
	// AuthorizationPolicies of the namespace that ztunnels enforce, having no targetRefs.
	factPolicyOfPods
)

func objectFact(key Key) fact {
	return fact{kind: factObject, namespace: key.Namespace, name: key.Name, value: key.Kind}
}

// entry is one object as it was last set.
type entry struct {
	key Key
	obj Object
	// rejected is why obj cannot be trusted beyond what it is attached to; it has no good version and fails closed.
	rejected string
	// blind: not even what the rejected object is attached to could be read.
	blind bool
	facts []fact
	units []unit
}

// unit is one output: what is computed, kept and computed again as a whole.
type unit struct {
	kind      unitKind
	namespace string
	name      string
	route     string // kind of a route unit
}

type unitKind uint8

const (
	unitGateway        unitKind = iota
	unitListeners               // what is attached to the listeners of the Gateway
	unitService                 // namespace/host
	unitPod                     // the pod's workload
	unitWorkloadEntry           // the entry's workload
	unitEntryEndpoints          // the workloads written into a ServiceEntry
	unitSliceEndpoints          // the workloads of a Service's EndpointSlices that are no pods
	unitRoute
	unitPolicy
)

// unitState is what a unit gave when it was last computed.
type unitState struct {
	reads    map[fact]struct{}
	out      map[api.Key]proto.Message
	problems []Problem
	says     *statement // nil: nothing
}

// store holds the objects, finds them by facts, and knows which units looked where.
type store struct {
	objects  map[Key]*entry
	filed    map[fact]map[Key]*entry
	watchers map[fact]map[unit]struct{}
	units    map[unit]*unitState
	dirty    map[unit]struct{}
}

func newStore() store {
	return store{
		objects:  map[Key]*entry{},
		filed:    map[fact]map[Key]*entry{},
		watchers: map[fact]map[unit]struct{}{},
		units:    map[unit]*unitState{},
		dirty:    map[unit]struct{}{},
	}
}

// replace puts now (nil: nothing) in the place of old (nil: nothing was there), and marks what that touches.
func (s *store) replace(old, now *entry) {
	if now != nil {
		s.objects[now.key] = now
		for _, f := range now.facts {
			s.file(f, now)
		}
		s.mark(now.units)
	}
	if old == nil {
		return
	}
	if now == nil {
		delete(s.objects, old.key)
	}
	for _, f := range old.facts {
		if now == nil || !slices.Contains(now.facts, f) {
			s.unfile(f, old.key)
		}
	}
	s.mark(old.units)
}

func (s *store) file(f fact, e *entry) {
	under := s.filed[f]
	if under == nil {
		under = map[Key]*entry{}
		s.filed[f] = under
	}
	if len(under) == 0 {
		s.touch(f.anything())
	}
	under[e.key] = e
	s.touch(f)
}

func (s *store) unfile(f fact, key Key) {
	delete(s.filed[f], key)
	s.touch(f)
	if len(s.filed[f]) == 0 {
		delete(s.filed, f)
		s.touch(f.anything())
	}
}

// anything is the look under f that cares for presence only.
func (f fact) anything() fact {
	f.presence = true
	return f
}

// touch marks every unit that looked under f.
func (s *store) touch(f fact) {
	for u := range s.watchers[f] {
		s.dirty[u] = struct{}{}
	}
}

func (s *store) mark(units []unit) {
	for _, u := range units {
		s.dirty[u] = struct{}{}
	}
}

// record keeps what a unit read and gave, and returns what it was before (never nil).
func (s *store) record(u unit, now *unitState) (before *unitState) {
	before = s.units[u]
	if before == nil {
		before = &unitState{}
	}
	if !s.declared(u) {
		now = &unitState{}
		delete(s.units, u)
	} else {
		s.units[u] = now
	}
	for f := range before.reads {
		if _, again := now.reads[f]; !again {
			s.unwatch(f, u)
		}
	}
	for f := range now.reads {
		if _, already := before.reads[f]; already {
			continue
		}
		if s.watchers[f] == nil {
			s.watchers[f] = map[unit]struct{}{}
		}
		s.watchers[f][u] = struct{}{}
	}
	return before
}

func (s *store) unwatch(f fact, u unit) {
	delete(s.watchers[f], u)
	if len(s.watchers[f]) == 0 {
		delete(s.watchers, f)
	}
}

// declared tells whether some object still asks for the unit; one that none asks for must leave no trace.
func (s *store) declared(u unit) bool {
	switch u.kind {
	case unitGateway, unitListeners:
		return true
	case unitService:
		return len(s.filed[fact{kind: factHost, namespace: u.namespace, name: u.name}]) > 0
	case unitSliceEndpoints:
		return len(s.filed[fact{kind: factSlicesOfService, namespace: u.namespace, name: u.name}]) > 0
	}
	return s.objects[u.key()] != nil
}

// key is the object that a unit of one object belongs to.
func (u unit) key() Key {
	switch u.kind {
	case unitPod:
		return Key{kindPod, u.namespace, u.name}
	case unitWorkloadEntry:
		return Key{kindWorkloadEntry, u.namespace, u.name}
	case unitEntryEndpoints:
		return Key{kindServiceEntry, u.namespace, u.name}
	case unitPolicy:
		return Key{kindAuthorizationPolicy, u.namespace, u.name}
	}
	return Key{u.route, u.namespace, u.name}
}

// view is how a unit reads: every look is recorded, whether it found something or not.
type view struct {
	*Translator
	reads map[fact]struct{}
	out   map[api.Key]proto.Message
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

// get finds one object; nil if there is none.
func (v *view) get(kind, namespace, name string) *entry {
	v.reads[objectFact(Key{kind, namespace, name})] = struct{}{}
	return v.store.objects[Key{kind, namespace, name}]
}

// find lists the objects filed under f, ordered by key.
func (v *view) find(f fact) []*entry {
	v.reads[f] = struct{}{}
	under := v.store.filed[f]
	found := make([]*entry, 0, len(under))
	for _, e := range under {
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b *entry) int { return compareKeys(a.key, b.key) })
	return found
}

// any tells whether something is filed under f. The unit is computed again only when that changes.
func (v *view) any(f fact) bool {
	v.reads[f.anything()] = struct{}{}
	return len(v.store.filed[f]) > 0
}

// emit gives a resource of the unit.
func (v *view) emit(m proto.Message) {
	r := api.Of(m)
	v.out[r.Key] = r.Message
}

// about starts a report whose problems are the unit's.
func (v *view) about(key Key) *report { return &report{object: key} }

func (v *view) keep(r *report) { v.problems = append(v.problems, r.problems...) }
