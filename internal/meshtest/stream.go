package meshtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Field is one header field, its name in lower case.
type Field = struct{ Name, Value string }

// Stream is one CONNECT stream: a net.Conn whose two directions end one by one,
// like those of the TCP connection that it stands for.
type Stream struct {
	conn *Conn
	id   uint32

	// Guarded by conn.mu.
	changed  sync.Cond      // anything below
	header   []Field        // the other end's: of a server the request's, of a client the response's
	status   int            // client: of the response, 0 until it has come
	trailer  []Field        // the other end's second header block
	in       bytes.Buffer   // arrived and not yet read
	owed     uint32         // read, and not yet granted to the peer again
	readErr  error          // what follows the bytes of in
	writeErr error          // what a write finds
	credit   int64          // bytes that we may send
	closed   bool           // the application has left; the peer may not know
	readBy   time.Time      // deadlines, zero for none
	writeBy  time.Time      //
	alarms   [2]*time.Timer // wake whoever waits beyond them
}

// newStream needs conn.mu.
func (c *Conn) newStream(id uint32) *Stream {
	s := &Stream{conn: c, id: id, credit: int64(c.peer.StreamWindow)}
	s.changed.L = &c.mu
	c.streams[id] = s
	return s
}

// Connect opens a stream to target, as host:port, and waits for the answer. Any
// answer but 200 is a [*RefusedError]. The fields follow :method and :authority.
func (c *Conn) Connect(ctx context.Context, target string, fields ...Field) (*Stream, error) {
	s, err := c.ask(target, fields)
	if err != nil {
		return nil, err
	}
	return s.accepted(ctx, target)
}

// ask sends a CONNECT.
func (c *Conn) ask(target string, fields []Field) (*Stream, error) {
	s, err := c.open(append([]Field{{":method", "CONNECT"}, {":authority", target}}, fields...))
	if err != nil {
		return nil, fmt.Errorf("CONNECT %s: %w", target, err)
	}
	return s, nil
}

// accepted waits for the answer to a CONNECT.
func (s *Stream) accepted(ctx context.Context, target string) (*Stream, error) {
	status, err := s.answer(ctx)
	switch {
	case err != nil:
		s.Reset(http2.ErrCodeCancel)
		return nil, fmt.Errorf("CONNECT %s: %w", target, err)
	case status != 200:
		s.Close()
		return nil, &RefusedError{Target: target, Status: status, Header: s.Header()}
	}
	return s, nil
}

// RefusedError is a CONNECT that was answered, and not with 200.
type RefusedError struct {
	Target string
	Status int
	Header []Field
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("CONNECT %s was answered %d", e.Target, e.Status)
}

// open sends a header block on a new stream. The id is taken under the lock
// that orders the frames: ids must reach the wire in order.
func (c *Conn) open(fields []Field) (s *Stream, err error) {
	err = c.write(func() error {
		c.mu.Lock()
		switch {
		case c.err != nil:
			err = c.err
		case c.goneAway != nil:
			err = c.goneAway
		}
		if err != nil {
			c.mu.Unlock()
			return err
		}
		s = c.newStream(c.nextID)
		c.nextID += 2
		c.mu.Unlock()
		return c.writeHeaders(s.id, false, fields)
	})
	return s, err
}

// writeHeaders belongs into a call of c.write.
func (c *Conn) writeHeaders(id uint32, end bool, fields []Field) error {
	c.encoded.Reset()
	for _, f := range fields {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value}); err != nil {
			return err
		}
	}
	block := c.encoded.Bytes()
	first := block[:min(len(block), ztunnelFrameSize)]
	block = block[len(first):]
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(block) == 0,
	})
	for err == nil && len(block) > 0 {
		next := block[:min(len(block), ztunnelFrameSize)]
		block = block[len(next):]
		err = c.framer.WriteContinuation(id, len(block) == 0, next)
	}
	return err
}

// Respond answers a CONNECT. Any status but 200 ends the stream.
func (s *Stream) Respond(status int, fields ...Field) error {
	refused := status != 200
	if refused {
		s.conn.mu.Lock()
		s.endWrite()
		s.conn.mu.Unlock()
	}
	fields = append([]Field{{":status", strconv.Itoa(status)}}, fields...)
	return s.conn.write(func() error { return s.conn.writeHeaders(s.id, refused, fields) })
}

// answer waits for the response to our CONNECT.
func (s *Stream) answer(ctx context.Context) (status int, err error) {
	defer context.AfterFunc(ctx, func() {
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		s.changed.Broadcast()
	})()
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	for s.status == 0 {
		if s.readErr != nil {
			return 0, s.readErr
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		s.changed.Wait()
	}
	return s.status, nil
}

// ID is the stream's number on its connection.
func (s *Stream) ID() uint32 { return s.id }

// Conn is the connection that the stream is on.
func (s *Stream) Conn() *Conn { return s.conn }

// Header is what the other end opened with: a server sees the fields of the
// CONNECT, a client those of its answer, each with the pseudo-header fields.
func (s *Stream) Header() []Field {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.header
}

// Read implements net.Conn. A reset is a [*ResetError], not the clean end that
// ztunnel makes of some of them: tests want to know.
func (s *Stream) Read(p []byte) (int, error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	for s.in.Len() == 0 {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.readErr != nil:
			return 0, s.readErr
		case passed(s.readBy):
			return 0, os.ErrDeadlineExceeded
		}
		s.changed.Wait()
	}
	n, _ := s.in.Read(p) // cannot fail: it is not empty
	return n, s.grant(uint32(n))
}

