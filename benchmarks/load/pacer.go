package load

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// schedule is when the exchanges of an open loop are due: a constant rate from
// a beginning on, whatever happens to them.
type schedule struct {
	start time.Duration
	rate  float64 // a second
}

// due returns when exchange i is to begin. It is computed from the beginning, so
// that no rounding adds up.
func (s schedule) due(i int64) time.Duration {
	return s.start + time.Duration(float64(i)/s.rate*float64(time.Second))
}

// maxBacklog bounds what waits for workers: half a minute at 10,000 a second.
const maxBacklog = 300_000

var errOverload = errors.New("the target is too slow for the rate: too many requests wait to be sent")

// queue hands due exchanges to idle workers, those idle for longest first: load
// spreads over all connections.
type queue struct {
	mu      sync.Mutex
	idle    []*worker       // guarded by mu
	backlog []time.Duration // guarded by mu; due, and no worker was idle
}

// push gives an exchange to a worker, or has it wait. False: too many wait.
func (q *queue) push(b *task.Batch, due time.Duration) bool {
	q.mu.Lock()
	if len(q.idle) == 0 {
		ok := len(q.backlog) < maxBacklog
		if ok {
			q.backlog = append(q.backlog, due)
		}
		q.mu.Unlock()
		return ok
	}
	w := q.idle[0]
	q.idle = q.idle[1:]
	w.due, w.assigned = due, true
	q.mu.Unlock()
	w.task.Wake(b)
	return true
}

// pull returns when the next exchange of w was due. It parks until there is one
// or the run ends (false).
func (q *queue) pull(w *worker) (time.Duration, bool) {
	if due, ok := q.join(w); ok {
		return due, true
	}
	for !w.run.stopping.Load() {
		if due, ok := q.assigned(w); ok {
			return due, true
		}
		if w.task.Park() != nil {
			break
		}
	}
	return 0, false
}

// join takes from the backlog, or makes w idle.
func (q *queue) join(w *worker) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.backlog) > 0 {
		due := q.backlog[0]
		q.backlog = q.backlog[1:]
		return due, true
	}
	q.idle = append(q.idle, w)
	return 0, false
}

func (q *queue) assigned(w *worker) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ok := w.assigned
	w.assigned = false
	return w.due, ok
}

// pace begins exchanges as s says, until the run stops.
func (r *Run) pace(s schedule) {
	for i := int64(0); !r.stopping.Load(); {
		if wait := s.due(i) - r.now(); wait > 0 {
			sleep(wait)
			continue
		}
		r.client.sched.Turn(func(b *task.Batch) {
			for ; s.due(i) <= r.now(); i++ {
				if !r.queue.push(b, s.due(i)) {
					r.recorders[0].failed(errOverload)
				}
			}
		})
	}
}

// sleep blocks the thread that it runs on. Timers of the runtime would be rounded
// up to the millisecond of epoll_wait, as long as the whole interval; this is right
// to a few microseconds. It may end early, or late if the goroutine changes threads
// between the calls: the caller looks at the clock again.
func sleep(d time.Duration) {
	const slack = 1 // ns, for this thread; 50 us otherwise
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0)
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
}
