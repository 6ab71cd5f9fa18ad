package mesh

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Store holds the snapshot in force. The zero Store holds an empty one.
type Store struct {
	current atomic.Pointer[Snapshot]

	mu          sync.Mutex // guards subscribers
	subscribers []*subscriber
}

type subscriber struct{ changed func(was, is *Snapshot) }

// empty is in force until the first publication: it knows nobody.
var empty = &Snapshot{}

// Load returns the snapshot in force, never nil. Its version is 0 before the
// first publication.
func (s *Store) Load() *Snapshot {
	if snap := s.current.Load(); snap != nil {
		return snap
	}
	return empty
}

// Publish puts a snapshot in force and then tells the subscribers, on the
// calling goroutine.
func (s *Store) Publish(snap *Snapshot) {
	was := s.current.Swap(snap)
	if was == nil {
		was = empty
	}
	s.mu.Lock()
	subscribers := slices.Clone(s.subscribers)
	s.mu.Unlock()
	for _, sub := range subscribers {
		sub.changed(was, snap)
	}
}

// Subscribe has changed called after every later publication with the snapshots
// before and after. It must not block: the publisher waits for it. What did not
// change is the same pointer in both, so that comparing is cheap. The returned
// function ends the subscription; a call under way may still come to its end.
func (s *Store) Subscribe(changed func(was, is *Snapshot)) (cancel func()) {
	sub := &subscriber{changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, sub)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(other *subscriber) bool { return other == sub })
	}
}
