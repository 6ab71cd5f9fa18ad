package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

const (
	maxWatchers = 16
	watchBuffer = 512 // lines that a watcher may be behind
)

// ErrTooManyWatchers is what [Live.Watch] returns if there is no room for one more.
var ErrTooManyWatchers = errors.New("too many watch already: end another one first")

// LiveStats is of the live view.
type LiveStats struct {
	Watchers int    // now
	Dropped  uint64 // lines that watchers were too slow for, since the start
}

// Live shows finished flows to those that watch, as the lines of the JSON access
// log. While nobody does, it costs one atomic load a flow.
type Live struct {
	watching atomic.Int32 // len(watchers), for those that need not look closer
	dropped  atomic.Uint64

	mu       sync.Mutex
	watchers []*watcher
}

// watcher is one that watches. Lines are shared with others.
type watcher struct {
	filter filter
	lines  chan []byte
	missed atomic.Uint64 // since the last line that it took
}

// Start implements [flow.Observer].
func (*Live) Start(*flow.Flow) {}

// Progress implements [flow.Observer].
func (*Live) Progress(*flow.Flow) {}

// Done implements [flow.Observer].
func (l *Live) Done(f *flow.Flow) {
	if l.watching.Load() > 0 {
		l.publish(f)
	}
}

func (l *Live) publish(f *flow.Flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var line []byte
	for _, w := range l.watchers {
		if !w.filter.match(f) {
			continue
		}
		if line == nil {
			line = lineOf(f)
		}
		select {
		case w.lines <- line:
		default:
			w.missed.Add(1)
			l.dropped.Add(1)
		}
	}
}

func lineOf(f *flow.Flow) []byte {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.writeJSON(f)
	return bytes.Clone(s.line)
}

// Watch calls write with a line per flow until ctx ends or write fails, whose
// error it returns. The first call is without a line: from then on no flow is
// missed. A watcher that is too slow misses lines, and is told how
// many by a line {"dropped":N}.
//
// An empty service matches all; else it is NAMESPACE/NAME or a host name. An
// empty identity matches all; else it is a SPIFFE URI or NAMESPACE/SERVICEACCOUNT.
func (l *Live) Watch(ctx context.Context, service, identity string, write func(line []byte) error) error {
	w := &watcher{filter: newFilter(service, identity), lines: make(chan []byte, watchBuffer)}
	if !l.add(w) {
		return ErrTooManyWatchers
	}
	defer l.remove(w)
	if err := write(nil); err != nil {
		return fmt.Errorf("live view: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-w.lines:
			if err := w.write(line, write); err != nil {
				return fmt.Errorf("live view: %w", err)
			}
		}
	}
}

func (w *watcher) write(line []byte, write func([]byte) error) error {
	if err := write(line); err != nil {
		return err
	}
	if n := w.missed.Swap(0); n > 0 {
		return write(fmt.Appendf(nil, "{\"dropped\":%d}\n", n))
	}
	return nil
}

// Stats returns how the live view is used.
func (l *Live) Stats() LiveStats {
	return LiveStats{Watchers: int(l.watching.Load()), Dropped: l.dropped.Load()}
}

func (l *Live) add(w *watcher) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) >= maxWatchers {
		return false
	}
	l.watchers = append(l.watchers, w)
	l.watching.Store(int32(len(l.watchers)))
	return true
}

func (l *Live) remove(w *watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers = slices.DeleteFunc(l.watchers, func(other *watcher) bool { return other == w })
	l.watching.Store(int32(len(l.watchers)))
}

// filter says which flows a watcher wants.
type filter struct {
	host, namespace, name string // of the service: either host or the others
	identity              flow.ID
	anyDomain             bool // of the identity
	anyIdentity           bool
}

func newFilter(service, identity string) filter {
	var f filter
	if namespace, name, ok := strings.Cut(service, "/"); ok {
		f.namespace, f.name = namespace, name
	} else {
		f.host = service
	}
	if rest, ok := strings.CutPrefix(identity, "spiffe://"); ok {
		domain, path, _ := strings.Cut(rest, "/ns/")
		namespace, account, _ := strings.Cut(path, "/sa/")
		f.identity = flow.ID{TrustDomain: domain, Namespace: namespace, ServiceAccount: account}
		return f
	}
	namespace, account, _ := strings.Cut(identity, "/")
	f.identity = flow.ID{Namespace: namespace, ServiceAccount: account}
	f.anyDomain, f.anyIdentity = true, identity == ""
	return f
}

func (m *filter) match(f *flow.Flow) bool { return m.matchService(f.Service) && m.matchPeer(f.Peer) }

func (m *filter) matchService(s *flow.Service) bool {
	switch {
	case m.host == "" && m.name == "" && m.namespace == "":
		return true
	case s == nil:
		return false
	case m.host != "":
		return m.host == s.Host
	default:
		return m.name == s.Name && m.namespace == s.Namespace
	}
}

func (m *filter) matchPeer(peer flow.ID) bool {
	if m.anyIdentity {
		return true
	}
	if m.anyDomain {
		peer.TrustDomain = ""
	}
	return m.identity == peer
}
