package control

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
)

const (
	// askRate is how many requests a second ask for the version: the resolution.
	askRate = 1000
	// editWait is how long a change may take until the run is given up.
	editWait = 10 * time.Second
	// editGoal is for the 99th percentile, in ms.
	editGoal = 30
)

// sighting is when a version of the route was seen first.
type sighting struct {
	mu   sync.Mutex
	at   map[int]time.Time
	last int
	news chan struct{} // holds one
}

func newSighting() *sighting {
	return &sighting{at: make(map[int]time.Time), last: -1, news: make(chan struct{}, 1)}
}

// note takes a version that was seen now. What is not a number is none.
func (s *sighting) note(version string) {
	n, err := strconv.Atoi(version)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || n <= s.last {
		return
	}
	s.last, s.at[n] = n, now
	select {
	case s.news <- struct{}{}:
	default: // there is word already
	}
}

// wait returns when a version was seen.
func (s *sighting) wait(ctx context.Context, n int) (time.Time, error) {
	late := time.NewTimer(editWait)
	defer late.Stop()
	for {
		s.mu.Lock()
		at, seen := s.at[n]
		s.mu.Unlock()
		if seen {
			return at, nil
		}
		select {
		case <-s.news:
		case <-late.C:
			return at, fmt.Errorf("change %d was not seen within %v", n, editWait)
		case <-ctx.Done():
			return at, ctx.Err()
		}
	}
}

// edits changes a route and measures each time from the watch event to the data
// path.
func (b *bench) edits(ctx context.Context) error {
	watched, live := newSighting(), newSighting()
	w, err := b.server.Client.Watch(ctx, &gatewayv1.HTTPRouteList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": "version"})
	if err != nil {
		return err
	}
	defer w.Stop()
	go follow(w, watched)
	run, err := load.NewClient(b.running.HBONE, b.client).Start(ctx, load.Spec{
		Target: net.JoinHostPort(b.vip, strconv.Itoa(port)), Conns: 4, Path: "/version", Rate: askRate,
		Answer: func(body []byte) { live.note(string(body)) },
	})
	if err != nil {
		return err
	}
	defer run.Stop()
	var fromWatch, fromEdit []time.Duration
	for n := 1; n <= b.o.Edits; n++ {
		began := time.Now()
		if err := b.edit(ctx, n); err != nil {
			return err
		}
		atWatch, err := watched.wait(ctx, n)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		atLive, err := live.wait(ctx, n)
		if err != nil {
			return fmt.Errorf("waypoint: %w", err)
		}
		fromWatch = append(fromWatch, max(0, atLive.Sub(atWatch))) // the watch may come later
		fromEdit = append(fromEdit, atLive.Sub(began))
	}
	b.found(
		info("a route's change live after the watch event, p50", percentile(fromWatch, 50), "ms"),
		goal("a route's change live after the watch event, p99", percentile(fromWatch, 99), "ms", editGoal),
		info("the same from before the request to the API server, p50", percentile(fromEdit, 50), "ms"),
		info("the same from before the request to the API server, p99", percentile(fromEdit, 99), "ms"),
	)
	return nil
}

// edit gives the route its nth version. Others write its status meanwhile, which
// does not conflict with a patch.
func (b *bench) edit(ctx context.Context, n int) error {
	before := versioned(n - 1)
	return b.server.Client.Patch(ctx, versioned(n), client.MergeFrom(before))
}

// follow notes the versions that a watch shows, until it ends.
func follow(w watch.Interface, s *sighting) {
	for e := range w.ResultChan() {
		if r, ok := e.Object.(*gatewayv1.HTTPRoute); ok {
			s.note(r.Spec.Rules[0].Filters[0].RequestHeaderModifier.Set[0].Value)
		}
	}
}

// percentile of durations, in ms.
func percentile(times []time.Duration, p int) float64 {
	slices.Sort(times)
	return times[len(times)*p/100].Seconds() * 1e3
}
