// Package node is the far end of every measurement: a destination's node proxy
// with the application inside it, so that a request costs this machine as little
// as possible beside what it costs the waypoint under test.
//
// It takes CONNECT on HBONE, answers 200 and then is the application itself, in
// the same stream: bytes on [TCPPort] are echoed; elsewhere the client preface of
// HTTP/2 tells h2c from HTTP/1.1. What is asked for is in the path:
//
//	/size/N     N bytes
//	/version    the value of the request's x-version
//	.../head    the target of the CONNECT and the request's head as it arrived
//	.../stream  gRPC: an answer per message rather than one per call
//	else        1 KiB
//
// /version and /head are for HTTP/1.1.
package node

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// TCPPort is the application's port that echoes bytes.
const TCPPort = "9000"

// settings leave nothing for a target to wait for: windows as ztunnel's, and
// more streams than any scenario opens.
var settings = h2.Config{
	MaxConcurrentStreams: 100_000,
	StreamWindow:         4 << 20,
	MaxStreamWindow:      4 << 20,
	ConnWindow:           64 << 20,
}

// Proxy is a node proxy.
type Proxy struct {
	sched  *task.Scheduler
	tls    *tls.Config
	limit  *wire.Handshakes
	tunnel h2.Handler
}

// New returns a node proxy that authenticates with config.
func New(config *tls.Config) *Proxy {
	s := task.NewScheduler(task.Coroutines)
	return &Proxy{sched: s, tls: config, limit: wire.NewHandshakes(0), tunnel: tunnels{s}}
}

// Serve accepts connections until l is closed.
func (p *Proxy) Serve(ctx context.Context, l *net.TCPListener) error {
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go p.serve(ctx, tcp)
	}
}

func (p *Proxy) serve(ctx context.Context, tcp *net.TCPConn) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := wire.Server(ctx, p.sched, tcp, p.tls, p.limit, wire.Options{})
	if err != nil {
		slog.Error("node proxy: handshake", "error", err)
		return
	}
	cfg := settings
	cfg.Scheduler = p.sched
	c := h2.NewServer(conn, cfg, p.tunnel)
	p.sched.Turn(c.Start)
	conn.Serve(c)
}

// tunnels accepts the streams of a connection.
type tunnels struct{ sched *task.Scheduler }

func (h tunnels) Accept(b *task.Batch, s *h2.Stream) {
	h.sched.Start(b, &application{sched: h.sched, s: s})
}

func (tunnels) Changed(*task.Batch, *h2.Conn) {}

// application is what answers in one CONNECT.
type application struct {
	sched *task.Scheduler
	s     *h2.Stream
}

// preface is what HTTP/2 begins with and no HTTP/1.1 request can.
const preface = "PRI "

// Run serves the stream until the client ends it.
func (a *application) Run(t *task.Task) {
	a.s.SetWaker(t)
	authority := a.s.Head().Authority
	tcp := strings.HasSuffix(authority, ":"+TCPPort)
	a.s.NextHead()
	if a.s.WriteHead(t.Batch(), &h2.Head{Status: 200}, false) != nil {
		a.s.Done(t.Batch())
		return
	}
	if !tcp && task.ReadMore(t, a.s, len(preface)-1) == nil && string(a.s.Peek()[:len(preface)]) == preface {
		a.ride(t)
		return
	}
	if tcp {
		echo(t, a.s)
	} else {
		serveHTTP1(t, a.s, authority)
	}
	_ = a.s.CloseWrite(t.Batch()) // it may have gone
	a.s.Done(t.Batch())
}

// ride hands the stream over to an HTTP/2 connection, which needs no task.
func (a *application) ride(t *task.Task) {
	cfg := settings
	cfg.Depth, cfg.Scheduler = 1, a.sched
	h2.Ride(t.Batch(), h2.NewServer(a.s, cfg, &calls{sched: a.sched, tunnel: a.s}), a.s)
}

// echo sends back what comes, until the peer ends.
func echo(t *task.Task, s task.Stream) {
	for {
		if task.ReadMore(t, s, 0) != nil {
			return
		}
		p := s.Peek()
		if task.WriteAll(t, s, p) != nil {
			return
		}
		s.Discard(t.Batch(), len(p))
	}
}
