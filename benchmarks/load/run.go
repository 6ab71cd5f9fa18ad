package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Run is a load under way.
type Run struct {
	client    *Client
	spec      Spec
	began     time.Time
	tunnels   []*tunnel
	recorders []*recorder
	queue     queue
	left      atomic.Int64 // exchanges of Each that have not begun
	stopping  atomic.Bool

	opening sync.WaitGroup // connections that are not open yet
	workers sync.WaitGroup // what has to end before the run has
	mu      sync.Mutex
	failure error // guarded by mu; why a connection could not be opened
}

// Start opens all connections of spec and begins. The caller stops the run.
func (c *Client) Start(ctx context.Context, spec Spec) (*Run, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Run{client: c, spec: spec, began: time.Now()}
	if r.tunnels, err = c.tunnels(ctx, spec.Tunnels); err != nil {
		return nil, err
	}
	for _, t := range r.tunnels {
		r.recorders = append(r.recorders, t.rec)
		r.opening.Add(spec.Conns)
		c.sched.Turn(func(b *task.Batch) { r.open(b, t) })
	}
	if err := r.waitOpen(ctx); err != nil {
		r.Stop()
		return nil, err
	}
	if spec.Rate > 0 {
		r.workers.Go(func() { r.pace(schedule{r.now(), spec.Rate}) })
	}
	return r, nil
}

// open begins every connection of a tunnel.
func (r *Run) open(b *task.Batch, t *tunnel) {
	for range r.spec.Conns {
		r.workers.Add(1)
		r.client.sched.Start(b, r.connection(t))
	}
}

// openTimeout bounds how long all connections of a run may take.
const openTimeout = 60 * time.Second

func (r *Run) waitOpen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	all := make(chan struct{})
	go func() {
		r.opening.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
		return fmt.Errorf("opening %d connections in %d tunnels: %w", r.spec.Conns, r.spec.Tunnels, ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// opened is told how the opening of a connection went.
func (r *Run) opened(err error) {
	r.mu.Lock()
	r.failure = errors.Join(r.failure, err)
	r.mu.Unlock()
	r.opening.Done()
}

func (r *Run) now() time.Duration { return time.Since(r.began) }

// Measure returns what is completed in d from now.
func (r *Run) Measure(ctx context.Context, d time.Duration) (*Sample, error) {
	r.take()
	start := r.now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := r.take()
	s.Elapsed = r.now() - start
	return s, nil
}

// take returns what was recorded since it was last called.
func (r *Run) take() *Sample {
	s := NewSample()
	for _, rec := range r.recorders {
		rec.take(s)
	}
	return s
}

// Each has every worker of a Held run do one exchange, atOnce of them at a time,
// and returns when all are done.
func (r *Run) Each(ctx context.Context, atOnce int) (*Sample, error) {
	r.take()
	start, n, s := r.now(), int64(r.spec.workers()), NewSample()
	first := min(int64(atOnce), n)
	r.left.Store(n - first)
	r.client.sched.Turn(func(b *task.Batch) {
		for range first {
			r.queue.push(b, start)
		}
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Requests+s.Errors < n {
		select {
		case <-tick.C:
			s.Merge(r.take())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.Elapsed = r.now() - start
	return s, nil
}

// next begins another exchange of Each in place of one that has ended.
func (r *Run) next(b *task.Batch) {
	if r.spec.Held && r.left.Add(-1) >= 0 {
		r.queue.push(b, r.now())
	}
}

// Stop ends the load and closes its tunnels.
func (r *Run) Stop() {
	r.stopping.Store(true)
	for _, t := range r.tunnels {
		r.client.close(t)
	}
	r.client.sched.Turn(r.queue.wakeAll)
	r.workers.Wait()
}

// wakeAll has idle workers see that the run stops.
func (q *queue) wakeAll(b *task.Batch) {
	q.mu.Lock()
	idle := q.idle
	q.idle = nil
	q.mu.Unlock()
	for _, w := range idle {
		w.task.Wake(b)
	}
}