// grant gives the peer credit for n bytes more, in steps of a quarter of the
// window. Credit of the connection follows the reading too, as ztunnel's does,
// so streams that nobody reads can starve the others.
func (s *Stream) grant(n uint32) error {
	c := s.conn
	c.owed += n
	if c.owed >= c.settings.ConnectionWindow/4 {
		if err := c.credit(0, c.owed); err != nil {
			return err
		}
		c.owed = 0
	}
	s.owed += n
	if s.owed >= s.conn.settings.StreamWindow/4 && s.readErr == nil {
		if err := c.credit(s.id, s.owed); err != nil {
			return err
		}
		s.owed = 0
	}
	return nil
}

// Write implements net.Conn: it blocks until the peer has granted credit for all of p.
func (s *Stream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		size, err := s.reserve(len(p) - n)
		if err != nil {
			return n, err
		}
		if err := s.writeData(p[n:n+size], false); err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

// reserve waits for credit and takes it: for a frame's worth at most.
func (s *Stream) reserve(want int) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.writeErr != nil:
			return 0, s.writeErr
		case passed(s.writeBy):
			return 0, os.ErrDeadlineExceeded
		}
		if size := min(int64(want), ztunnelFrameSize, s.credit, c.sendWindow); size > 0 {
			s.credit -= size
			c.sendWindow -= size
			return int(size), nil
		}
		s.changed.Wait()
	}
}

// writeData sends nothing on a stream that was reset meanwhile: to the peer
// that would be an error of the connection.
func (s *Stream) writeData(p []byte, end bool) error {
	return s.conn.write(func() error {
		s.conn.mu.Lock()
		err := s.writeErr
		if end && err == nil {
			s.endWrite()
		}
		s.conn.mu.Unlock()
		if err != nil {
			return err
		}
		return s.conn.framer.WriteData(s.id, end, p)
	})
}

// CloseWrite ends our direction, as shutdown(SHUT_WR) does. Doing it again is
// no error.
func (s *Stream) CloseWrite() error {
	err := s.writeData(nil, true)
	if err == io.ErrClosedPipe { //nolint:errorlint // our own mark, never wrapped
		return nil
	}
	return err
}

// Close leaves the stream as a process that closes its socket does: our
// direction ends, and if there is more to read, or comes later, the peer gets a
// reset.
func (s *Stream) Close() error {
	s.conn.mu.Lock()
	unread := s.in.Len()
	leaving := !s.closed
	s.closed = true
	s.changed.Broadcast()
	s.conn.mu.Unlock()
	if !leaving {
		return nil
	}
	if unread > 0 {
		s.Reset(http2.ErrCodeCancel)
		return nil
	}
	s.CloseWrite() //nolint:errcheck // a stream that has broken already needs no end
	return nil
}

// Reset ends both directions at once.
func (s *Stream) Reset(code http2.ErrCode) {
	s.conn.write(func() error { //nolint:errcheck // the peer of a broken connection knows
		s.conn.mu.Lock()
		over := s.readErr != nil && s.writeErr != nil
		s.drop()
		s.conn.mu.Unlock()
		if over {
			return nil
		}
		return s.conn.framer.WriteRSTStream(s.id, code)
	})
}

// LocalAddr implements net.Conn: the tunnel's.
func (s *Stream) LocalAddr() net.Addr { return s.conn.raw.LocalAddr() }

// RemoteAddr implements net.Conn: the tunnel's.
func (s *Stream) RemoteAddr() net.Addr { return s.conn.raw.RemoteAddr() }

// Peer is who the other end of the tunnel is by its certificate.
func (s *Stream) Peer() (identity.ID, error) {
	return peerID(s.conn.raw.(*tls.Conn).ConnectionState().PeerCertificates[0])
}

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(at time.Time) error {
	s.setDeadline(&s.readBy, 0, at)
	s.setDeadline(&s.writeBy, 1, at)
	return nil
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(at time.Time) error {
	s.setDeadline(&s.readBy, 0, at)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(at time.Time) error {
	s.setDeadline(&s.writeBy, 1, at)
	return nil
}

func (s *Stream) setDeadline(by *time.Time, alarm int, at time.Time) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	*by = at
	if old := s.alarms[alarm]; old != nil {
		old.Stop()
	}
	if !at.IsZero() {
		s.alarms[alarm] = time.AfterFunc(time.Until(at), func() {
			s.conn.mu.Lock()
			defer s.conn.mu.Unlock()
			s.changed.Broadcast()
		})
	}
	s.changed.Broadcast()
}

func passed(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }
