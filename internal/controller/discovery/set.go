package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/waypoint-mesh/waypoint/api"
)

// set is what the waypoints of one gateway have to have, with the log of how it
// came to be.
type set struct {
	mu      sync.Mutex // guards all below
	scope   *scope
	filled  bool // there was an update: before it nobody knows what is in the set
	version uint64
	now     map[api.Key]*entry
	live    int      // entries of now that are no removals
	log     []*entry // by version; those that are not in now are superseded
	clients map[*client]uint64
	changed chan struct{} // closed by the next update
	gone    chan struct{} // closed when the gateway is
}

// entry is one version of one resource. It does not change, and all streams send
// the same one.
type entry struct {
	key     api.Key
	version uint64                // of the set
	wire    *discoveryv3.Resource // nil: removed
}

func newSet() *set {
	return &set{
		scope:   newScope(),
		now:     make(map[api.Key]*entry),
		clients: make(map[*client]uint64),
		changed: make(chan struct{}),
		gone:    make(chan struct{}),
	}
}

// update takes changes of what is known for the gateway. It reports how many
// resources differ for its waypoints. A resource that cannot be marshalled stays
// as it was; the error names it.
func (s *set) update(upserted []api.Resource, removed []api.Key) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.scope.update(upserted, removed)
	var faults []error
	before := len(s.log)
	for _, key := range d.removed {
		if old := s.now[key]; old != nil && old.wire != nil {
			s.append(&entry{key: key})
		}
	}
	for _, r := range d.upserted {
		wire, err := marshal(r)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if old := s.now[r.Key]; old == nil || old.wire.GetVersion() != wire.GetVersion() {
			s.append(&entry{key: r.Key, wire: wire})
		}
	}
	count := len(s.log) - before
	if count > 0 {
		s.version++
	}
	if count > 0 || !s.filled {
		s.filled = true
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.compact()
	return count, errors.Join(faults...)
}

// append adds an entry of the version to come.
func (s *set) append(e *entry) {
	if old := s.now[e.key]; old != nil && old.wire != nil {
		s.live--
	}
	if e.wire != nil {
		s.live++
	}
	e.version = s.version + 1
	s.now[e.key] = e
	s.log = append(s.log, e)
}

// marshal gives a resource its form on the wire. The version is a hash of the
// content, so that every replica gives the same one.
func marshal(r api.Resource) (*discoveryv3.Resource, error) {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Message)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Key, err)
	}
	sum := sha256.Sum256(value)
	return &discoveryv3.Resource{
		Name:     r.Name,
		Version:  hex.EncodeToString(sum[:8]),
		Resource: &anypb.Any{TypeUrl: r.Type, Value: value},
	}, nil
}

// compact drops what is superseded, and removals that every client has been told
// of, once they are the larger part of the log.
func (s *set) compact() {
	if len(s.log) < 2*s.live+1000 {
		return
	}
	told := s.version
	for _, at := range s.clients {
		told = min(told, at)
	}
	kept := s.log[:0]
	for _, e := range s.log {
		switch {
		case s.now[e.key] != e:
		case e.wire == nil && e.version <= told:
			delete(s.now, e.key)
		default:
			kept = append(kept, e)
		}
	}
	clear(s.log[len(kept):])
	s.log = kept
}

// enter adds a client that has nothing of the log yet, if there is room.
func (s *set) enter(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) >= maxClients {
		return false
	}
	s.clients[c] = s.version // subscriptions compare it with what there is then
	return true
}

// leave takes a client out. It reports whether nothing is left to keep.
func (s *set) leave(c *client) (unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	return !s.filled && len(s.clients) == 0
}

func (s *set) connected() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.clients))
}

// watch returns a channel that is closed by the next update.
func (s *set) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// subscription is one type on one stream.
type subscription struct {
	// answered: the client has been told all there is, and needs the changes
	// only. Before that, had is what it says it has, versions by name.
	answered bool
	had      map[string]string
}

// delta is what a client lacks of one type.
type delta struct {
	typeURL  string
	upserted []*discoveryv3.Resource
	removed  []string
}

// collect finds what a client lacks of the types it subscribed to, and moves it
// to the end of the log. A type that was not answered yet is among the result
// even if nothing is lacking: the client waits for it. Nil: nothing to say, which is
// so for a client that has left, too: its goroutine that sends may be a step behind.
func (s *set) collect(c *client, types map[string]*subscription) (version uint64, list []*delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.clients[c]; !there || !s.filled {
		return 0, nil
	}
	found := make(map[string]*delta)
	of := func(typeURL string) *delta {
		if found[typeURL] == nil {
			found[typeURL] = &delta{typeURL: typeURL}
			list = append(list, found[typeURL])
		}
		return found[typeURL]
	}
	for typeURL, sub := range types {
		if !sub.answered {
			s.compare(of(typeURL), sub.had)
		}
	}
	for _, e := range s.after(s.clients[c]) {
		if sub := types[e.key.Type]; sub != nil && sub.answered && s.now[e.key] == e {
			of(e.key.Type).add(e)
		}
	}
	for _, sub := range types {
		sub.answered, sub.had = true, nil
	}
	s.clients[c] = s.version
	return s.version, list
}

// after returns the part of the log that is newer than a version.
func (s *set) after(version uint64) []*entry {
	return s.log[sort.Search(len(s.log), func(i int) bool { return s.log[i].version > version }):]
}

// compare finds what is different from what a client says it has.
func (s *set) compare(d *delta, had map[string]string) {
	for key, e := range s.now {
		if key.Type != d.typeURL || e.wire == nil {
			continue
		}
		if version, ok := had[key.Name]; !ok || version != e.wire.GetVersion() {
			d.upserted = append(d.upserted, e.wire)
		}
	}
	for name := range had {
		if e := s.now[api.Key{Type: d.typeURL, Name: name}]; e == nil || e.wire == nil {
			d.removed = append(d.removed, name)
		}
	}
}

func (d *delta) add(e *entry) {
	if e.wire == nil {
		d.removed = append(d.removed, e.key.Name)
	} else {
		d.upserted = append(d.upserted, e.wire)
	}
}
