package hbone

import (
	"errors"
	"io"
	"net/netip"
	"sync/atomic"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Field is one header field; its name is in lower case.
type Field = struct{ Name, Value string }

// Stream is one CONNECT: a byte stream through a tunnel. It implements
// task.Stream, and whoever owns it calls Done in the end.
type Stream struct {
	// Target is where the CONNECT wants to go. Zero on a stream that we opened.
	Target Target
	// Peer is the identity that the other end of the tunnel proved.
	Peer identity.ID
	// PeerAddr and LocalAddr are the ends of the tunnel's TCP connection.
	PeerAddr, LocalAddr netip.AddrPort
	// Baggage, Forwarded and Traceparent are fields of the CONNECT request. They
	// are what the peer says, not what is known. Several baggage fields are
	// joined by commas. Empty on a stream that we opened.
	Baggage, Forwarded, Traceparent string

	s      *h2.Stream
	tunnel *tunnel // that we opened it on; nil on a server's
	done   atomic.Bool
}

var _ task.Stream = (*Stream)(nil)

// Accept answers the CONNECT with 200: bytes may flow.
func (s *Stream) Accept(b *task.Batch) error {
	return s.s.WriteHead(b, &h2.Head{Status: 200}, false)
}

// Reject answers the CONNECT with an error status, without a body, and lets go of
// the stream.
func (s *Stream) Reject(b *task.Batch, status int) {
	reject(b, s.s, status)
}

func reject(b *task.Batch, s *h2.Stream, status int) {
	// An error means that the peer has left already.
	_ = s.WriteHead(b, &h2.Head{Status: status}, true)
	s.Done(b)
}

// Peek implements task.Stream.
func (s *Stream) Peek() []byte { return s.s.Peek() }

// Discard implements task.Stream.
func (s *Stream) Discard(b *task.Batch, n int) { s.s.Discard(b, n) }

// ReadErr implements task.Stream. On a stream that we opened, a reset with NO_ERROR
// or CANCEL counts as the peer's end, io.EOF: that is how a ztunnel drops a stream
// whose application has gone, and how it reads ours. ResetCode tells the difference.
// A client that resets with these has left, and nobody waits for what we send: if
// it only ends its side, it says END_STREAM.
func (s *Stream) ReadErr() error {
	err := s.s.ReadErr()
	if err == nil || errors.Is(err, io.EOF) || s.tunnel == nil {
		return err
	}
	if e, ok := errors.AsType[*h2.StreamError](err); ok && e.Remote && !e.Unprocessed && (e.Code == h2.NoError || e.Code == h2.Cancel) {
		return io.EOF
	}
	return err
}

// ResetCode returns the HTTP/2 error code that the peer reset the stream with.
func (s *Stream) ResetCode() (code h2.ErrCode, ok bool) { return s.s.ResetCode() }

// GoingAway reports whether the tunnel drains; see task.GoingAway.
func (s *Stream) GoingAway() bool { return s.s.GoingAway() }

// Write implements task.Stream.
func (s *Stream) Write(b *task.Batch, p []byte) (int, error) { return s.s.Write(b, p) }

// CloseWrite implements task.Stream: END_STREAM.
func (s *Stream) CloseWrite(b *task.Batch) error { return s.s.CloseWrite(b) }

// Abort implements task.Stream: RST_STREAM with INTERNAL_ERROR, which a ztunnel
// logs, where CANCEL would be taken for a clean end.
func (s *Stream) Abort(b *task.Batch, cause error) { s.s.Abort(b, cause) }

// SetWaker implements task.Stream.
func (s *Stream) SetWaker(w task.Waker) { s.s.SetWaker(w) }

// Done lets go of the stream: the owner uses neither it nor what Peek returned any
// more. What is open is reset, with CANCEL, or NO_ERROR if our side has ended. A
// stream without Done takes a place in its tunnel for ever.
func (s *Stream) Done(b *task.Batch) {
	if s.done.Swap(true) {
		return
	}
	s.s.Done(b)
	if s.tunnel != nil {
		s.tunnel.pool.release(b, s.tunnel)
		s.tunnel.pool.d.stats.streams.Add(-1)
	}
}
