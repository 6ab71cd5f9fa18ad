package translate

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
)

// Options say for whom is translated. Empty strings get the defaults named.
type Options struct {
	// Namespace and name of the Gateway that we are.
	GatewayNamespace, GatewayName string

	TrustDomain        string // "cluster.local"
	TrustDomainAliases []string
	ClusterDomain      string // of service host names: "cluster.local"
	ClusterID          string // "Kubernetes"
	RootNamespace      string // of policies that target the GatewayClass: "istio-system"
	Node               string // the Node we run on; empty: not known

	// UnlabelledMeansAll attaches every Service of the Gateway's namespace when no object carries istio.io/use-waypoint:
	// for folders of manifests, whose author wants a gateway and not a mesh.
	UnlabelledMeansAll bool
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&o.TrustDomain, defaultDomain},
		{&o.ClusterDomain, defaultDomain},
		{&o.ClusterID, "Kubernetes"},
		{&o.RootNamespace, "istio-system"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return o
}

const defaultDomain = "cluster.local"

// Translator translates what changes in a mesh for one gateway. With [New] it has a mesh of its own; Set, Reject and Delete
// are those of the mesh.
type Translator struct {
	*Mesh
	options Options
	units   map[unit]*unitState
	dirty   []*unitState // to be computed again
	// Room for what is needed for a moment, again and again.
	reads []*node
	wire  []byte
	// problems are what units found, of each object.
	problems map[Key]map[unit][]Problem
	changed  map[Key]struct{} // objects whose problems may differ from what the last Update said
}

// unitState is what a unit gave when it was last computed.
type unitState struct {
	unit
	of       *Translator
	dirty    bool // it is among those of the translator
	reads    []*node
	out      []output // ordered by key
	problems []Problem
	says     *statement // nil: nothing
}

// output tells whether a resource that a unit gives is what it gave before. The message itself is not kept: it is made of
// as many objects as a mesh has fields, and nobody here looks at it again.
type output struct {
	key api.Key
	sum [sha256.Size]byte // of the message
}

// Changes is what became different since the last Update.
type Changes struct {
	Upserted []api.Resource // ordered by key
	Removed  []api.Key      // ordered
	// Problems holds, for each object whose problems changed, all that it has now; none: it is well again or gone.
	Problems map[Key][]Problem
	// Statuses lists the objects of which something else is to be said in a status: routes, policies, services, our Gateway
	// (RouteStatus, PolicyStatus, ServiceStatus, ListenerRoutes). Ordered.
	Statuses []Key
	// Recomputed counts the outputs that were computed again, changed or not.
	Recomputed int
}

// New returns a translator that has a mesh of its own, without objects.
func New(o Options) *Translator { return NewMesh(o).Translator(o.GatewayNamespace, o.GatewayName) }

func newTranslator(m *Mesh, namespace, name string) *Translator {
	t := &Translator{
		Mesh:     m,
		options:  m.common,
		units:    map[unit]*unitState{},
		problems: map[Key]map[unit][]Problem{},
		changed:  map[Key]struct{}{},
	}
	t.options.GatewayNamespace, t.options.GatewayName = namespace, name
	t.mark([]unit{{kind: unitGateway}, {kind: unitListeners}})
	return t
}

// Close takes the translator off its mesh. It must not be used any more.
func (t *Translator) Close() {
	t.translators = slices.DeleteFunc(t.translators, func(other *Translator) bool { return other == t })
	for _, u := range t.units {
		for _, n := range u.reads {
			t.unwatch(n, u)
		}
	}
}

// mark has units be computed again.
func (t *Translator) mark(units []unit) {
	for _, u := range units {
		state := t.units[u]
		if state == nil {
			state = &unitState{unit: u, of: t}
			t.units[u] = state
		}
		state.mark()
	}
}

func (u *unitState) mark() {
	if !u.dirty {
		u.dirty = true
		u.of.dirty = append(u.of.dirty, u)
	}
}

