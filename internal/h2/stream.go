package h2

import (
	"io"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Stream is one request and its response, or one tunnel. It is a [task.Stream].
//
// All fields are guarded by the connection's mutex.
type Stream struct {
	c     *Conn
	id    uint32
	waker task.Waker
	err   error // why it broke; nil if it ended in order

	in       inbox
	head     *received // queue of header sections; the first is what Head shows
	trailers *received

	expect     int64         // bytes of content still due by Content-Length; -1: any number
	sendWindow int32         // what the peer still takes; may be negative (RFC 9113 section 6.9.2)
	recvWindow int32         // what the peer may still send
	window     int32         // what recvWindow is refilled to
	credit     int32         // discarded and not yet returned to the peer
	credited   time.Duration // when credit was last returned, since the connection's start
	quick      uint8         // halves of window used quickly in a row, see fitWindow

	headEnd uint64 // client: where in the output the request's head ends

	resetCode ErrCode // of the peer's RST_STREAM, if wasReset
	wasReset  bool

	finalHead bool // received: the request's head, or the final one of a response
	recvEnd   bool // received: END_STREAM
	sentHead  bool // sent: the request's head, or a final one
	sendEnd   bool // sent: END_STREAM
	closed    bool // the connection has forgotten it
	aborted   bool // by us: what arrived before does not count any more
	accepted  bool // counts as one that somebody works for
	done      bool // its owner has let go
	toAccept  bool // the handler has not been told yet

	noContent bool // client: the response to HEAD has none
	connect   bool // a tunnel: Content-Length means nothing

	blocked   bool // among c.blocked
	turn      bool // was woken from there and may write
	wantWrite bool // the last Write took less than it was given
	signalled bool // among c.woken
}

// ID returns the stream's number on its connection.
func (s *Stream) ID() uint32 { return s.id }

// Conn returns the connection that the stream is on.
func (s *Stream) Conn() *Conn { return s.c }

// SetWaker names who is woken by bytes, heads, an end, a reset or space to write.
func (s *Stream) SetWaker(w task.Waker) {
	s.c.mu.Lock()
	s.waker = w
	s.c.mu.Unlock()
}

// Head returns the header section that has arrived: of a request, or of a
// response, whose interim (1xx) ones come first, one by one. Nil if the next has
// not arrived. It is valid until NextHead or Done; its strings for ever.
func (s *Stream) Head() *Head {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.head == nil {
		return nil
	}
	return &s.head.Head
}

// NextHead lets go of the current Head, whose memory is used again, and makes
// the next one current.
func (s *Stream) NextHead() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if h := s.head; h != nil {
		s.head = h.next
		h.free()
	}
}

// Trailers returns the trailer section. It is complete once ReadErr is io.EOF,
// and valid until Done.
func (s *Stream) Trailers() []Field {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.trailers == nil {
		return nil
	}
	return s.trailers.Fields
}

// Peek returns what has arrived and was not discarded, in one piece.
func (s *Stream) Peek() []byte {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.in.peek()
}

// Discard consumes n bytes of what Peek returned. The peer gets credit for them
// once half the window has been consumed.
func (s *Stream) Discard(b *task.Batch, n int) {
	s.c.mu.Lock()
	n = s.in.discard(n)
	s.c.creditStream(s, n)
	s.c.release(b)
}

// ReadErr is nil while more may arrive, io.EOF after the peer has ended its side,
// else a [StreamError], the connection's error, or the cause given to Abort. Bytes
// that arrived before may still be there, unless it was Abort.
func (s *Stream) ReadErr() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.recvEnd && !s.aborted {
		return io.EOF // a reset after the end takes nothing away
	}
	return s.err
}

// Write sends p, or as much of it as flow control, the connection's buffer and
// fairness between streams allow now.
func (s *Stream) Write(b *task.Batch, p []byte) (int, error) {
	s.c.mu.Lock()
	n, err := s.c.writeData(s, p)
	s.c.release(b)
	return n, err
}

// CloseWrite ends our side after what was written.
func (s *Stream) CloseWrite(b *task.Batch) error {
	s.c.mu.Lock()
	err := s.writable()
	if err == nil {
		s.c.out.endData(s)
		s.c.endSend(s)
	}
	s.c.release(b)
	return err
}

// WriteHead sends the head of a response: any number of interim (1xx) ones, then
// the final one. end: nothing follows it.
func (s *Stream) WriteHead(b *task.Batch, h *Head, end bool) error {
	s.c.mu.Lock()
	err := s.c.writeHead(s, h, end)
	s.c.release(b)
	return err
}

// WriteTrailers sends a trailer section, which ends our side.
func (s *Stream) WriteTrailers(b *task.Batch, fields []Field) error {
	s.c.mu.Lock()
	err := s.writable()
	if err == nil && !s.c.fits(fields) {
		err = ErrHeadTooLarge
	}
	if err == nil {
		s.c.sendTrailers(s, fields)
		s.c.endSend(s)
	}
	s.c.release(b)
	return err
}

// writable returns why nothing can be written, or nil.
func (s *Stream) writable() error {
	switch {
	case s.err != nil:
		return s.err
	case s.sendEnd:
		return errWriteEnded
	case !s.sentHead:
		return errNoHead
	}
	return nil
}

// Abort resets the stream, with the [ErrCode] that cause is or wraps, else with
// INTERNAL_ERROR. From then on ReadErr returns cause. A stream that has ended
// both ways, or was aborted before, stays as it is.
func (s *Stream) Abort(b *task.Batch, cause error) {
	if cause == nil {
		cause = errAborted
	}
	s.c.mu.Lock()
	s.c.abort(s, codeOf(cause), cause)
	s.c.release(b)
}

// Reset resets the stream with code.
func (s *Stream) Reset(b *task.Batch, code ErrCode) {
	s.c.mu.Lock()
	s.c.abort(s, code, &StreamError{Code: code})
	s.c.release(b)
}

// ResetCode returns the code that the peer reset the stream with.
//
// NO_ERROR and CANCEL from a ztunnel mean that the application behind it has
// gone; what that makes of a tunnel is for the caller to say.
func (s *Stream) ResetCode() (code ErrCode, ok bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.resetCode, s.wasReset
}

// GoingAway reports whether the connection drains; see task.GoingAway.
func (s *Stream) GoingAway() bool { return s.c.Draining() }

// Unprocessed reports whether the peer has provably not begun to work on the
// stream: it refused it, left it out of a GOAWAY, or the connection broke before
// the request's head had left.
func (s *Stream) Unprocessed() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	e, ok := s.err.(*StreamError) //nolint:errorlint // set by us alone, never wrapped
	return ok && e.Unprocessed
}

// Done lets go of the stream: nobody uses it, its Head or what Peek returned any
// more. What is still open is reset: with NO_ERROR if our side has ended (RFC 9113
// section 8.1), with CANCEL else. On a server it makes room for another stream.
func (s *Stream) Done(b *task.Batch) {
	s.c.mu.Lock()
	s.waker = nil
	if !s.done {
		s.c.letGo(s)
	}
	s.c.release(b)
}

var _ task.Stream = (*Stream)(nil)
