package hbone

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// serverConn is one connection of a Server. It is the h2.Handler of its
// connection.
type serverConn struct {
	server      *Server
	conn        *wire.Conn
	h2          *h2.Conn
	peer        identity.ID
	addr, local netip.AddrPort
	accepted    atomic.Int64 // streams ever

	mu    sync.Mutex
	ended bool        // guarded by mu; no timer is set any more
	age   *task.Timer // guarded by mu, as those below; nil: not set
	idle  *task.Timer
	final *task.Timer
}

func newServerConn(s *Server, conn *wire.Conn, peer identity.ID) *serverConn {
	c := &serverConn{server: s, conn: conn, peer: peer, addr: conn.RemoteAddr(), local: conn.LocalAddr()}
	c.h2 = h2.NewServer(conn, h2.Config{
		Scheduler:            s.config.Scheduler,
		MaxConcurrentStreams: s.config.MaxStreams,
		MaxHeaderBytes:       maxConnectHeader,
		Budget:               s.config.Budget,
	}, c)
	return c
}

func (c *serverConn) start(b *task.Batch) {
	c.h2.Start(b)
	if age := c.server.config.MaxAge; age > 0 {
		jitter := time.Duration((rand.Float64() - 0.5) * 0.2 * float64(age))
		c.set(&c.age, age+jitter, wakerFunc(c.drain))
	}
	if idle := c.server.config.IdleTimeout; idle > 0 {
		c.set(&c.idle, idle, &idleWatch{c: c})
	}
}

// idleWatch drains a connection that has no stream when the timer fires, and had
// none since it was set: no more were accepted.
type idleWatch struct {
	c        *serverConn
	accepted int64 // when the timer was set; owned by the timer's turn
}

func (w *idleWatch) Wake(b *task.Batch) {
	now := w.c.accepted.Load()
	if now == w.accepted && w.c.h2.Streams() == 0 {
		w.c.drain(b)
		return
	}
	w.accepted = now
	w.c.set(&w.c.idle, w.c.server.config.IdleTimeout, w)
}

// wakerFunc makes a function a task.Waker, for timers.
type wakerFunc func(b *task.Batch)

func (f wakerFunc) Wake(b *task.Batch) { f(b) }

// set has t wake w once d has passed, unless the connection has ended.
func (c *serverConn) set(t **task.Timer, d time.Duration, w task.Waker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
	case *t == nil:
		*t = c.server.config.Scheduler.After(d, w)
	default:
		(*t).Reset(d)
	}
}

// stop ends the timers.
func (c *serverConn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, t := range []*task.Timer{c.age, c.idle, c.final} {
		if t != nil {
			t.Stop()
		}
	}
}

func (c *serverConn) drain(b *task.Batch) {
	if c.h2.Draining() {
		return
	}
	c.h2.Drain(b)
	c.set(&c.final, drainGrace, wakerFunc(c.h2.DrainFinal))
}

func (c *serverConn) cut(b *task.Batch) {
	c.h2.Close(b, h2.InternalError, "shutting down: the time to drain is over")
}

// Changed implements h2.Handler: there is nothing to do about a client's goodbye.
func (c *serverConn) Changed(*task.Batch, *h2.Conn) {}

// Accept implements h2.Handler.
func (c *serverConn) Accept(b *task.Batch, hs *h2.Stream) {
	head := hs.Head()
	if head.TooLarge {
		reject(b, hs, 431)
		return
	}
	if head.Method != "CONNECT" || head.Protocol != "" {
		reject(b, hs, 404) // a tunnel serves nothing but CONNECT
		return
	}
	target, err := ParseTarget(head.Authority)
	if err != nil {
		reject(b, hs, 400)
		return
	}
	s := &Stream{Target: target, Peer: c.peer, PeerAddr: c.addr, LocalAddr: c.local, s: hs}
	s.takeFields(head.Fields)
	hs.NextHead()
	c.accepted.Add(1)
	c.server.stats.streams.Add(1)
	c.server.handler.Accept(b, s)
}

// takeFields keeps the fields that mean something. Their strings outlive the
// head.
func (s *Stream) takeFields(fields []Field) {
	for _, f := range fields {
		switch f.Name {
		case "baggage":
			if s.Baggage != "" {
				s.Baggage += ","
			}
			s.Baggage += f.Value
		case "forwarded":
			if s.Forwarded == "" {
				s.Forwarded = f.Value
			}
		case "traceparent":
			s.Traceparent = f.Value
		}
	}
}