// Update computes what the changes since the last Update touch.
func (t *Translator) Update() Changes {
	var c Changes
	for i := 0; i < len(t.dirty); i++ {
		t.recompute(t.dirty[i], &c)
	}
	t.dirty = nil
	c.Problems = make(map[Key][]Problem, len(t.changed))
	for key := range t.changed {
		c.Problems[key] = t.Problems(key)
	}
	t.changed = map[Key]struct{}{}
	slices.SortFunc(c.Upserted, func(a, b api.Resource) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(c.Removed, api.Key.Compare)
	slices.SortFunc(c.Statuses, compareKeys)
	c.Statuses = slices.Compact(c.Statuses)
	return c
}

func (t *Translator) recompute(u *unitState, c *Changes) {
	c.Recomputed++
	u.dirty = false
	t.turn++
	v := &view{Translator: t, reads: t.reads[:0]}
	v.compute(u.unit)
	t.reads = v.reads
	now := &unitState{problems: v.problems, says: v.says}
	t.exchangeOutputs(u, ordered(v.out), c)
	if !u.says.equal(now.says) {
		c.Statuses = append(append(c.Statuses, u.says.on(t, u.unit)...), now.says.on(t, u.unit)...)
	}
	t.exchangeProblems(u.unit, u.problems, now.problems)
	u.problems, u.says = now.problems, now.says
	t.watch(u, v.reads)
}

// ordered sorts resources by key; of several of one key the last counts.
func ordered(list []api.Resource) []api.Resource {
	slices.SortStableFunc(list, func(a, b api.Resource) int { return a.Key.Compare(b.Key) })
	kept := list[:0]
	for i, r := range list {
		if i == len(list)-1 || list[i+1].Key != r.Key {
			kept = append(kept, r)
		}
	}
	return kept
}

// exchangeOutputs puts what a unit gives now in the place of what it gave before.
func (t *Translator) exchangeOutputs(u *unitState, now []api.Resource, c *Changes) {
	before := u.out
	u.out = make([]output, len(now))
	for i, r := range now {
		for len(before) > 0 && before[0].key.Compare(r.Key) < 0 {
			c.Removed = append(c.Removed, before[0].key)
			before = before[1:]
		}
		u.out[i] = output{r.Key, t.sum(r.Message)}
		if len(before) > 0 && before[0].key == r.Key {
			same := before[0] == u.out[i]
			before = before[1:]
			if same {
				continue
			}
		}
		c.Upserted = append(c.Upserted, r)
	}
	for _, o := range before {
		c.Removed = append(c.Removed, o.key)
	}
}

// sum is that of a message's deterministic form. A message that has none, for text that is not UTF-8, counts as another
// one each time; whoever it is sent to says what is wrong with it.
func (t *Translator) sum(m proto.Message) [sha256.Size]byte {
	wire, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(t.wire[:0], m)
	if err != nil {
		return sha256.Sum256(binary.NativeEndian.AppendUint64(nil, t.turn))
	}
	t.wire = wire
	return sha256.Sum256(wire)
}

// watch has the unit be told of the nodes that it looked at now, and no others. A unit that no object asks for any more
// leaves no trace.
func (t *Translator) watch(u *unitState, reads []*node) {
	declared := t.declared(u.unit)
	if !declared {
		delete(t.units, u.unit)
	}
	same := declared
	for _, n := range u.reads {
		n.had = t.turn
		if n.looked != t.turn || !declared {
			t.unwatch(n, u)
			same = false
		}
	}
	if same && len(reads) == len(u.reads) {
		return
	}
	if u.reads = nil; declared {
		u.reads = slices.Clone(reads)
	}
	for _, n := range reads {
		switch {
		case !declared:
			t.tidy(n)
		case n.had != t.turn:
			n.watchers.add(u)
		}
	}
}

func (t *Translator) unwatch(n *node, u *unitState) {
	n.watchers.remove(u)
	t.tidy(n)
}

// declared tells whether some object still asks for the unit.
func (t *Translator) declared(u unit) bool {
	switch u.kind {
	case unitGateway, unitListeners:
		return true
	case unitService:
		return t.isFiled(fact{kind: factHost, namespace: u.namespace, name: u.name})
	case unitSliceEndpoints:
		return t.isFiled(fact{kind: factSlicesOfService, namespace: u.namespace, name: u.name})
	}
	return t.objects[u.key()] != nil
}

// exchangeProblems puts what a unit found now in the place of what it found before.
func (t *Translator) exchangeProblems(u unit, before, now []Problem) {
	if slices.Equal(before, now) {
		return
	}
	byObject := map[Key][]Problem{}
	for _, p := range before {
		byObject[p.Object] = nil
	}
	for _, p := range now {
		byObject[p.Object] = append(byObject[p.Object], p)
	}
	for key, problems := range byObject {
		t.setProblems(key, u, problems)
	}
}

func (t *Translator) setProblems(key Key, from unit, problems []Problem) {
	if len(problems) == 0 && len(t.problems[key][from]) == 0 {
		return
	}
	t.changed[key] = struct{}{}
	if len(problems) > 0 {
		if t.problems[key] == nil {
			t.problems[key] = map[unit][]Problem{}
		}
		t.problems[key][from] = problems
		return
	}
	delete(t.problems[key], from)
	if len(t.problems[key]) == 0 {
		delete(t.problems, key)
	}
}

// Problems lists what is wrong with one object as of the last Update, errors first.
func (t *Translator) Problems(key Key) []Problem {
	all := slices.Clone(t.faults[key])
	for _, problems := range t.problems[key] {
		all = append(all, problems...)
	}
	slices.SortFunc(all, compareProblems)
	return slices.Compact(all)
}

// AllProblems lists what is wrong with all objects as of the last Update, ordered by object.
func (t *Translator) AllProblems() []Problem {
	var all []Problem
	for key := range t.problems {
		all = append(all, t.Problems(key)...)
	}
	for key := range t.faults {
		if t.problems[key] == nil {
			all = append(all, t.Problems(key)...)
		}
	}
	slices.SortFunc(all, compareProblems)
	return all
}
