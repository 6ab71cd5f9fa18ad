package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// Options of a [Source].
type Options struct {
	Addr    string // of the controller, "host:port"; the host is what its certificate has to name
	Gateway string // which one we are, "namespace/name"
	// Token is a file with the bearer token by which we prove it. Empty:
	// Certificate does.
	Token string
	// Root is a file with the controller's CA, PEM. Empty: the system's roots.
	Root string
	// Certificate is what we show where there is no token; nil: nothing.
	Certificate func() (*tls.Certificate, error)
	StateDir    string // where the configuration outlives us; empty: nowhere
	Instance    string // our name among the waypoints of the gateway: the pod's
	Version     string // of the program
	Log         *slog.Logger
	// Waiting is told why there is no configuration yet, whenever that changes,
	// until there is one.
	Waiting func(reason string)
}

// Source keeps a mesh.Store up to date with what a controller says. Load is to be
// called once, then Run.
type Source struct {
	o     Options
	log   *slog.Logger
	store *mesh.Store
	whole chan struct{} // closed once a whole configuration is in force
	saver *saver        // nil: nothing outlives us

	// Owned by Load, then by Run.
	builder *mesh.Builder
	lost    string // why there is no stream, as it was last logged; empty: there is one

	mu    sync.Mutex       // guards held and stats
	held  map[api.Key]held // what the builder has, written by the owner of builder only
	stats Stats
}

// Stats say how the source is doing.
type Stats struct {
	Connected bool      // a stream is up, and everything that the controller has is in force
	Streams   uint64    // that came so far, the one that is up included
	Failures  uint64    // tries that did not
	Updates   uint64    // pushes that came into force, without the first configuration
	Last      time.Time // when the last one did, or the first configuration
	Problem   string    // why Connected is false, once that is known
}

// New makes a source that publishes to store.
func New(o Options, store *mesh.Store) *Source {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Waiting == nil {
		o.Waiting = func(string) {}
	}
	s := &Source{
		o:       o,
		log:     o.Log.With("controller", o.Addr, "gateway", o.Gateway),
		store:   store,
		whole:   make(chan struct{}),
		builder: mesh.NewBuilder(store),
		held:    make(map[api.Key]held),
	}
	if o.StateDir != "" {
		s.saver = newSaver(s)
	}
	return s
}

// Load brings into force what an earlier run has kept, if there is anything. It
// fails if the state directory cannot be used; what is wrong with the file in it
// is logged, and the controller asked for everything.
func (s *Source) Load() error {
	s.o.Waiting("the controller at " + s.o.Addr + " has not been reached yet")
	if s.saver == nil {
		return nil
	}
	saved, err := s.saver.load()
	switch {
	case errors.Is(err, errNoState):
		return nil
	case errors.Is(err, errBadState):
		s.log.Error("the saved configuration is of no use, so we wait for the controller", "error", err)
		return nil
	case err != nil:
		return err
	}
	s.commit(s.restored(saved))
	if s.isWhole() {
		s.log.Warn("serving the saved configuration until the controller is reached",
			"saved", saved.GetSaved().AsTime().Format(time.RFC3339), "resources", len(saved.GetResources()))
	}
	return nil
}

// Whole returns a channel that is closed once a whole configuration is in force:
// all types, with our Gateway among them.
func (s *Source) Whole() <-chan struct{} { return s.whole }

func (s *Source) isWhole() bool {
	select {
	case <-s.whole:
		return true
	default:
		return false
	}
}

// Stats returns how the source is doing.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// How long to wait until the next try, each time twice as long, half as much more
// or less by chance, so that the waypoints that lost a controller do not come back
// all at once.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 15 * time.Second
)

// Run follows the controller until ctx ends, over any loss of it.
func (s *Source) Run(ctx context.Context) {
	var saver sync.WaitGroup
	saving, end := context.WithCancel(context.WithoutCancel(ctx))
	if s.saver != nil {
		saver.Go(func() { s.saver.run(saving) })
	}
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: firstPause, MaxInterval: longestPause, Multiplier: 2, RandomizationFactor: 0.5,
	}
	// It returns when ctx ends, with the reason for that.
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, s.follow(ctx, pauses.Reset)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(s.disconnected))
	end() // not before: the last change is to be kept too
	saver.Wait()
}

// follow dials, and follows until the connection is lost; a stream that ends
// because our proof is to be renewed is replaced without a pause.
func (s *Source) follow(ctx context.Context, inStep func()) error {
	for {
		if err := s.stream(ctx, inStep); !errors.Is(err, errRenew) {
			return err
		}
		s.log.Debug("the stream is opened anew with a fresh proof of who we are")
	}
}

// disconnected notes why there is no stream. That one ended is no reason for
// alarm: servers end them from time to time, so that clients spread over their
// replicas. A reason that stays the same is logged once.
func (s *Source) disconnected(err error, pause time.Duration) {
	reason := explain(err)
	s.mu.Lock()
	was := s.stats.Connected
	s.stats.Connected, s.stats.Problem = false, reason
	if !was {
		s.stats.Failures++
	}
	s.mu.Unlock()
	if !s.isWhole() {
		s.o.Waiting(reason)
	}
	switch {
	case was:
		s.log.Info("the stream from the controller ended, and is opened anew", "reason", reason, "in", pause)
	case reason == s.lost:
		s.log.Debug("the controller is still away", "next try in", pause)
	default:
		s.lost = reason
		s.log.Warn("no connection to the controller, so the configuration stays as it is", "reason", reason, "next try in", pause)
	}
}

// connected notes that all that the controller has is in force.
func (s *Source) connected() {
	s.mu.Lock()
	s.stats.Connected, s.stats.Problem = true, ""
	s.stats.Streams++
	s.mu.Unlock()
	s.lost = ""
	s.log.Info("in step with the controller", "version", s.store.Load().Version)
}
