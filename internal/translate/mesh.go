package translate

import "slices"

// Mesh holds the objects and finds them by facts. Translators of several gateways share one, so that each object is kept,
// checked and filed once. A Mesh and its translators belong to one goroutine.
type Mesh struct {
	common      Options // all but the gateway
	objects     map[Key]*entry
	nodes       map[fact]*node
	faults      map[Key][]Problem // of each object by itself
	translators []*Translator
	turn        uint64 // numbers the recomputations of all translators
}

// node is where the objects that are filed under a fact meet the units that looked there. It exists as long as there is
// either.
type node struct {
	fact     fact
	filed    []*entry // by key
	watchers watchers
	// Turns in which a unit looked here, and in which it is being recomputed that had looked before.
	looked, had uint64
}

// NewMesh returns a mesh without objects. The gateway in o is of no account.
func NewMesh(o Options) *Mesh {
	return &Mesh{common: o.withDefaults(), objects: map[Key]*entry{}, nodes: map[fact]*node{}, faults: map[Key][]Problem{}}
}

// Translator adds a translator for a gateway, which has everything to say with its first Update.
func (m *Mesh) Translator(namespace, name string) *Translator {
	t := newTranslator(m, namespace, name)
	m.translators = append(m.translators, t)
	for _, e := range m.objects {
		t.mark(e.units)
	}
	for key := range m.faults {
		t.changed[key] = struct{}{}
	}
	return t
}

// Set adds obj or replaces the object of the same key; obj must not be changed afterwards. An obj that is not valid is
// refused: the last good version stays or, without one, it fails closed. What was wrong is in the next Changes of every
// translator.
func (m *Mesh) Set(obj Object) {
	key := KeyOf(obj)
	m.put(&entry{key: key, obj: obj}, validate(key, obj))
}

// Reject tells of an object that could not be decoded; it is treated as one that is not valid.
func (m *Mesh) Reject(r *Rejected) {
	m.put(&entry{key: r.Key, obj: r.salvaged, blind: r.blind}, r.Problems)
}

// Delete removes an object; it does nothing if there is none.
func (m *Mesh) Delete(key Key) {
	if old := m.objects[key]; old != nil {
		m.replace(old, nil)
		m.setFaults(key, nil)
	}
}

func (m *Mesh) put(e *entry, faults []Problem) {
	old := m.objects[e.key]
	m.setFaults(e.key, faults)
	if i := slices.IndexFunc(faults, isError); i >= 0 {
		if old != nil && old.rejected == "" {
			return // the last good version stays
		}
		e.rejected = faults[i].text()
	}
	for _, f := range m.facts(e) {
		e.filed = append(e.filed, m.node(f))
	}
	e.filed = slices.Clip(e.filed)
	e.units = m.unitsOf(e)
	m.replace(old, e)
}

func isError(p Problem) bool { return p.Severity == Error }

func (m *Mesh) setFaults(key Key, faults []Problem) {
	if len(faults) == 0 && len(m.faults[key]) == 0 {
		return
	}
	if len(faults) == 0 {
		delete(m.faults, key)
	} else {
		m.faults[key] = faults
	}
	for _, t := range m.translators {
		t.changed[key] = struct{}{}
	}
}

// replace puts now (nil: nothing) in the place of old (nil: nothing was there), and marks what that touches.
func (m *Mesh) replace(old, now *entry) {
	if now != nil {
		m.objects[now.key] = now
		for _, n := range now.filed {
			m.file(n, now)
		}
		m.mark(now.units)
	}
	if old == nil {
		return
	}
	if now == nil {
		delete(m.objects, old.key)
	}
	for _, n := range old.filed {
		if now == nil || !slices.Contains(now.filed, n) {
			m.unfile(n, old.key)
		}
	}
	m.mark(old.units)
}

func (m *Mesh) mark(units []unit) {
	for _, t := range m.translators {
		t.mark(units)
	}
}

// node returns the node of a fact, made if it is new.
func (m *Mesh) node(f fact) *node {
	n := m.nodes[f]
	if n == nil {
		n = &node{fact: f}
		m.nodes[f] = n
	}
	return n
}

// tidy drops a node that has become of no use.
func (m *Mesh) tidy(n *node) {
	if len(n.filed) == 0 && n.watchers.empty() {
		delete(m.nodes, n.fact)
	}
}

func (m *Mesh) file(n *node, e *entry) {
	at, again := n.find(e.key)
	if again {
		n.filed[at] = e
	} else {
		n.filed = slices.Insert(n.filed, at, e)
	}
	if len(n.filed) == 1 && !again {
		m.touch(n.fact.anything())
	}
	n.touch()
}

func (m *Mesh) unfile(n *node, key Key) {
	at, there := n.find(key)
	if !there {
		return
	}
	n.filed = slices.Delete(n.filed, at, at+1)
	n.touch()
	if len(n.filed) == 0 {
		m.touch(n.fact.anything())
		m.tidy(n)
	}
}

func (n *node) find(key Key) (at int, found bool) {
	return slices.BinarySearchFunc(n.filed, key, func(e *entry, key Key) int { return compareKeys(e.key, key) })
}

func (m *Mesh) touch(f fact) {
	if n := m.nodes[f]; n != nil {
		n.touch()
	}
}

// touch marks every unit that looked here.
func (n *node) touch() { n.watchers.each((*unitState).mark) }

// isFiled tells whether an object is filed under a fact.
func (m *Mesh) isFiled(f fact) bool {
	n := m.nodes[f]
	return n != nil && len(n.filed) > 0
}

// watchers are the units that looked under a fact: of most facts few, of some nearly all.
type watchers struct {
	few  []*unitState
	many map[*unitState]struct{} // instead, from manyWatchers on
}

// manyWatchers is where going through a list costs more than a map.
const manyWatchers = 16

func (w *watchers) empty() bool { return len(w.few)+len(w.many) == 0 }

// add adds one that is not there yet.
func (w *watchers) add(u *unitState) {
	if w.many == nil && len(w.few) < manyWatchers {
		w.few = append(w.few, u)
		return
	}
	if w.many == nil {
		w.many = make(map[*unitState]struct{}, 2*manyWatchers)
		for _, old := range w.few {
			w.many[old] = struct{}{}
		}
		w.few = nil
	}
	w.many[u] = struct{}{}
}

func (w *watchers) remove(u *unitState) {
	delete(w.many, u)
	if i := slices.Index(w.few, u); i >= 0 {
		w.few = slices.Delete(w.few, i, i+1)
	}
}

func (w *watchers) each(visit func(*unitState)) {
	for _, u := range w.few {
		visit(u)
	}
	for u := range w.many {
		visit(u)
	}
}
