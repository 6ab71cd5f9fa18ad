package wire

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

const (
	// readBound is how much unread input makes a Stream stop reading; one more
	// portion of the reader may come on top. Reading goes on at half of it.
	readBound = 64 << 10
	// writeBound is how much a Stream collects in a turn.
	writeBound = 64 << 10
	// direct is from where on a write is not collected but offered at once.
	direct = 16 << 10
	// farewell is how long a peer may take to end its side once nobody listens
	// to it any more.
	farewell = 5 * time.Second
)

// Stream is a Conn as a task.Stream, and the task.Flusher of its output. The
// bytes of a turn leave in one write at its end.
type Stream struct {
	c *Conn

	mu       sync.Mutex
	waker    task.Waker // guarded by mu
	in       *buffer    // guarded by mu; in.b[off:] is unread; nil while there is nothing
	off      int        // guarded by mu
	readErr  error      // guarded by mu; why nothing follows what is unread
	full     bool       // guarded by mu; reading is paused
	out      *buffer    // guarded by mu; collected output
	starved  bool       // guarded by mu; a Write was cut short: wake when there is space
	fin      bool       // guarded by mu; CloseWrite comes behind out
	finDone  bool       // guarded by mu
	aborted  bool       // guarded by mu
	released bool       // guarded by mu; Done was called: what arrives is dropped
	writeErr error      // guarded by mu
}

var (
	_ task.Stream  = (*Stream)(nil)
	_ task.Flusher = (*Stream)(nil)
	_ task.Waker   = (*Stream)(nil)
	_ Receiver     = (*Stream)(nil)
)

// NewStream makes c a Stream. Serve has to be running for bytes to arrive.
func NewStream(c *Conn) *Stream {
	s := &Stream{c: c}
	c.SetWaker(s)
	return s
}

// Conn returns the connection below.
func (s *Stream) Conn() *Conn { return s.c }

// Serve reads from the connection, on the calling goroutine, until the peer ends
// its side or the connection breaks.
func (s *Stream) Serve() { s.c.Serve(s) }

// SetWaker implements task.Stream.
func (s *Stream) SetWaker(w task.Waker) {
	s.mu.Lock()
	s.waker = w
	s.mu.Unlock()
}

// Receive implements Receiver.
func (s *Stream) Receive(b *task.Batch, p []byte) error {
	s.mu.Lock()
	if s.aborted {
		err := s.readErr
		s.mu.Unlock()
		return err
	}
	if s.released {
		s.mu.Unlock()
		return nil
	}
	if s.in == nil {
		s.in = getBuffer()
	}
	// What Peek returned stays as it is: this appends behind it, or copies.
	s.in.b = append(s.in.b, p...)
	if !s.full && len(s.in.b)-s.off >= readBound {
		s.full = true
		s.c.pause()
	}
	w := s.waker
	s.mu.Unlock()
	wake(w, b)
	return nil
}

// Closed implements Receiver.
func (s *Stream) Closed(b *task.Batch, err error) {
	s.mu.Lock()
	if s.readErr == nil {
		s.readErr = err
	}
	w := s.waker
	s.mu.Unlock()
	wake(w, b)
}

func wake(w task.Waker, b *task.Batch) {
	if w != nil {
		w.Wake(b)
	}
}

// Peek implements task.Stream.
func (s *Stream) Peek() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in == nil {
		return nil
	}
	return s.in.b[s.off:]
}

// Discard implements task.Stream.
func (s *Stream) Discard(_ *task.Batch, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in == nil {
		return
	}
	s.off += n
	left := len(s.in.b) - s.off
	if left == 0 {
		s.dropInLocked()
	} else if s.off >= left { // moving costs no more than what was consumed
		s.in.b = s.in.b[:copy(s.in.b, s.in.b[s.off:])]
		s.off = 0
	}
	if s.full && left <= readBound/2 {
		s.full = false
		s.c.unpause()
	}
}

func (s *Stream) dropInLocked() {
	if s.in != nil {
		putBuffer(s.in)
		s.in, s.off = nil, 0
	}
}

