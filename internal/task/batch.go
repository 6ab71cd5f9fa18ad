package task

import (
	"slices"
	"sync"
)

// Waker is told that something it waits for may have changed: bytes arrived, a
// peer closed, space to write, a dial finished, time passed.
//
// Wake only enqueues work on b. It is called after the news is visible and with
// no lock held. Wakes may be spurious; whoever is woken checks again.
type Waker interface {
	Wake(b *Batch)
}

// Runnable is work that waits for the end of a turn.
type Runnable interface {
	RunIn(b *Batch)
}

// Flusher has output that is sent once at the end of a turn.
type Flusher interface {
	// Flush sends what is buffered, without blocking.
	Flush(b *Batch)
	// Depth is 0 for what writes to a socket and one more for what writes into
	// a stream of a Flusher. The deepest is flushed first, so that its bytes
	// leave with the connection that carries them.
	Depth() int
}

const (
	// maxDepth: a tunnel (0), HTTP/2 inside it (1), CONNECT inside that (2).
	maxDepth = 3
	// spreadAbove is how many ready runnables one turn keeps to itself. The
	// rest is offered to the workers, so that one busy connection does not pin
	// all its exchanges to one core.
	spreadAbove = 16
	// keepCap bounds the slices that a batch keeps between turns.
	keepCap = 1024
)

// Batch is one turn of one goroutine: what became ready in it and whom it wrote
// to. Only the goroutine whose turn it is may use it.
type Batch struct {
	sched   *Scheduler
	ready   []Runnable
	touched [maxDepth][]Flusher
}

// Add has r run later in this turn.
func (b *Batch) Add(r Runnable) { b.ready = append(b.ready, r) }

// Touch has f flushed at the end of this turn. Touching again is cheap.
func (b *Batch) Touch(f Flusher) {
	list := b.touched[min(f.Depth(), maxDepth-1)]
	// A look at the last few catches nearly all repeats; one that slips
	// through costs a flush of nothing.
	if slices.Contains(list[max(0, len(list)-4):], f) {
		return
	}
	b.touched[min(f.Depth(), maxDepth-1)] = append(list, f)
}

// Run resumes what is ready and flushes what was touched until nothing is left.
// The owner of the turn calls it once, when all that arrived has been parsed.
func (b *Batch) Run() {
	for {
		b.runReady()
		f := b.nextFlush()
		if f == nil {
			break
		}
		f.Flush(b)
	}
	if cap(b.ready) > keepCap {
		b.ready = nil
	}
}

func (b *Batch) runReady() {
	if extra := len(b.ready) - spreadAbove; extra > 0 && b.sched.parallel {
		b.sched.enqueue(b.ready[spreadAbove:]...)
		clear(b.ready[spreadAbove:])
		b.ready = b.ready[:spreadAbove]
	}
	for i := 0; i < len(b.ready); i++ { // grows while it runs
		r := b.ready[i]
		b.ready[i] = nil
		r.RunIn(b)
	}
	b.ready = b.ready[:0]
}

// nextFlush takes the deepest touched flusher off its list.
func (b *Batch) nextFlush() Flusher {
	for d := maxDepth - 1; d >= 0; d-- {
		list := b.touched[d]
		if n := len(list); n > 0 {
			f := list[n-1]
			list[n-1] = nil
			b.touched[d] = list[:n-1]
			return f
		}
	}
	return nil
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

func (s *Scheduler) getBatch() *Batch {
	b := batches.Get().(*Batch)
	b.sched = s
	return b
}

func putBatch(b *Batch) {
	b.sched = nil
	batches.Put(b)
}
