package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// directory maps keys to those who claim them; the best of several has the key.
// The map it publishes is copied on the first change after that: copying a map
// of 10,000 entries costs about half a millisecond, once per publication.
type directory[K comparable, V comparable] struct {
	keys      func(V) []K // what a value claims
	better    func(a, b V) int
	claims    map[K][]V      // best first
	contested map[K]struct{} // claimed by several
	touched   map[K]struct{}
	current   map[K]V // published: never changed in place
}

func newDirectory[K, V comparable](keys func(V) []K, better func(a, b V) int) *directory[K, V] {
	return &directory[K, V]{
		keys:      keys,
		better:    better,
		claims:    make(map[K][]V),
		contested: make(map[K]struct{}),
		touched:   make(map[K]struct{}),
		current:   make(map[K]V),
	}
}

// replace takes back the claims of one value and enters those of another; both
// may be zero.
func (d *directory[K, V]) replace(was, is V) {
	var zero V
	if was != zero {
		for _, k := range d.keys(was) {
			d.touched[k] = struct{}{}
			if d.claims[k] = slices.DeleteFunc(d.claims[k], func(v V) bool { return v == was }); len(d.claims[k]) == 0 {
				delete(d.claims, k)
			}
		}
	}
	if is != zero {
		for _, k := range d.keys(is) {
			d.touched[k] = struct{}{}
			if at, found := slices.BinarySearchFunc(d.claims[k], is, d.better); !found {
				d.claims[k] = slices.Insert(d.claims[k], at, is)
			}
		}
	}
}

// publish returns who has each key, and whether that may differ from the last
// time.
func (d *directory[K, V]) publish() (m map[K]V, changed bool) {
	if len(d.touched) == 0 {
		return d.current, false
	}
	d.current = maps.Clone(d.current)
	for k := range d.touched {
		claims := d.claims[k]
		if len(claims) > 0 {
			d.current[k] = claims[0]
		} else {
			delete(d.current, k)
		}
		if len(claims) > 1 {
			d.contested[k] = struct{}{}
		} else {
			delete(d.contested, k)
		}
	}
	clear(d.touched)
	return d.current, true
}

// others returns those who claim a key that another has, best first.
func (d *directory[K, V]) others() map[K][]V {
	if len(d.contested) == 0 {
		return nil
	}
	others := make(map[K][]V, len(d.contested))
	for k := range d.contested {
		others[k] = slices.Clone(d.claims[k][1:])
	}
	return others
}

// conflicts tells which keys several claim, and what becomes of that.
func (d *directory[K, V]) conflicts(what, outcome string, name func(V) string) (problems []Problem) {
	for k := range d.contested {
		claims := d.claims[k]
		names := make([]string, len(claims))
		for i, v := range claims {
			names[i] = name(v)
		}
		problems = append(problems, Problem{
			Object: fmt.Sprintf("%s %v", what, k),
			Reason: fmt.Sprintf("claimed by %s: %s", strings.Join(names, ", "), outcome),
		})
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Object, b.Object) })
	return problems
}

// compareWorkloads orders workloads that claim the same address, as happens for
// a moment when a pod takes over the address of one that has ended.
func compareWorkloads(a, b *Workload) int {
	return cmp.Or(
		compareBool(b.Attached, a.Attached),
		compareBool(b.Ready, a.Ready),
		cmp.Compare(a.UID, b.UID),
	)
}

// lookedUpAddrs are the addresses that tell who a workload is.
func lookedUpAddrs(w *Workload) []netip.Addr {
	if w.HostNetwork {
		return nil
	}
	return w.Addrs
}

func vips(s *Service) []netip.Addr { return s.VIPs }

func hosts(s *Service) []string { return []string{s.Hostname} }
