package task

import (
	"errors"
	"iter"
	"sync/atomic"
	"time"
)

var (
	// ErrDeadline is returned by Park once the task's deadline has passed.
	ErrDeadline = errors.New("deadline passed")
	// ErrStopped is returned by Park when the coroutine is being torn down.
	ErrStopped = errors.New("task stopped")
)

// The states of a coroutine. Whoever moves it from parked to running owns its
// next run; a wake that finds it running leaves a mark instead.
const (
	free    int32 = iota // in the free list, or ended
	parked               // waits for a wake
	running              // queued on a batch or executing
	woken                // running, and woken meanwhile
)

// Task is one run of a Routine. It may be kept as a Waker beyond its end: it is
// reused for other routines, to which a late wake is merely spurious.
type Task struct {
	sched *Scheduler
	state atomic.Int32

	// Owned by the turn that runs the task, handed over through state.
	batch    *Batch
	routine  Routine
	done     bool // the routine returned; set by the coroutine just before it yields
	deadline time.Time
	timer    *time.Timer

	// A coroutine's ends, nil in mode Goroutines.
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	// permit holds the remembered wake in mode Goroutines; nil otherwise.
	permit chan struct{}
}

// Batch returns the batch of the turn that the task runs in. It is another one
// after every Park.
func (t *Task) Batch() *Batch { return t.batch }

// Scheduler returns the scheduler that runs the task.
func (t *Task) Scheduler() *Scheduler { return t.sched }

// Wake makes the task's current or next Park return.
func (t *Task) Wake(b *Batch) {
	if t.permit != nil {
		select {
		case t.permit <- struct{}{}:
		default: // one is waiting already
		}
		return
	}
	for {
		switch s := t.state.Load(); s {
		case parked:
			if t.state.CompareAndSwap(parked, running) {
				b.Add(t)
				return
			}
		case running:
			if t.state.CompareAndSwap(running, woken) {
				return
			}
		default: // ended, or a wake is marked already
			return
		}
	}
}

// Park returns when the task has been woken since the last Park, or with
// ErrDeadline when its deadline has passed. Call it in a loop that checks what
// is waited for.
func (t *Task) Park() error {
	if !t.deadline.IsZero() && !time.Now().Before(t.deadline) {
		return ErrDeadline
	}
	return t.park()
}

func (t *Task) park() error {
	if t.permit != nil {
		t.batch.Run()
		<-t.permit
		return nil
	}
	if !t.yield(struct{}{}) {
		return ErrStopped
	}
	return nil
}

// SetDeadline has Park fail with ErrDeadline from at on. The zero time lifts it.
func (t *Task) SetDeadline(at time.Time) {
	t.deadline = at
	switch {
	case at.IsZero():
		if t.timer != nil {
			t.timer.Stop()
		}
	case t.timer == nil:
		wake := wakeRunnable{t}
		t.timer = time.AfterFunc(time.Until(at), func() { t.sched.enqueue(wake) })
	default:
		t.timer.Reset(time.Until(at))
	}
}

// Deadline returns what SetDeadline has set.
func (t *Task) Deadline() time.Time { return t.deadline }

// Block runs fn, which may block, on a goroutine of its own while the task is
// parked. The deadline does not end it: fn has to keep its own limits.
func (t *Task) Block(fn func()) {
	if t.permit != nil {
		t.batch.Run()
		fn()
		return
	}
	var done atomic.Bool
	go func() {
		defer t.sched.Turn(t.Wake)
		defer done.Store(true)
		fn()
	}()
	for !done.Load() {
		if t.park() != nil {
			return
		}
	}
}

// newCoroutine returns a task whose coroutine runs routine after routine.
func newCoroutine(s *Scheduler) *Task {
	t := &Task{sched: s}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		for {
			guard(t, t.routine)
			t.done = true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return t
}

// RunIn resumes the coroutine. The caller owns the run: it, or the wake that
// queued it, moved the state to running.
func (t *Task) RunIn(b *Batch) {
	for {
		t.batch = b
		t.next()
		if t.done {
			t.finish()
			return
		}
		if t.state.CompareAndSwap(running, parked) {
			return // t belongs to the next wake: not a field is touched after this
		}
		t.state.Store(running) // it was woken while it ran: once more
	}
}

// finish puts the coroutine back for reuse.
func (t *Task) finish() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.done, t.routine, t.batch, t.deadline = false, nil, nil, time.Time{}
	t.state.Store(free)
	if !t.sched.putFree(t) {
		t.stop()
	}
}

// startGoroutine runs r on a goroutine of its own.
func startGoroutine(s *Scheduler, r Routine) {
	t := &Task{sched: s, permit: make(chan struct{}, 1), batch: s.NewBatch()}
	go func() {
		guard(t, r)
		if t.timer != nil {
			t.timer.Stop()
		}
		t.batch.Run()
	}()
}
