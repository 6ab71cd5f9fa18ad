package l4

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// progressEvery is how often open connections report what they have carried:
// Istio's default reporting interval of TCP metrics.
const progressEvery = 5 * time.Second

// registry knows the connections that are open, so that they can be woken when
// policy changes and when it is time to report.
type registry struct {
	sched *task.Scheduler
	round atomic.Uint64 // grows with every reporting interval

	mu    sync.Mutex // guards tasks and timed
	tasks map[*task.Task]struct{}
	timed bool // the next interval is scheduled
}

func (r *registry) init(s *task.Scheduler) {
	r.sched, r.tasks = s, map[*task.Task]struct{}{}
}

// add returns the current round.
func (r *registry) add(t *task.Task) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[t] = struct{}{}
	r.schedule()
	return r.round.Load()
}

func (r *registry) remove(t *task.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, t)
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tasks)
}

// Wake wakes all open connections.
func (r *registry) Wake(b *task.Batch) {
	r.mu.Lock()
	open := make([]*task.Task, 0, len(r.tasks))
	for t := range r.tasks {
		open = append(open, t)
	}
	r.mu.Unlock()
	for _, t := range open {
		t.Wake(b)
	}
}

// schedule has the next interval timed while there is a connection. The caller
// holds mu.
func (r *registry) schedule() {
	if !r.timed && len(r.tasks) > 0 {
		r.timed = true
		r.sched.After(progressEvery, (*interval)(r))
	}
}

// interval is the timer's view of a registry.
type interval registry

// Wake begins the next round.
func (i *interval) Wake(b *task.Batch) {
	r := (*registry)(i)
	r.round.Add(1)
	r.Wake(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timed = false
	r.schedule()
}
