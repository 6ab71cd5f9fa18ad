package task

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// Mode says what a task runs on.
type Mode int

const (
	// Coroutines are resumed on the goroutine that woke them.
	Coroutines Mode = iota
	// Goroutines give every task a goroutine of its own.
	Goroutines
)

// String names the mode as the command line does.
func (m Mode) String() string {
	if m == Goroutines {
		return "goroutines"
	}
	return "coroutines"
}

// maxFree bounds the coroutines kept for reuse: about 2 MiB of stacks at worst.
const maxFree = 256

// Scheduler starts tasks and runs turns that no reader owns.
type Scheduler struct {
	mode       Mode
	maxWorkers int
	parallel   bool

	mu      sync.Mutex
	free    []*Task    // guarded by mu; idle coroutines
	closed  bool       // guarded by mu; no coroutine is kept any more
	queue   []Runnable // guarded by mu; bounded by the number of tasks, timers and wakers alive
	workers int        // guarded by mu; goroutines in work
}

// NewScheduler returns a scheduler that runs tasks in mode.
func NewScheduler(mode Mode) *Scheduler {
	procs := runtime.GOMAXPROCS(0)
	return &Scheduler{mode: mode, maxWorkers: procs, parallel: procs > 1}
}

// Mode returns what tasks run on.
func (s *Scheduler) Mode() Mode { return s.mode }

// Close ends the idle coroutines. Tasks that still run end on their own, and
// their coroutines with them.
func (s *Scheduler) Close() {
	s.mu.Lock()
	free := s.free
	s.free, s.closed = nil, true
	s.mu.Unlock()
	for _, t := range free {
		t.stop()
	}
}

// Routine is the code of a task.
type Routine interface {
	Run(t *Task)
}

// RoutineFunc makes a function a Routine.
type RoutineFunc func(t *Task)

// Run calls f.
func (f RoutineFunc) Run(t *Task) { f(t) }

// Start runs r as a new task, later in the turn b.
//
// A panic in r is logged with its stack and ends the task alone: r's deferred
// calls have to leave what it held in order.
func (s *Scheduler) Start(b *Batch, r Routine) {
	if s.mode == Goroutines {
		startGoroutine(s, r)
		return
	}
	t := s.takeFree()
	if t == nil {
		t = newCoroutine(s)
	}
	t.routine = r
	t.state.Store(running)
	b.Add(t)
}

// Turn runs fn as a turn of the calling goroutine, and everything that it made
// ready. It is for callers that no reader's turn covers.
func (s *Scheduler) Turn(fn func(b *Batch)) {
	b := s.getBatch()
	fn(b)
	b.Run()
	putBatch(b)
}

// NewBatch returns the batch of a goroutine that works in turns, as a reader
// does. The goroutine calls Run at the end of each.
func (s *Scheduler) NewBatch() *Batch { return &Batch{sched: s} }

// Go runs fn as a turn on one of a bounded number of workers. fn must not block.
func (s *Scheduler) Go(fn func(b *Batch)) { s.enqueue(runnableFunc(fn)) }

type runnableFunc func(b *Batch)

func (f runnableFunc) RunIn(b *Batch) { f(b) }

func (s *Scheduler) enqueue(rs ...Runnable) {
	s.mu.Lock()
	s.queue = append(s.queue, rs...)
	start := s.workers < s.maxWorkers
	if start {
		s.workers++
	}
	s.mu.Unlock()
	if start {
		go s.work()
	}
}

// work takes runnables, a few a turn, until there are none.
func (s *Scheduler) work() {
	b := s.NewBatch()
	for s.fill(b) {
		b.Run()
	}
}

func (s *Scheduler) fill(b *Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), spreadAbove)
	if n == 0 {
		s.workers--
		if cap(s.queue) > keepCap {
			s.queue = nil
		}
		return false
	}
	b.ready = append(b.ready, s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	return true
}

// Timer is a wake in the future.
type Timer struct{ t *time.Timer }

// After wakes w in a turn of its own once d has passed.
func (s *Scheduler) After(d time.Duration, w Waker) *Timer {
	r := wakeRunnable{w}
	return &Timer{time.AfterFunc(d, func() { s.enqueue(r) })}
}

// Stop prevents the wake unless it is on its way already.
func (t *Timer) Stop() { t.t.Stop() }

// Reset has the timer fire d from now.
func (t *Timer) Reset(d time.Duration) { t.t.Reset(d) }

type wakeRunnable struct{ w Waker }

func (r wakeRunnable) RunIn(b *Batch) { r.w.Wake(b) }

func (s *Scheduler) takeFree() *Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	t := s.free[n-1]
	s.free[n-1] = nil
	s.free = s.free[:n-1]
	return t
}

// putFree keeps t for reuse and reports whether it did.
func (s *Scheduler) putFree(t *Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.free) >= maxFree {
		return false
	}
	s.free = append(s.free, t)
	return true
}

// guard runs r and keeps its panic from ending the process.
func guard(t *Task, r Routine) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("panic in an exchange: it was ended, the connection lives on", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	r.Run(t)
}
