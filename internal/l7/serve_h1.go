package l7

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// The states of an HTTP/1 connection. Whoever moves it from idle to busy owns it.
const (
	connIdle  int32 = iota
	connBusy        // a task serves it
	connWoken       // busy, and something happened meanwhile
	connEnded
)

// conn is one HTTP/1 connection from a client. While it is idle it is its own
// waker and owns nothing; a request starts a task, which serves as many requests
// as are at hand and goes.
type conn struct {
	fw        *Forwarder
	in        Inbound
	known     bool        // that it is HTTP/1; owned by who owns the connection
	served    atomic.Bool // it has carried a request
	state     atomic.Int32
	idleSince atomic.Int64 // nanoseconds; meaningful while idle
}

// Wake starts a task if nobody serves the connection.
func (c *conn) Wake(b *task.Batch) {
	for {
		switch s := c.state.Load(); s {
		case connIdle:
			if c.state.CompareAndSwap(connIdle, connBusy) {
				c.fw.sched.Start(b, c)
				return
			}
		case connBusy:
			if c.state.CompareAndSwap(connBusy, connWoken) {
				return
			}
		default:
			return
		}
	}
}

// Run serves requests until there is none at hand.
func (c *conn) Run(t *task.Task) {
	c.idleSince.Store(math.MaxInt64)
	e := newExchange(c.fw, t, &c.in)
	defer e.free()
	rests := false
	defer func() {
		if !rests { // also when a panic passes through here
			c.end(t.Batch())
		}
	}()
	for {
		c.in.Stream.SetWaker(t)
		if !c.known && c.readable() {
			if rests = c.detect(t); rests {
				return
			}
		}
		for c.readable() {
			if !e.serveH1() {
				return
			}
			c.served.Store(true)
		}
		if c.drained() {
			return
		}
		if rests = c.rest(); rests {
			return
		}
	}
}

// readable reports whether there are bytes, or an end, to deal with.
func (c *conn) readable() bool {
	return c.in.Stream.ReadErr() != nil || len(c.in.Stream.Peek()) > 0
}

// preface is how a client begins that speaks HTTP/2 without having asked (RFC
// 9113 3.4). No HTTP/1 request begins like this.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// detect hands the stream over if it begins as HTTP/2 does, whatever the port is
// declared to be: what the client speaks is the client's choice.
func (c *conn) detect(t *task.Task) (handed bool) {
	t.SetDeadline(time.Now().Add(c.fw.limits.HeadTimeout))
	defer t.SetDeadline(time.Time{})
	for {
		p := c.in.Stream.Peek()
		n := min(len(p), len(preface))
		if string(p[:n]) != preface[:n] {
			c.known = true
			return false
		}
		if n == len(preface) {
			c.state.Store(connEnded)
			c.fw.forget(c)
			c.fw.serveH2(t.Batch(), c.in)
			return true
		}
		if task.ReadMore(t, c.in.Stream, len(p)) != nil {
			c.known = true // whatever it is, it is not a request: serveH1 will say so
			return false
		}
	}
}

// rest makes the connection idle, unless there is something to do already. The
// caller owns it until rest has returned true.
func (c *conn) rest() bool {
	c.in.Stream.SetWaker(c)
	if c.readable() {
		c.state.Store(connBusy)
		return false
	}
	c.idleSince.Store(time.Now().UnixNano())
	if !c.state.CompareAndSwap(connBusy, connIdle) {
		c.state.Store(connBusy)
		return false
	}
	// Drain may have passed by while we were busy.
	return !c.drained() || !c.state.CompareAndSwap(connIdle, connBusy)
}

// drained reports whether the connection is to end when idle, with the proxy or
// with its tunnel. One that has not carried a request is about to: it was opened
// for that.
func (c *conn) drained() bool {
	return c.served.Load() && (c.fw.draining.Load() || task.GoingAway(c.in.Stream))
}

// end closes our side and waits, without a task, for the client to close its own.
func (c *conn) end(b *task.Batch) {
	c.state.Store(connEnded)
	c.fw.forget(c)
	linger(c.fw.sched, b, c.in.Stream)
}

// drain closes the connection if it is idle; else whoever serves it will.
func (c *conn) drain(b *task.Batch) {
	if c.served.Load() {
		c.endIdle(b)
	}
}

// endIfIdle closes the connection if it has been idle since before then.
func (c *conn) endIfIdle(b *task.Batch, then int64) {
	if c.idleSince.Load() < then {
		c.endIdle(b)
	}
}

func (c *conn) endIdle(b *task.Batch) {
	if c.state.CompareAndSwap(connIdle, connBusy) {
		c.end(b)
	}
}
