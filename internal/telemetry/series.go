package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// series are the values of one set of labels.
type series[V any] struct {
	labels labels
	values V

	// What the last scrape saw, and when it was first seen like that. Guarded by
	// the table's mu.
	seen  uint64
	since time.Time
}

// table finds the series of a key without a lock and without an allocation.
//
// Readers look into known, an immutable map. What is not in there is found, or
// made, in all under mu; once that has happened as often as a copy costs, all
// becomes the new known. So a copy is paid for by the misses before it, and in
// the steady state nothing is locked.
//
// Keys hold pointers into a snapshot, so one series is found by many keys over
// time. Keys are only a cache: they are forgotten every now and then, whereupon
// those in use come back and those of old snapshots do not.
type table[V any] struct {
	limit   int
	refused atomic.Uint64 // flows that found no room
	known   atomic.Pointer[map[key]*series[V]]

	mu        sync.Mutex
	all       map[key]*series[V]
	misses    int
	byLabels  map[labels]*series[V]
	forgotten time.Time
}

// keysPerSeries bounds the cache of keys while nobody scrapes.
const keysPerSeries = 4

func newTable[V any](limit int) *table[V] {
	t := &table[V]{limit: limit, byLabels: map[labels]*series[V]{}}
	t.forget()
	return t
}

// get returns nil if the series would be one too many.
func (t *table[V]) get(k *key) *series[V] {
	if s, ok := (*t.known.Load())[*k]; ok {
		return s
	}
	return t.miss(*k)
}

func (t *table[V]) miss(k key) *series[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.all[k]
	if !ok {
		if s = t.add(k.own()); s == nil {
			t.refused.Add(1)
			return nil
		}
	}
	if t.misses++; t.misses >= len(t.all) {
		known := maps.Clone(t.all)
		t.known.Store(&known)
		t.misses = 0
	}
	return s
}

func (t *table[V]) add(k key) *series[V] {
	l := k.labels()
	s, ok := t.byLabels[l]
	if !ok {
		if len(t.byLabels) >= t.limit {
			return nil
		}
		s = &series[V]{labels: l}
		t.byLabels[l] = s
	}
	if len(t.all) >= keysPerSeries*t.limit {
		t.forget()
	}
	t.all[k] = s
	return s
}

// forget empties the cache of keys; the series stay. The caller holds mu, or is
// alone.
func (t *table[V]) forget() {
	t.all, t.misses = map[key]*series[V]{}, 0
	t.known.Store(&map[key]*series[V]{})
}

// expiry says which series may go. A series is idle when no scrape has seen it
// change for that long; it goes if its service is gone, or if room is needed.
type expiry struct {
	idle time.Duration
	lost func(*labels) bool
}

// snapshot returns all series. What is done with them takes time, so it is done
// without the lock, which a request may wait for.
func (t *table[V]) snapshot() []*series[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byLabels))
}

// expire drops what has expired at a scrape, after its last values have been
// told. changes returns a number that grows with each use, and whether somebody
// still holds on to the series.
//
// A request that found a series just before it is dropped is counted nowhere;
// after minutes without any that is the price of a lookup without a lock.
func (t *table[V]) expire(now time.Time, e expiry, changes func(*V) (n uint64, open bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	crowded := len(t.byLabels) > t.limit/4*3
	dropped := false
	for l, s := range t.byLabels {
		n, open := changes(&s.values)
		if n != s.seen || s.since.IsZero() {
			s.seen, s.since = n, now
		}
		if !open && now.Sub(s.since) >= e.idle && (crowded || e.lost(&s.labels)) {
			delete(t.byLabels, l)
			dropped = true
		}
	}
	if dropped || now.Sub(t.forgotten) >= e.idle {
		t.forget()
		t.forgotten = now
	}
}

func (t *table[V]) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byLabels)
}
