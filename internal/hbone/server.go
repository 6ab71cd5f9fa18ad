package hbone

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

const (
	// DefaultMaxStreams is how many CONNECTs a client may have open on one
	// connection. Below 100 a ztunnel hangs at the limit.
	DefaultMaxStreams = 250
	// DefaultHandshakeTimeout is how long a peer may take for TLS.
	DefaultHandshakeTimeout = 10 * time.Second
	// drainGrace is the time between the GOAWAY that asks for no more streams
	// and the one that refuses them: for a client to hear of the first, well
	// above any round trip.
	drainGrace = time.Second
	// maxConnectHeader bounds the header of a CONNECT: ztunnel sends below 1 KiB.
	maxConnectHeader = 16 << 10
)

// Handler is given the streams of a Server, in the turn of the connection's
// reader: it does not block.
type Handler interface {
	Accept(b *task.Batch, s *Stream)
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(b *task.Batch, s *Stream)

// Accept calls f.
func (f HandlerFunc) Accept(b *task.Batch, s *Stream) { f(b, s) }

// ServerConfig is how a Server treats its connections.
type ServerConfig struct {
	Scheduler *task.Scheduler
	// TLS is made by identity.ServerConfig.
	TLS *tls.Config
	// Handshakes limits how many compute at a time; nil: a limit of its own.
	Handshakes *wire.Handshakes
	// HandshakeTimeout: zero is DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// MaxStreams: zero is DefaultMaxStreams.
	MaxStreams uint32
	// MaxAge drains a connection of that age, give or take a tenth, so that
	// load spreads over new instances. Zero: never.
	MaxAge time.Duration
	// IdleTimeout drains a connection that had no stream for so long, or up to
	// twice. Zero: never.
	IdleTimeout time.Duration
	// Budget bounds how much larger the windows of all streams together may
	// grow than they start, in bytes. Nil: each connection has its own 8 MiB.
	Budget *Budget
	// Wire is for the sockets.
	Wire wire.Options
}

func (c ServerConfig) withDefaults() ServerConfig {
	if c.HandshakeTimeout == 0 {
		c.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = DefaultMaxStreams
	}
	if c.Handshakes == nil {
		c.Handshakes = wire.NewHandshakes(0)
	}
	return c
}

// Budget is a number of bytes that connections share; see ServerConfig.
type Budget = h2.Budget

// NewBudget returns a budget of n bytes.
func NewBudget(n int64) *Budget { return h2.NewBudget(n) }

// Server serves HBONE on connections that somebody else accepts.
type Server struct {
	config  ServerConfig
	handler Handler
	stats   serverStats
	ctx     context.Context // of handshakes; ended by Close
	cancel  context.CancelFunc

	mu    sync.Mutex
	conns map[*serverConn]struct{} // guarded by mu
	empty chan struct{}            // guarded by mu; closed while conns is empty
	stage serverStage              // guarded by mu
}

// serverStage is what becomes of connections whose handshake is over.
type serverStage uint8

const (
	stageServing serverStage = iota
	stageLeaving             // they are drained at once
	stageClosed              // they are cut
)

type serverStats struct{ handshakesFailed, accepted, streams atomic.Int64 }

// ServerStats are counts for metrics.
type ServerStats struct {
	Connections      int   // open
	Accepted         int64 // ever, handshake done
	HandshakesFailed int64 // ever
	Streams          int64 // ever handed to the handler
	StreamsOpen      int
}

// NewServer returns a server that gives its streams to h.
func NewServer(config ServerConfig, h Handler) *Server {
	s := &Server{config: config.withDefaults(), handler: h, conns: make(map[*serverConn]struct{}), empty: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	close(s.empty)
	return s
}

// HandshakeError is why a connection gave no tunnel.
type HandshakeError struct {
	Peer netip.AddrPort
	Err  error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("no tunnel from %s: %v", e.Peer, e.Err)
}

func (e *HandshakeError) Unwrap() error { return e.Err }

// ServeConn serves one accepted connection on the calling goroutine until it
// ends. The error is a *[HandshakeError]; how a tunnel that was up has ended is
// nothing to report.
func (s *Server) ServeConn(tcp *net.TCPConn) error {
	conn, peer, err := s.shake(tcp)
	if err != nil {
		s.stats.handshakesFailed.Add(1)
		return &HandshakeError{Peer: addrPort(tcp.RemoteAddr()), Err: err}
	}
	s.stats.accepted.Add(1)
	c := newServerConn(s, conn, peer)
	stage := s.add(c)
	defer s.remove(c)
	s.config.Scheduler.Turn(func(b *task.Batch) {
		c.start(b)
		switch stage {
		case stageLeaving:
			c.drain(b)
		case stageClosed:
			c.cut(b)
		}
	})
	conn.Serve(c.h2)
	c.stop()
	return nil
}

func (s *Server) shake(tcp *net.TCPConn) (*wire.Conn, identity.ID, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.config.HandshakeTimeout)
	defer cancel()
	conn, err := wire.Server(ctx, s.config.Scheduler, tcp, s.config.TLS, s.config.Handshakes, s.config.Wire)
	if err != nil {
		return nil, identity.ID{}, err
	}
	peer, err := identity.Peer(conn.TLS())
	if err != nil { // not after a handshake that verified it
		s.config.Scheduler.Turn(func(b *task.Batch) { conn.Abort(b, err) })
	}
	return conn, peer, err
}

func addrPort(a net.Addr) netip.AddrPort {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// add counts c among the open ones and returns what is to become of it.
func (s *Server) add(c *serverConn) serverStage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == 0 {
		s.empty = make(chan struct{})
	}
	s.conns[c] = struct{}{}
	return s.stage
}

func (s *Server) remove(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 {
		close(s.empty)
	}
}

func (s *Server) open() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*serverConn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// Drain ends the connections that are open now in order: each is told to take its
// new streams elsewhere, serves those that come nevertheless for a second, and
// ends with its last stream. Connections that come later are served as ever.
func (s *Server) Drain() {
	for _, c := range s.open() {
		s.config.Scheduler.Turn(c.drain)
	}
}

// Leave is Drain, and for connections that come later too: those that were accepted
// and still shake hands.
func (s *Server) Leave() {
	s.mu.Lock()
	s.stage = max(s.stage, stageLeaving)
	s.mu.Unlock()
	s.Drain()
}

// Wait returns when no connection is open, or with ctx's error when it ends.
func (s *Server) Wait(ctx context.Context) error {
	s.mu.Lock()
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close cuts what is open, what still shakes hands and what comes later, and
// returns how many streams that were.
func (s *Server) Close() (cut int) {
	s.mu.Lock()
	s.stage = stageClosed
	s.mu.Unlock()
	s.cancel()
	for _, c := range s.open() {
		cut += c.h2.Streams()
		s.config.Scheduler.Turn(c.cut)
	}
	return cut
}

// Stats returns the counts of this moment.
func (s *Server) Stats() ServerStats {
	open := s.open()
	streams := 0
	for _, c := range open {
		streams += c.h2.Streams()
	}
	return ServerStats{
		Connections: len(open), StreamsOpen: streams, Accepted: s.stats.accepted.Load(),
		HandshakesFailed: s.stats.handshakesFailed.Load(), Streams: s.stats.streams.Load(),
	}
}