// ReadErr implements task.Stream.
func (s *Stream) ReadErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readErr
}

// Write implements task.Stream.
func (s *Stream) Write(b *task.Batch, p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.writeErr != nil:
		return 0, s.writeErr
	case s.fin:
		return 0, ErrClosed
	}
	if s.out == nil && len(p) >= direct {
		if n, err = s.c.Write(b, p); err != nil {
			s.writeErr = err
			return n, err
		}
		p = p[n:]
	}
	return n + s.collectLocked(b, p), nil
}

// collectLocked keeps what has space for the end of the turn.
func (s *Stream) collectLocked(b *task.Batch, p []byte) int {
	if len(p) == 0 {
		return 0
	}
	if s.out == nil {
		s.out = getBuffer()
	}
	n := min(len(p), writeBound-len(s.out.b))
	s.out.b = append(s.out.b, p[:n]...)
	s.starved = s.starved || n < len(p)
	b.Touch(s)
	return n
}

// CloseWrite implements task.Stream.
func (s *Stream) CloseWrite(b *task.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fin {
		s.fin = true
		b.Touch(s)
	}
	return s.writeErr
}

// Abort implements task.Stream: it resets the connection.
func (s *Stream) Abort(b *task.Batch, cause error) {
	if cause == nil {
		cause = net.ErrClosed
	}
	s.c.Abort(b, cause)
	s.mu.Lock()
	if s.aborted {
		s.mu.Unlock()
		return
	}
	s.aborted, s.readErr, s.writeErr = true, cause, cause
	// What Peek returned may be in use: it is left to the garbage collector.
	s.in, s.off = nil, 0
	s.dropOutLocked()
	w := s.waker
	s.mu.Unlock()
	wake(w, b)
}

// errReleased ends a connection that its owner let go of while it was open.
var errReleased = errors.New("its owner let go of it")

// Done implements task.Stream. If our side has ended and the peer's has not, the
// peer gets a moment to end its own: a reset could overtake what we wrote.
func (s *Stream) Done(b *task.Batch) {
	s.mu.Lock()
	open, ended := !s.fin, s.readErr != nil
	s.released, s.waker = true, nil
	s.dropInLocked()
	if s.full {
		s.full = false
		s.c.unpause()
	}
	s.mu.Unlock()
	switch {
	case open:
		s.Abort(b, errReleased)
	case !ended:
		// An error means that the connection is gone already.
		_ = s.c.tcp.SetReadDeadline(time.Now().Add(farewell))
	}
}

// Depth implements task.Flusher.
func (s *Stream) Depth() int { return 0 }

// Flush implements task.Flusher.
func (s *Stream) Flush(b *task.Batch) {
	s.mu.Lock()
	var w task.Waker
	if s.flushLocked(b) {
		w = s.waker
	}
	s.mu.Unlock()
	wake(w, b)
}

// flushLocked hands the collected output on and reports whether the waker has
// something new: space, or an error.
func (s *Stream) flushLocked(b *task.Batch) bool {
	if s.out != nil && s.writeErr == nil {
		n, err := s.c.Write(b, s.out.b)
		s.writeErr = err
		s.out.b = s.out.b[:copy(s.out.b, s.out.b[n:])]
	}
	if s.writeErr == nil {
		s.writeErr = s.c.writeErr() // of a flusher, since
	}
	if s.out != nil && (len(s.out.b) == 0 || s.writeErr != nil) {
		s.dropOutLocked()
	}
	if s.fin && !s.finDone && s.out == nil && s.writeErr == nil {
		s.finDone = true
		s.writeErr = s.c.CloseWrite(b)
	}
	if s.writeErr != nil {
		return true
	}
	space := s.starved && s.out == nil
	s.starved = s.starved && !space
	return space
}

func (s *Stream) dropOutLocked() {
	if s.out != nil {
		putBuffer(s.out)
		s.out = nil
	}
}

// Wake implements task.Waker: the connection has space again, or has broken. A
// flush finds out.
func (s *Stream) Wake(b *task.Batch) { b.Touch(s) }
