package h2

import (
	"io"
	"sync/atomic"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Ride has c, whose transport is s, live in a stream of another connection: it
// becomes the waker of s and pushes what arrives into c. It stands in for
// [Conn.Start]. The connection needs no goroutine of its own: it runs in the
// turns of the one that carries s.
//
// What arrives is consumed at once, so the credit of the outer stream follows
// receipt; back-pressure comes from the windows of c's own streams. When what
// carries s is going away, c drains.
func Ride(b *task.Batch, c *Conn, s task.Stream) {
	r := &rider{c: c, s: s}
	s.SetWaker(r)
	c.begin(b)
	r.Wake(b) // for what was there before
}

// The states of a rider. One turn runs it; a wake meanwhile leaves a mark.
const (
	riderIdle int32 = iota
	riderQueued
	riderRunning
	riderWoken
)

type rider struct {
	c     *Conn
	s     task.Stream
	state atomic.Int32
	ended bool // owned by the turn that runs it
}

// Wake has the rider run later in the turn.
func (r *rider) Wake(b *task.Batch) {
	for {
		switch r.state.Load() {
		case riderIdle:
			if r.state.CompareAndSwap(riderIdle, riderQueued) {
				b.Add(r)
				return
			}
		case riderRunning:
			if r.state.CompareAndSwap(riderRunning, riderWoken) {
				return
			}
		default:
			return
		}
	}
}

// RunIn moves what has arrived, and has the connection flushed if it waits for
// space.
func (r *rider) RunIn(b *task.Batch) {
	for {
		r.state.Store(riderRunning)
		r.move(b)
		if r.state.CompareAndSwap(riderRunning, riderIdle) {
			return
		}
	}
}

func (r *rider) move(b *task.Batch) {
	b.Touch(r.c)
	for !r.ended {
		end := r.s.ReadErr()
		if p := r.s.Peek(); len(p) > 0 {
			_ = r.c.Receive(b, p) // it ends the transport itself if it has to
			r.s.Discard(b, len(p))
			continue
		}
		if end == nil {
			if task.GoingAway(r.s) {
				r.c.Drain(b)
			}
			return
		}
		r.ended = true
		if end == io.EOF {
			end = nil
		}
		r.c.Closed(b, end)
		r.s.Done(b)
	}
}
