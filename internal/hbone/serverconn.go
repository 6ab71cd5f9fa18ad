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

	mu     sync.Mutex
	timers []*task.Timer // guarded by mu; all that may still fire
	ended  bool          // guarded by mu
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
		c.after(age+jitter, c.drain)
	}
	if c.server.config.IdleTimeout > 0 {
		c.watchIdle(0)
	}
}

// watchIdle drains the connection if it has no stream at the end of the idle
// timeout, and had none meanwhile: as many were accepted as at its start.
func (c *serverConn) watchIdle(accepted int64) {
	c.after(c.server.config.IdleTimeout, func(b *task.Batch) {
		if now := c.accepted.Load(); now != accepted || c.h2.Streams() > 0 {
			c.watchIdle(now)
			return
		}
		c.drain(b)
	})
}

// wakerFunc makes a function a task.Waker, for timers.
type wakerFunc func(b *task.Batch)

func (f wakerFunc) Wake(b *task.Batch) { f(b) }

// after runs fn in a turn once d has passed, unless the connection has ended.
func (c *serverConn) after(d time.Duration, fn func(b *task.Batch)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.timers = append(c.timers, c.server.config.Scheduler.After(d, wakerFunc(fn)))
	}
}

// stop ends the timers.
func (c *serverConn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, t := range c.timers {
		t.Stop()
	}
}

func (c *serverConn) drain(b *task.Batch) {
	if c.h2.Draining() {
		return
	}
	c.h2.Drain(b)
	c.after(drainGrace, c.h2.DrainFinal)
}

func (c *serverConn) cut(b *task.Batch) {
	c.h2.Close(b, h2.InternalError, "shutting down: the time to drain is over")
}

// Changed implements h2.Handler: a client that says goodbye needs no answer.
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
