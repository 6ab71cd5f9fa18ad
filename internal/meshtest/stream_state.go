package meshtest

import (
	"io"
	"net"
	"strconv"

	"golang.org/x/net/http2"
)

// What follows changes the state of a stream. All of it needs conn.mu.

// setHeader takes a header block that has come: the first, or the trailers.
func (s *Stream) setHeader(f *http2.MetaHeadersFrame) {
	fields := make([]Field, len(f.Fields))
	for i, field := range f.Fields {
		fields[i] = Field{Name: field.Name, Value: field.Value}
	}
	status, _ := strconv.Atoi(f.PseudoValue("status")) // a request has none
	switch {
	case status >= 100 && status < 200:
		return
	case s.header == nil:
		s.header, s.status = fields, status
	default:
		s.trailer = fields
	}
	s.changed.Broadcast()
}

func (s *Stream) receive(p []byte) {
	s.in.Write(p)
	s.changed.Broadcast()
}

func (s *Stream) addCredit(n int64) {
	s.credit += n
	s.changed.Broadcast()
}

// endRead: the peer has ended its direction.
func (s *Stream) endRead() {
	if s.readErr == nil {
		s.readErr = io.EOF
	}
	s.forgetIfOver()
}

// endWrite: we have ended ours.
func (s *Stream) endWrite() {
	if s.writeErr == nil {
		s.writeErr = io.ErrClosedPipe
	}
	s.forgetIfOver()
}

// breakOff: both have ended, for a reason. Bytes that came before it can still
// be read.
func (s *Stream) breakOff(cause error) {
	if s.readErr == nil {
		s.readErr = cause
	}
	if s.writeErr == nil || s.writeErr == io.ErrClosedPipe { //nolint:errorlint // our own mark, never wrapped
		s.writeErr = cause
	}
	s.changed.Broadcast()
}

// drop: both have ended because we say so, and nobody will read the rest.
func (s *Stream) drop() {
	s.breakOff(net.ErrClosed)
	s.grant(uint32(s.in.Len())) //nolint:errcheck // only a flooding peer makes it fail, and the next answer finds that
	s.in.Reset()
	s.forgetIfOver()
}

// forgetIfOver frees the stream's place on the connection.
func (s *Stream) forgetIfOver() {
	if s.readErr != nil && s.writeErr != nil {
		delete(s.conn.streams, s.id)
	}
	s.changed.Broadcast()
}
