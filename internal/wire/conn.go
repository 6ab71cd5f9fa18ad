package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

const (
	// highWater is how much unsent output makes Write refuse more; lowWater is
	// where the waker is told to go on. The kernel's own buffer comes on top and
	// is what keeps a fast peer busy: this one only has to last until a writer
	// has been woken.
	highWater = 64 << 10
	lowWater  = 16 << 10
	// DefaultWriteTimeout is for how long a peer may take nothing of what waits
	// for it.
	DefaultWriteTimeout = 30 * time.Second
)

// ErrClosed is returned by writes after CloseWrite.
var ErrClosed = errors.New("connection was closed for writing")

// ErrWriteTimeout is why a connection broke whose peer took nothing for the
// write timeout.
var ErrWriteTimeout = errors.New("peer takes no data (stalled, or gone without a word)")

// Options are what connections of one kind have in common. The zero value is
// good.
type Options struct {
	// WriteTimeout cuts a peer that takes nothing of waiting output for so
	// long. Zero: DefaultWriteTimeout.
	WriteTimeout time.Duration
}

// Receiver is told what a connection's reader reads.
type Receiver interface {
	// Receive is given bytes that arrived; p is the reader's own buffer and is
	// valid until Receive returns. An error ends the reading.
	Receive(b *task.Batch, p []byte) error
	// Closed is called once, when nothing more will be received: io.EOF if the
	// peer ended its side, the error of Receive, the cause of an Abort, or why
	// the connection broke.
	Closed(b *task.Batch, err error)
}

// Conn is one TCP connection. Its methods may be called by any goroutine.
type Conn struct {
	sched   *task.Scheduler
	tcp     *net.TCPConn
	raw     syscall.RawConn
	tls     *tls.Conn // nil: plain
	timeout time.Duration

	// The reader's, see read.go. Owned by the goroutine in Serve; before that by
	// the one that makes the connection.
	rd reader

	mu       sync.Mutex
	queue    *buffer      // guarded by mu; output that nobody sends yet
	queued   int          // guarded by mu; bytes in queue and in the flusher's hands
	flushing bool         // guarded by mu; a flusher is at work, or starting
	starved  bool         // guarded by mu; a Write was refused: wake at lowWater
	waker    task.Waker   // guarded by mu
	attempt  writeAttempt // guarded by mu

	fin      bool  // guarded by mu; CloseWrite was called
	finSent  bool  // guarded by mu
	readDone bool  // guarded by mu; the reader has left for good
	aborted  bool  // guarded by mu
	err      error // guarded by mu; why writing fails; after an abort its cause
	inside   int   // guarded by mu; goroutines in calls on the descriptor: reader, flusher
	closed   bool  // guarded by mu; the descriptor is gone
	paused   bool  // guarded by mu; the reader is to wait for resume
	resume   chan struct{}
}

// Plain makes a Conn of an established TCP connection.
func Plain(s *task.Scheduler, tcp *net.TCPConn, o Options) (*Conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 9})
	if err != nil {
		return nil, err
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	c := &Conn{sched: s, tcp: tcp, raw: raw, timeout: o.WriteTimeout, resume: make(chan struct{}, 1)}
	c.attempt.run = c.attempt.write
	return c, c.rd.init(raw)
}

// keepAlive is the silence after which the kernel asks whether a peer lives, and
// between two questions: as ztunnel has it. NODELAY is Go's default.
const keepAlive = 180 * time.Second

// TLS returns the state of the handshake; the zero value for a plain connection.
func (c *Conn) TLS() tls.ConnectionState {
	if c.tls == nil {
		return tls.ConnectionState{}
	}
	return c.tls.ConnectionState()
}

// RemoteAddr returns the peer's address, an IPv4 one as such.
func (c *Conn) RemoteAddr() netip.AddrPort { return addrPort(c.tcp.RemoteAddr()) }

// LocalAddr returns our own address of the connection.
func (c *Conn) LocalAddr() netip.AddrPort { return addrPort(c.tcp.LocalAddr()) }

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// SetWaker names who is woken when there is space to write again, or when
// writing has failed.
func (c *Conn) SetWaker(w task.Waker) {
	c.mu.Lock()
	c.waker = w
	c.mu.Unlock()
}

// Abort ends the connection at once with a reset; what was not sent is dropped.
// The receiver gets cause, and so does who writes. It never blocks.
func (c *Conn) Abort(b *task.Batch, cause error) {
	c.mu.Lock()
	w := c.abortLocked(cause)
	c.mu.Unlock()
	if w != nil {
		w.Wake(b)
	}
}

// abortLocked returns whom to wake once mu is released.
func (c *Conn) abortLocked(cause error) task.Waker {
	if c.aborted || c.closed {
		return nil
	}
	if cause == nil {
		cause = net.ErrClosed
	}
	c.aborted, c.err = true, cause
	c.dropQueueLocked()
	if c.inside > 0 {
		// A time in the past wakes those who wait in the descriptor. An error
		// here means that it is gone, and they with it.
		_ = c.tcp.SetDeadline(past)
	}
	c.unpauseLocked()
	c.settleLocked()
	return c.waker
}

var past = time.Unix(1, 0)

// leave is called by the reader and the flusher when they will not touch the
// descriptor again.
func (c *Conn) leave() {
	c.mu.Lock()
	c.inside--
	c.settleLocked()
	c.mu.Unlock()
}

// settleLocked closes the descriptor once the connection is over and nobody is
// inside.
func (c *Conn) settleLocked() {
	over := c.aborted || c.readDone && (c.finSent || c.err != nil)
	if !over || c.inside > 0 || c.closed {
		return
	}
	c.closed = true
	if c.aborted {
		_ = c.tcp.SetLinger(0) // reset instead of FIN; if it fails the peer gets a FIN
	}
	// The error of a close is of no use to anybody: the connection is over.
	_ = c.tcp.Close()
}

// stopped reports whether the reader has to leave.
func (c *Conn) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted || c.paused
}

// cause returns why the connection was aborted, nil if it was not.
func (c *Conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.aborted {
		return nil
	}
	return c.err
}

// isTimeout tells a passed deadline.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
