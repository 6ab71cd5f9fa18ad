package l7

import (
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// finalAfter is how long a client may take to learn that we drain: what it sends
// meanwhile is served.
const finalAfter = time.Second

// h2Server is an HTTP/2 connection from a client, inside a tunnel's stream. It is
// the connection's handler: every request becomes a task.
type h2Server struct {
	fw       *Forwarder
	in       Inbound
	conn     *h2.Conn
	lastUsed atomic.Int64 // nanoseconds
	leaving  atomic.Bool  // the last GOAWAY is scheduled
}

// serveH2 takes over a stream on which HTTP/2 is spoken.
func (fw *Forwarder) serveH2(b *task.Batch, in Inbound) {
	s := &h2Server{fw: fw, in: in}
	s.lastUsed.Store(time.Now().UnixNano())
	s.conn = h2.NewServer(in.Stream, fw.h2Config(fw.limits.MaxHeaderBytes), s)
	fw.remember(s)
	h2.Ride(b, s.conn, in.Stream)
	if fw.draining.Load() {
		s.drain(b)
	}
}

// h2Config is that of a connection inside a tunnel, which takes heads of so many
// bytes.
func (fw *Forwarder) h2Config(maxHead int) h2.Config {
	return h2.Config{
		Scheduler: fw.sched, Depth: 1, ExtendedConnect: true, Budget: fw.budget,
		MaxHeaderBytes: maxHead, MaxHeaderFields: fw.limits.MaxHeaders,
	}
}

// Accept starts an exchange.
func (s *h2Server) Accept(b *task.Batch, stream *h2.Stream) {
	e := newExchange(s.fw, nil, &s.in)
	e.server, e.h2down.s = s, stream
	s.fw.sched.Start(b, e)
}

// Changed forgets the connection when it has ended. When it begins to drain, as it
// also does with its tunnel, the second of two steps is scheduled, so that no request
// is lost that was on its way (RFC 9113 6.8).
func (s *h2Server) Changed(_ *task.Batch, c *h2.Conn) {
	switch {
	case c.Err() != nil:
		s.fw.forget(s)
	case c.Draining() && !s.leaving.Swap(true):
		s.fw.sched.After(finalAfter, (*finalDrain)(s))
	}
}

// Run serves the request of one HTTP/2 stream.
func (e *exchange) Run(t *task.Task) {
	e.t = t
	s := e.h2down.s
	s.SetWaker(t)
	defer e.free()
	defer func() { s.Done(t.Batch()) }()
	e.down = &e.h2down
	e.h2down.ended, e.h2down.arena = false, &e.arena
	e.flow.Protocol = "HTTP/2"
	if reply := e.h2down.request(&e.req); reply != nil {
		e.refuse(reply)
	} else {
		e.run()
	}
	e.server.lastUsed.Store(time.Now().UnixNano())
}

// drain ends the connection once its requests are served.
func (s *h2Server) drain(b *task.Batch) { s.conn.Drain(b) }

// endIfIdle drains a connection without a request for too long.
func (s *h2Server) endIfIdle(b *task.Batch, since int64) {
	if s.conn.Streams() == 0 && s.lastUsed.Load() < since {
		s.drain(b)
	}
}

// finalDrain is the timer's view of a connection that drains.
type finalDrain h2Server

// Wake sends the last GOAWAY.
func (s *finalDrain) Wake(b *task.Batch) { s.conn.DrainFinal(b) }
