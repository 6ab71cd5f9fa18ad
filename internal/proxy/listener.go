package proxy

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves one accepted connection until it ends (hbone.Server).
type Server interface {
	ServeConn(tcp *net.TCPConn) error
}

// Listener accepts connections for a Server.
type Listener struct {
	tcp     *net.TCPListener
	server  Server
	max     int
	log     *slog.Logger
	open    atomic.Int64
	refused atomic.Int64
	active  sync.WaitGroup

	told   atomic.Int64 // when a failed handshake was logged last, in Unix nanoseconds
	untold atomic.Int64 // how many were not logged since
}

// NewListener accepts on tcp and serves at most max connections at once, zero: any
// number. Above that new ones are closed before any handshake: to be turned away
// quickly is better for a client than to wait, and cheaper for us than to run out
// of memory.
func NewListener(tcp *net.TCPListener, server Server, maxConns int, log *slog.Logger) *Listener {
	return &Listener{tcp: tcp, server: server, max: maxConns, log: log}
}

// Serve accepts until Close, and returns nil then. Connections live on.
func (l *Listener) Serve() error {
	var pause time.Duration
	for {
		conn, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			// Out of descriptors, or a client that is gone already. Both pass.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			l.log.Warn("accepting a connection failed (out of file descriptors?)", "error", err, "retry", pause)
			time.Sleep(pause) //nolint:forbidigo // nothing tells when there are descriptors again
			continue
		}
		pause = 0
		l.start(conn)
	}
}

func (l *Listener) start(conn *net.TCPConn) {
	if l.max > 0 && l.open.Load() >= int64(l.max) {
		l.refused.Add(1)
		// An error would be of no use to anybody: nothing was said yet.
		_ = conn.SetLinger(0)
		_ = conn.Close()
		return
	}
	l.open.Add(1)
	l.active.Go(func() {
		defer l.open.Add(-1)
		if err := l.server.ServeConn(conn); err != nil {
			l.tell(err)
		}
	})
}

// tellEvery keeps those who cannot connect from filling the log.
const tellEvery = time.Second

// tell logs why a connection gave no tunnel. It is what somebody looks for whose
// certificate is not accepted, and what a port scanner makes by the thousand.
func (l *Listener) tell(err error) {
	now, last := time.Now().UnixNano(), l.told.Load()
	if now-last < int64(tellEvery) || !l.told.CompareAndSwap(last, now) {
		l.untold.Add(1)
		return
	}
	l.log.Warn("a connection gave no tunnel", "error", err, "others not logged", l.untold.Swap(0))
}

// Close stops accepting.
func (l *Listener) Close() error { return l.tcp.Close() }

// Wait returns when every connection has ended.
func (l *Listener) Wait() { l.active.Wait() }

// Addr returns the address that is listened on.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Refused returns how many connections were turned away.
func (l *Listener) Refused() int64 { return l.refused.Load() }
