package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Handshakes limits how many TLS handshakes compute at a time, so that a storm of
// new connections leaves the open ones a core. A handshake that waits for its
// peer does not count: nobody can use up the limit by being slow.
type Handshakes struct{ slots chan struct{} }

// NewHandshakes allows n at a time; for 0 half of the cores, at least one.
func NewHandshakes(n int) *Handshakes {
	if n <= 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return &Handshakes{slots: make(chan struct{}, n)}
}

// Server does the handshake of an accepted connection. It blocks until ctx ends
// at the latest, and closes tcp if it fails.
func Server(ctx context.Context, s *task.Scheduler, tcp *net.TCPConn, config *tls.Config, limit *Handshakes, o Options) (*Conn, error) {
	return shake(ctx, s, tcp, config, tls.Server, limit, o)
}

// Client does the handshake of a dialled connection. It blocks until ctx ends at
// the latest, and closes tcp if it fails.
func Client(ctx context.Context, s *task.Scheduler, tcp *net.TCPConn, config *tls.Config, limit *Handshakes, o Options) (*Conn, error) {
	return shake(ctx, s, tcp, config, tls.Client, limit, o)
}

func shake(ctx context.Context, s *task.Scheduler, tcp *net.TCPConn, config *tls.Config,
	side func(net.Conn, *tls.Config) *tls.Conn, limit *Handshakes, o Options,
) (*Conn, error) {
	c, err := Plain(s, tcp, o)
	if err == nil {
		below := &socket{Conn: tcp, c: c, ctx: ctx, limit: limit}
		c.tls = side(below, config)
		err = below.shake(c.tls)
	}
	if err != nil {
		_ = tcp.Close() // the handshake's error is the one to report
		return nil, err
	}
	return c, nil
}

// socket is what crypto/tls sees as its connection: blocking during the
// handshake, afterwards the reader's and the writers' side of a Conn.
type socket struct {
	net.Conn // the TCP connection
	c        *Conn
	ctx      context.Context // of the handshake; nil after it
	limit    *Handshakes
	holding  bool // a slot of limit
}

// shake holds a slot of the limit except while it waits for the peer.
func (s *socket) shake(t *tls.Conn) error {
	stop := context.AfterFunc(s.ctx, func() { _ = s.Conn.SetDeadline(past) })
	err := s.enter()
	if err == nil {
		err = t.Handshake()
		s.leave()
	}
	if !stop() {
		return fmt.Errorf("TLS handshake with %s: %w", s.c.RemoteAddr(), context.Cause(s.ctx))
	}
	s.ctx = nil
	return err
}

func (s *socket) enter() error {
	select {
	case s.limit.slots <- struct{}{}:
		s.holding = true
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *socket) leave() {
	if s.holding {
		s.holding = false
		<-s.limit.slots
	}
}

func (s *socket) Read(p []byte) (int, error) {
	if s.ctx == nil {
		return s.c.receive(p)
	}
	s.leave()
	n, err := s.Conn.Read(p)
	return n, errors.Join(err, s.enter())
}

func (s *socket) Write(p []byte) (int, error) {
	if s.ctx == nil {
		return len(p), s.c.enqueue(p)
	}
	return s.Conn.Write(p)
}

// SetWriteDeadline is what tls.Conn.CloseWrite calls to bound its alert, which
// cannot block here.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
