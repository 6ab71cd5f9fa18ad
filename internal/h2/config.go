package h2

import (
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Transport is what a connection writes to: a socket or a stream of another
// connection. The methods are those of [task.Stream]. Bytes that come in are
// pushed into [Conn.Receive] by whoever owns the transport.
type Transport interface {
	Write(b *task.Batch, p []byte) (int, error)
	CloseWrite(b *task.Batch) error
	Abort(b *task.Batch, cause error)
	SetWaker(w task.Waker)
}

// Handler is told what happens on a connection. Its methods run in a turn with no
// lock held; they never block. They may be called for several streams at once.
type Handler interface {
	// Accept is called with every new request once its head is complete. The
	// stream counts toward the concurrency limit until [Stream.Done].
	// Never called on a client.
	Accept(b *task.Batch, s *Stream)
	// Changed is called when the state of the connection may have: the peer's
	// settings arrived, a GOAWAY arrived, the connection ended. Look again at
	// Settled, Draining and Err.
	Changed(b *task.Batch, c *Conn)
}

// Config holds the limits of one connection. The zero value means the defaults.
type Config struct {
	// Scheduler drives keepalive and the time limit on closing. Nil, which is
	// for tests: there is neither.
	Scheduler *task.Scheduler
	// Depth is how many connections the transport is nested in: 0 over a
	// socket. See [task.Flusher].
	Depth int
	// MaxConcurrentStreams is how many streams a client may have open; the
	// surplus is refused. Default 100. A ztunnel hangs when less than 100 is
	// advertised.
	MaxConcurrentStreams uint32
	// StreamWindow is what a peer may send on a stream before we read it, in
	// bytes. Default 128 KiB.
	StreamWindow int32
	// MaxStreamWindow is how far the window of a stream grows whose reader keeps
	// up while the window is too small for the round trip. Default 1 MiB.
	MaxStreamWindow int32
	// ConnWindow is the sum of what a peer may have in flight. Default 16 MiB.
	// It must exceed StreamWindow, or one stalled stream stalls all.
	ConnWindow int32
	// Budget bounds the growth of stream windows over all connections that
	// share it. Nil: 8 MiB for this connection alone.
	Budget *Budget
	// MaxHeaderBytes bounds a decoded header section, counted as in RFC 9113
	// section 6.5.2 (32 bytes a field on top). Default 64 KiB.
	MaxHeaderBytes int
	// MaxHeaderFields bounds the number of fields in it. Default 256.
	MaxHeaderFields int
	// ExtendedConnect allows clients CONNECT with :protocol (RFC 8441).
	ExtendedConnect bool
	// PingInterval is how long nothing may arrive before we ask whether the
	// peer lives. Negative: we never do. Default 10 s over a socket; never in a
	// stream, where the connection below asks. An application's gRPC server
	// takes offence at pings (ENHANCE_YOUR_CALM, "too_many_pings"): do not ask
	// one.
	PingInterval time.Duration
	// PingTimeout is how long the answer may take. Default 20 s.
	PingTimeout time.Duration
}

// withDefaults returns cfg with zero fields filled in.
func (cfg Config) withDefaults() Config {
	setDefault(&cfg.MaxConcurrentStreams, 100)
	setDefault(&cfg.StreamWindow, 128<<10)
	setDefault(&cfg.MaxStreamWindow, max(1<<20, cfg.StreamWindow))
	setDefault(&cfg.ConnWindow, 16<<20)
	setDefault(&cfg.MaxHeaderBytes, 64<<10)
	setDefault(&cfg.MaxHeaderFields, 256)
	if cfg.Depth > 0 {
		setDefault(&cfg.PingInterval, -1)
	}
	setDefault(&cfg.PingInterval, 10*time.Second)
	setDefault(&cfg.PingTimeout, 20*time.Second)
	if cfg.Budget == nil {
		cfg.Budget = NewBudget(8 << 20)
	}
	return cfg
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Budget is a number of bytes that connections share.
type Budget struct {
	left atomic.Int64
}

// NewBudget returns a budget of n bytes.
func NewBudget(n int64) *Budget {
	b := new(Budget)
	b.left.Store(n)
	return b
}

// take reserves n bytes and reports whether there were as many.
func (b *Budget) take(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *Budget) give(n int64) { b.left.Add(n) }
