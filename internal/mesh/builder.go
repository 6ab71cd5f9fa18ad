package mesh

import (
	"cmp"
	"net/netip"
	"slices"
)

// Builder joins parts to snapshots:
//
//  1. [Builder.Set] and [Builder.Remove] enter a part into the indexes and mark
//     the services and workloads that it touches. Parts that name a service meet
//     at its joint, which exists as soon as anybody names it, so that the order
//     in which parts come does not matter.
//  2. [Builder.Publish] builds the marked services and workloads anew, and
//     nothing else: what was not touched is the same pointer in the next
//     snapshot. What routes and policies compile to is remembered by the list of
//     parts it came from, see memo.
//
// A Builder belongs to one goroutine, that of its source.
type Builder struct {
	store    *Store
	gateway  GatewaySpec
	parts    map[Key]Part
	refused  map[string]string // reasons by object, as told by Reject
	versions serial            // the last one given to a part

	joints    map[string]*joint     // by service key
	workloads map[string]*workload  // by UID
	everyone  gathering             // holds for all that the gateway fronts
	inside    map[string]*gathering // holds for one namespace

	staleServices  map[*joint]struct{}
	staleWorkloads map[*workload]struct{}
	staleRest      bool // the gateway, or what was rejected

	services map[string]*Service // of the last snapshot; never changed in place
	vips     *directory[netip.Addr, *Service]
	hosts    *directory[string, *Service]
	addrs    *directory[netip.Addr, *Workload]
	routes   memo[*Routes]
	engines  memo[engines]
}

// gathering is what was said about the same target, each list in its order of
// precedence.
type gathering struct {
	routes   []*RouteSpec
	policies []*PolicySpec
}

// joint is where the parts that name one service meet.
type joint struct {
	gathering
	key     string
	spec    *ServiceSpec // nil: only others name it
	members []*workload  // by UID

	built   *Service
	tables  []*remembered[*Routes] // in use by built
	engines *remembered[engines]
}

func (j *joint) unused() bool {
	return j.spec == nil && len(j.members) == 0 && len(j.routes) == 0 && len(j.policies) == 0
}

// workload is a workload part with what outlives its versions.
type workload struct {
	uid   string
	spec  *WorkloadSpec // nil: removed since the last publication
	loads map[netip.AddrPort]*Load

	built   *Workload
	engines *remembered[engines]
}

// NewBuilder makes a builder that publishes to store.
func NewBuilder(store *Store) *Builder {
	b := &Builder{
		store:          store,
		parts:          make(map[Key]Part),
		refused:        make(map[string]string),
		joints:         make(map[string]*joint),
		workloads:      make(map[string]*workload),
		inside:         make(map[string]*gathering),
		staleServices:  make(map[*joint]struct{}),
		staleWorkloads: make(map[*workload]struct{}),
		services:       make(map[string]*Service),
		addrs:          newDirectory(lookedUpAddrs, compareWorkloads),
		routes:         make(memo[*Routes]),
		engines:        make(memo[engines]),
	}
	b.vips = newDirectory(vips, b.compareServices)
	b.hosts = newDirectory(hosts, b.compareServices)
	return b
}

// Set enters a part, or replaces the one of the same key.
func (b *Builder) Set(p Part) {
	key := p.PartKey()
	if old, ok := b.parts[key]; ok {
		b.leave(old)
	}
	b.parts[key] = p
	b.versions++
	switch p := p.(type) {
	case *GatewaySpec:
		b.setGateway(*p)
	case *ServiceSpec:
		j := b.joint(p.Key)
		j.spec = p
		b.staleServices[j] = struct{}{}
	case *WorkloadSpec:
		b.enterWorkload(p)
	case *RouteSpec:
		p.serial = b.versions
		b.eachRouteTarget(p, func(g *gathering) { g.routes = insert(g.routes, p, byPrecedence) })
	case *PolicySpec:
		p.serial = b.versions
		b.eachPolicyTarget(p, func(g *gathering) { g.policies = insert(g.policies, p, byName) })
	}
}

// Has reports whether there is a part of that key.
func (b *Builder) Has(key Key) bool {
	_, ok := b.parts[key]
	return ok
}

// Remove takes a part away. A key that nothing has is ignored.
func (b *Builder) Remove(key Key) {
	if p, ok := b.parts[key]; ok {
		delete(b.parts, key)
		b.leave(p)
	}
}

// leave undoes Set.
func (b *Builder) leave(p Part) {
	switch p := p.(type) {
	case *GatewaySpec:
		b.setGateway(GatewaySpec{})
	case *ServiceSpec:
		j := b.joint(p.Key)
		j.spec = nil
		b.staleServices[j] = struct{}{}
	case *WorkloadSpec:
		b.leaveWorkload(p)
	case *RouteSpec:
		b.eachRouteTarget(p, func(g *gathering) { g.routes = remove(g.routes, p, byPrecedence) })
	case *PolicySpec:
		b.eachPolicyTarget(p, func(g *gathering) { g.policies = remove(g.policies, p, byName) })
	}
}

