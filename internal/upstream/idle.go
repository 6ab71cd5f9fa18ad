package upstream

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Key says which endpoint something idle leads to. An address that is given to
// another workload has another key: what led to the old one is not used.
type Key struct {
	Addr     netip.AddrPort
	Identity identity.ID
	HBONE    bool
}

// KeyOf returns the key of ep.
func KeyOf(ep *mesh.Endpoint) Key {
	return Key{Addr: ep.Addr, Identity: ep.Workload.Identity, HBONE: ep.Workload.HBONE}
}

// Idle keeps what is not in use, the last one first: those at the bottom grow
// old and are closed, so that a burst does not leave connections for ever.
//
// mu guards everything. Nothing is closed while it is held.
type Idle[T comparable] struct {
	sched   *task.Scheduler
	timeout time.Duration
	perKey  int
	close   func(b *task.Batch, item T)

	mu       sync.Mutex
	items    map[Key][]idleItem[T] // the oldest first
	sweeping bool                  // a sweep is scheduled
	closed   bool
}

type idleItem[T comparable] struct {
	item  T
	since time.Time
}

// NewIdle returns a pool that keeps at most perKey items per endpoint, each for
// at most timeout, and hands to close what it gives up.
func NewIdle[T comparable](s *task.Scheduler, timeout time.Duration, perKey int, closeItem func(*task.Batch, T)) *Idle[T] {
	return &Idle[T]{sched: s, timeout: timeout, perKey: perKey, close: closeItem, items: map[Key][]idleItem[T]{}}
}

// Get takes the item that was put last.
func (p *Idle[T]) Get(k Key) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.items[k]
	n := len(list)
	if n == 0 {
		var none T
		return none, false
	}
	it := list[n-1].item
	list[n-1] = idleItem[T]{}
	p.items[k] = list[:n-1]
	return it, true
}

// Put keeps item for the next Get. A full or closed pool closes it instead.
func (p *Idle[T]) Put(b *task.Batch, k Key, item T) {
	p.mu.Lock()
	keep := !p.closed && len(p.items[k]) < p.perKey
	if keep {
		p.items[k] = append(p.items[k], idleItem[T]{item, time.Now()})
		p.scheduleSweep()
	}
	p.mu.Unlock()
	if !keep {
		p.close(b, item)
	}
}

// Remove takes item out, and reports whether it was there: it is for an item
// that died while idle.
func (p *Idle[T]) Remove(k Key, item T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.items[k]
	i := slices.IndexFunc(list, func(it idleItem[T]) bool { return it.item == item })
	if i < 0 {
		return false
	}
	p.items[k] = slices.Delete(list, i, i+1)
	return true
}

// Retain closes the items whose endpoint keep does not know any more.
func (p *Idle[T]) Retain(b *task.Batch, keep func(Key) bool) {
	p.drop(b, func(k Key, _ idleItem[T]) bool { return !keep(k) })
}

// Close closes everything and whatever is put from now on.
func (p *Idle[T]) Close(b *task.Batch) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop(b, func(Key, idleItem[T]) bool { return true })
}

// Len returns the number of idle items.
func (p *Idle[T]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, list := range p.items {
		n += len(list)
	}
	return n
}

// drop closes what gone selects.
func (p *Idle[T]) drop(b *task.Batch, gone func(Key, idleItem[T]) bool) {
	var dropped []T
	p.mu.Lock()
	for k, list := range p.items {
		kept := slices.DeleteFunc(list, func(it idleItem[T]) bool {
			if !gone(k, it) {
				return false
			}
			dropped = append(dropped, it.item)
			return true
		})
		if len(kept) == 0 {
			delete(p.items, k)
		} else {
			p.items[k] = kept
		}
	}
	p.mu.Unlock()
	for _, item := range dropped {
		p.close(b, item)
	}
}

// scheduleSweep has the idle looked at once half the timeout has passed. The
// pool that is empty schedules nothing. The caller holds mu.
func (p *Idle[T]) scheduleSweep() {
	if p.sweeping || p.timeout <= 0 {
		return
	}
	p.sweeping = true
	p.sched.After(p.timeout/2, sweep[T]{p})
}

type sweep[T comparable] struct{ pool *Idle[T] }

func (s sweep[T]) Wake(b *task.Batch) {
	p := s.pool
	old := time.Now().Add(-p.timeout)
	p.drop(b, func(_ Key, it idleItem[T]) bool { return it.since.Before(old) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	if len(p.items) > 0 && !p.closed {
		p.scheduleSweep()
	}
}
