package translate

import (
	"slices"

	"google.golang.org/protobuf/proto"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

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

// Translator holds the objects of a mesh and translates what changes. It is not safe for concurrent use.
type Translator struct {
	options Options
	store   store
	// problems of each object: its own faults under the zero unit, what units found under theirs.
	problems map[Key]map[unit][]Problem
	changed  map[Key]struct{} // objects whose problems may differ from what the last Update said
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

// New returns a translator without objects.
func New(o Options) *Translator {
	t := &Translator{
		options:  o.withDefaults(),
		store:    newStore(),
		problems: map[Key]map[unit][]Problem{},
		changed:  map[Key]struct{}{},
	}
	t.store.mark([]unit{{kind: unitGateway}, {kind: unitListeners}})
	return t
}

// Set adds obj or replaces the object of the same key; obj must not be changed afterwards. An obj that is not valid is
// refused: the last good version stays or, without one, it fails closed. What was wrong is in the next Changes.
func (t *Translator) Set(obj Object) {
	key := KeyOf(obj)
	t.put(&entry{key: key, obj: obj}, validate(key, obj))
}

// Reject tells of an object that could not be decoded; it is treated as one that is not valid.
func (t *Translator) Reject(r *Rejected) {
	t.put(&entry{key: r.Key, obj: r.salvaged, blind: r.blind}, r.Problems)
}

// Delete removes an object; it does nothing if there is none.
func (t *Translator) Delete(key Key) {
	old := t.store.objects[key]
	if old == nil {
		return
	}
	t.store.replace(old, nil)
	t.setProblems(key, unit{}, nil)
}

func (t *Translator) put(e *entry, faults []Problem) {
	old := t.store.objects[e.key]
	t.setProblems(e.key, unit{}, faults)
	if i := slices.IndexFunc(faults, isError); i >= 0 {
		if old != nil && old.rejected == "" {
			return // the last good version stays
		}
		e.rejected = faults[i].text()
	}
	e.facts = t.facts(e)
	e.units = t.unitsOf(e)
	t.store.replace(old, e)
}

func isError(p Problem) bool { return p.Severity == Error }

// Update computes what the changes since the last Update touch.
func (t *Translator) Update() Changes {
	var c Changes
	for len(t.store.dirty) > 0 {
		dirty := t.store.dirty
		t.store.dirty = map[unit]struct{}{}
		for u := range dirty {
			t.recompute(u, &c)
		}
	}
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

func (t *Translator) recompute(u unit, c *Changes) {
	c.Recomputed++
	v := &view{Translator: t, reads: map[fact]struct{}{}, out: map[api.Key]proto.Message{}}
	v.compute(u)
	now := &unitState{reads: v.reads, out: v.out, problems: v.problems, says: v.says}
	before := t.store.record(u, now)
	for key, m := range now.out {
		if old, ok := before.out[key]; !ok || !proto.Equal(old, m) {
			c.Upserted = append(c.Upserted, api.Resource{Key: key, Message: m})
		}
	}
	for key := range before.out {
		if _, ok := now.out[key]; !ok {
			c.Removed = append(c.Removed, key)
		}
	}
	if !before.says.equal(now.says) {
		c.Statuses = append(append(c.Statuses, before.says.on(t, u)...), now.says.on(t, u)...)
	}
	t.exchangeProblems(u, before.problems, now.problems)
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
	var all []Problem
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
	slices.SortFunc(all, compareProblems)
	return all
}

// facts are what e is found by. A rejected object is found by its name and by what it is attached to, no more.
func (t *Translator) facts(e *entry) []fact {
	facts := []fact{objectFact(e.key)}
	if labels := e.obj.GetLabels(); labels[labelUseWaypoint] != "" || labels[labelUseWaypointCanary] != "" {
		facts = append(facts, fact{kind: factUsesWaypoint})
	}
	if parents, ok := routeParents(e.obj); ok {
		return append(facts, t.routeFacts(e.key, parents)...)
	}
	if e.rejected != "" {
		return facts
	}
	switch obj := e.obj.(type) {
	case *gatewayv1.ReferenceGrant:
		facts = append(facts, fact{kind: factGrant, namespace: obj.Namespace})
	case *corev1.Pod:
		facts = append(facts, podFacts(obj)...)
	case *corev1.Service:
		facts = append(facts, t.serviceFacts(obj)...)
	case *discoveryv1.EndpointSlice:
		facts = append(facts, sliceFacts(obj)...)
	case *networkingv1.ServiceEntry:
		facts = append(facts, serviceEntryFacts(obj)...)
	case *networkingv1.WorkloadEntry:
		facts = append(facts, labelFacts(obj.Namespace, workloadEntryLabels(obj))...)
	case *securityv1.AuthorizationPolicy:
		if refs, _ := targetsOf(obj); len(refs) == 0 {
			facts = append(facts, fact{kind: factPolicyOfPods, namespace: obj.Namespace})
		}
	}
	return facts
}

// unitsOf are the outputs that e asks for.
func (t *Translator) unitsOf(e *entry) []unit {
	ns, name := e.key.Namespace, e.key.Name
	if _, ok := routeParents(e.obj); ok {
		return []unit{{unitRoute, ns, name, e.key.Kind}}
	}
	if _, ok := e.obj.(*securityv1.AuthorizationPolicy); ok {
		return []unit{{kind: unitPolicy, namespace: ns, name: name}}
	}
	if e.rejected != "" {
		return nil
	}
	switch obj := e.obj.(type) {
	case *corev1.Pod:
		return []unit{{kind: unitPod, namespace: ns, name: name}}
	case *corev1.Service:
		return []unit{{kind: unitService, namespace: ns, name: t.serviceHost(ns, name)}}
	case *discoveryv1.EndpointSlice:
		if service := obj.Labels[discoveryv1.LabelServiceName]; service != "" {
			return []unit{{kind: unitSliceEndpoints, namespace: ns, name: service}}
		}
	case *networkingv1.WorkloadEntry:
		return []unit{{kind: unitWorkloadEntry, namespace: ns, name: name}}
	case *networkingv1.ServiceEntry:
		units := []unit{{kind: unitEntryEndpoints, namespace: ns, name: name}}
		for _, host := range obj.Spec.Hosts {
			units = append(units, unit{kind: unitService, namespace: ns, name: host})
		}
		return units
	}
	return nil
}

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