// Reject records why an object was refused, for people to see; an empty reason
// takes it back. Parts that carry their own reason need not be told of.
func (b *Builder) Reject(object, reason string) {
	if b.refused[object] == reason {
		return
	}
	b.staleRest = true
	if reason == "" {
		delete(b.refused, object)
	} else {
		b.refused[object] = reason
	}
}

// setGateway makes everything stale: what is attached, who wins a conflict and
// how policies compile depends on the gateway.
func (b *Builder) setGateway(g GatewaySpec) {
	b.gateway = g
	b.staleRest = true
	clear(b.engines)
	for _, j := range b.joints {
		b.staleServices[j] = struct{}{}
	}
	for _, w := range b.workloads {
		b.staleWorkloads[w] = struct{}{}
	}
}

func (b *Builder) enterWorkload(spec *WorkloadSpec) {
	w := b.workloads[spec.UID]
	if w == nil {
		w = &workload{uid: spec.UID, loads: make(map[netip.AddrPort]*Load)}
		b.workloads[spec.UID] = w
	}
	w.spec = spec
	b.staleWorkloads[w] = struct{}{}
	for key := range spec.Serves {
		j := b.joint(key)
		j.members = insert(j.members, w, byUID)
		b.staleServices[j] = struct{}{}
	}
}

func (b *Builder) leaveWorkload(spec *WorkloadSpec) {
	w := b.workloads[spec.UID]
	w.spec = nil
	b.staleWorkloads[w] = struct{}{}
	for key := range spec.Serves {
		j := b.joint(key)
		j.members = remove(j.members, w, byUID)
		b.staleServices[j] = struct{}{}
	}
}

// eachRouteTarget visits all that a route is attached to, and marks what that
// makes stale.
func (b *Builder) eachRouteTarget(r *RouteSpec, visit func(*gathering)) {
	b.staleRest = b.staleRest || r.Rejected != ""
	for _, parent := range r.Parents {
		if parent.Service == "" {
			visit(&b.everyone)
			b.touch(func(string) bool { return true })
			continue
		}
		j := b.joint(parent.Service)
		visit(&j.gathering)
		b.staleServices[j] = struct{}{}
	}
}

// eachPolicyTarget does the same for a policy.
func (b *Builder) eachPolicyTarget(p *PolicySpec, visit func(*gathering)) {
	b.staleRest = b.staleRest || p.Policy.Invalid != ""
	for _, target := range p.Targets {
		switch {
		case target.Service != "":
			j := b.joint(target.Service)
			visit(&j.gathering)
			b.staleServices[j] = struct{}{}
		case target.Namespace != "":
			if b.inside[target.Namespace] == nil {
				b.inside[target.Namespace] = new(gathering)
			}
			visit(b.inside[target.Namespace])
			b.touch(func(namespace string) bool { return namespace == target.Namespace })
		default:
			visit(&b.everyone)
			b.touch(func(string) bool { return true })
		}
	}
}

// touch marks what the gateway fronts in the namespaces that are asked for.
func (b *Builder) touch(in func(namespace string) bool) {
	for _, j := range b.joints {
		if j.spec != nil && b.frontsService(j.spec) && in(j.spec.Namespace) {
			b.staleServices[j] = struct{}{}
		}
	}
	for _, w := range b.workloads {
		if w.spec != nil && b.frontsWorkload(w.spec) && in(w.spec.Namespace) {
			b.staleWorkloads[w] = struct{}{}
		}
	}
}

// compareServices orders services that claim the same address or host: those
// that this gateway fronts, then those of its namespace, then the older, then by
// key.
func (b *Builder) compareServices(s, t *Service) int {
	return cmp.Or(
		compareBool(t.Attached, s.Attached),
		compareBool(t.Namespace == b.gateway.Namespace, s.Namespace == b.gateway.Namespace),
		s.Created.Compare(t.Created),
		cmp.Compare(s.Key, t.Key),
	)
}

func (b *Builder) frontsService(s *ServiceSpec) bool {
	return b.gateway.ServesServices && slices.Contains(s.Waypoints, b.gateway.Key)
}

func (b *Builder) frontsWorkload(w *WorkloadSpec) bool {
	return b.gateway.ServesWorkloads && slices.Contains(w.Waypoints, b.gateway.Key)
}

// joint returns where parts that name a service meet.
func (b *Builder) joint(key string) *joint {
	j := b.joints[key]
	if j == nil {
		j = &joint{key: key}
		b.joints[key] = j
	}
	return j
}

func byUID(a, b *workload) int { return cmp.Compare(a.uid, b.uid) }

// insert adds v to a sorted list that does not have it yet.
func insert[T any](list []T, v T, compare func(a, b T) int) []T {
	at, found := slices.BinarySearchFunc(list, v, compare)
	if found {
		return list
	}
	return slices.Insert(list, at, v)
}

// remove takes v from a sorted list, if it is there.
func remove[T any](list []T, v T, compare func(a, b T) int) []T {
	at, found := slices.BinarySearchFunc(list, v, compare)
	if !found {
		return list
	}
	return slices.Delete(list, at, at+1)
}
