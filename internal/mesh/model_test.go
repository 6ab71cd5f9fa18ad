package mesh

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// TestIncrementalEqualsFresh is the model of the builder: whatever the sequence
// of changes, the snapshot is the one that a new builder makes of the same parts.
func TestIncrementalEqualsFresh(t *testing.T) {
	for seed := range uint64(60) {
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		b := NewBuilder(new(Store))
		parts := make(map[Key]Part)
		for step := range 150 {
			if part := g.part(); g.IntN(3) > 0 {
				parts[part.PartKey()] = part
				b.Set(part)
			} else {
				delete(parts, part.PartKey())
				b.Remove(part.PartKey())
			}
			if g.IntN(3) > 0 {
				continue
			}
			fresh := NewBuilder(new(Store))
			list := slices.Collect(maps.Values(parts))
			g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			for _, p := range list {
				fresh.Set(copied(p))
			}
			got, want := *b.Publish(), *fresh.Publish()
			got.Version, want.Version = 0, 0
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, step %d: incremental and fresh differ:\n%s\n%s", seed, step, outline(&got), outline(&want))
			}
			checkLeftovers(t, b, fresh)
		}
	}
}

// checkLeftovers compares what builders hold beside the snapshot: nothing may
// stay behind of what is gone.
func checkLeftovers(t *testing.T, b, fresh *Builder) {
	t.Helper()
	for name, n := range map[string][2]int{
		"joints":    {len(b.joints), len(fresh.joints)},
		"workloads": {len(b.workloads), len(fresh.workloads)},
		"tables":    {len(b.routes), len(fresh.routes)},
		"engines":   {len(b.engines), len(fresh.engines)},
		"addresses": {len(b.vips.claims), len(fresh.vips.claims)},
		"contested": {len(b.vips.contested), len(fresh.vips.contested)},
	} {
		if n[0] != n[1] {
			t.Fatalf("%d %s are held, want %d", n[0], name, n[1])
		}
	}
}

// copied makes a part for another builder: it numbers them.
func copied(p Part) Part {
	switch p := p.(type) {
	case *RouteSpec:
		r := *p
		return &r
	case *PolicySpec:
		c := *p
		return &c
	}
	return p
}

// generator makes parts of a world that is small enough for them to meet.
type generator struct{ *rand.Rand }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

func (g generator) namespace() string { return pick(g, "default", "abroad") }

func (g generator) service() string {
	return service(g.namespace(), pick(g, "a", "b", "c"), "").Key
}

func (g generator) part() Part {
	switch g.IntN(10) {
	case 0:
		gw := gateway()
		gw.ServesServices, gw.ServesWorkloads = g.IntN(4) > 0, g.IntN(2) > 0
		gw.Namespace = g.namespace()
		gw.Trust.Domain = pick(g, "cluster.local", "td")
		return gw
	case 1, 2:
		s := service(g.namespace(), pick(g, "a", "b", "c"), fmt.Sprint("10.0.0.", g.IntN(3)))
		s.Hostname = pick(g, s.Hostname, "shared.example.com")
		s.Waypoints = pick(g, nil, []string{ourKey}, []string{ourKey})
		s.Created = time.Unix(int64(g.IntN(3)), 0)
		s.AllowUnready = g.IntN(4) == 0
		s.Ports = s.Ports[:g.IntN(3)]
		return s
	case 3, 4, 5:
		w := pod(fmt.Sprint("p", g.IntN(4)), fmt.Sprint("10.1.0.", g.IntN(4)), g.service(), g.service())
		w.Namespace = g.namespace()
		w.Ready = g.IntN(3) > 0
		w.HostNetwork = g.IntN(5) == 0
		w.Waypoints = pick(g, nil, []string{ourKey})
		if g.IntN(6) == 0 {
			w.Addrs, w.Hostname = []netip.Addr{}, "db.example.com"
		}
		return w
	case 6, 7:
		return g.route()
	default:
		return g.policy()
	}
}

func (g generator) route() Part {
	r := routeTo(g.namespace(), fmt.Sprint("r", g.IntN(4)))
	r.Type = RouteType(g.IntN(int(TCPRoute) + 1))
	r.Created = time.Unix(int64(g.IntN(2)), 0)
	r.Hostnames = pick(g, nil, []string{"x.example.com"})
	r.Rules = []route.Rule{{Route: r.Object(), Name: fmt.Sprint(g.IntN(1000))}}
	if g.IntN(5) == 0 {
		r.Rules, r.Rejected = nil, "bad"
	}
	for range g.IntN(3) {
		r.Parents = append(r.Parents, RouteParent{Service: pick(g, "", g.service(), g.service()), Port: pick[uint16](g, 0, 0, 80)})
	}
	return r
}

func (g generator) policy() Part {
	p := policyFor(g.namespace(), fmt.Sprint("p", g.IntN(4)))
	p.Policy.Action = pick(g, authz.Allow, authz.Deny)
	p.Policy.Invalid = pick(g, "", "", "bad")
	for range g.IntN(3) {
		p.Targets = append(p.Targets, pick(g, PolicyTarget{}, PolicyTarget{Service: g.service()}, PolicyTarget{Namespace: g.namespace()}))
	}
	return p
}

// outline prints what tells snapshots apart.
func outline(s *Snapshot) string {
	out := fmt.Sprintf("gateway %+v rejected %v conflicts %v\n", s.Gateway, s.Rejected, s.Conflicts)
	for _, key := range slices.Sorted(maps.Keys(s.Services)) {
		svc := s.Services[key]
		out += fmt.Sprintf("%s attached %v addresses %v\n", key, svc.Attached, svc.VIPs)
		for _, p := range svc.Ports {
			out += fmt.Sprintf("  %d endpoints %s routes %+v for others %v\n", p.Number, shown(p), p.Routes, p.Consumer)
		}
	}
	for addr, w := range s.Workloads {
		out += fmt.Sprintf("%v is %s attached %v\n", addr, w.UID, w.Attached)
	}
	return out
}
