// Package flowtest helps to test what fills flows in: a [Recorder] stands where
// metrics, log and traces stand in the product, and keeps what it is told.
package flowtest

import (
	"context"
	"sync"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// Recorder is a [flow.Observer] that keeps a copy of every flow that is done.
// The zero value is ready to use, from several goroutines.
type Recorder struct {
	mu      sync.Mutex
	started int
	done    []*flow.Flow
	changed chan struct{} // closed at the next Done, for those that wait
}

// Start implements [flow.Observer].
func (r *Recorder) Start(*flow.Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
}

// Progress implements [flow.Observer].
func (*Recorder) Progress(*flow.Flow) {}

// Done implements [flow.Observer].
func (r *Recorder) Done(f *flow.Flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, f.Clone())
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Open returns how many flows were started and are not done.
func (r *Recorder) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started - len(r.done)
}

// Flows returns the flows that are done, in the order in which they ended.
func (r *Recorder) Flows() []*flow.Flow {
	flows, _ := r.look()
	return flows
}

// Wait returns the flows that are done once there are n of them, or what there
// is and the error of ctx.
func (r *Recorder) Wait(ctx context.Context, n int) ([]*flow.Flow, error) {
	for {
		flows, changed := r.look()
		if len(flows) >= n {
			return flows, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return flows, context.Cause(ctx)
		}
	}
}

func (r *Recorder) look() (flows []*flow.Flow, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.done[:len(r.done):len(r.done)], r.changed
}
