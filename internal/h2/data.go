package h2

import "time"

// dataFrame is the DATA frame being received. Its content goes to the stream in
// the pieces that it arrives in.
type dataFrame struct {
	stream  *Stream // nil: nobody wants it
	left    int     // bytes of content and padding to come
	padding int     // of those
	end     bool    // END_STREAM
}

// onData begins a DATA frame. p holds the octet that says how long the padding
// is, if there is one.
func (c *Conn) onData(h frameHeader, p []byte) error {
	f := dataFrame{left: h.length, end: h.has(flagEndStream)}
	if h.has(flagPadded) {
		if len(p) == 0 {
			return connError(FrameSizeError, "padded DATA without a padding length")
		}
		f.left--
		f.padding = int(p[0])
	}
	if f.padding > f.left {
		return connError(ProtocolError, "DATA with more padding than payload")
	}
	if h.streamID == 0 {
		return connError(ProtocolError, "DATA on stream 0")
	}
	if err := c.creditConn(h.length); err != nil {
		return err
	}
	content := f.left - f.padding
	if content > 0 {
		c.control.earn(1)
	} else if !f.end {
		if err := c.chargeControl(1); err != nil {
			return err
		}
	}
	var err error
	f.stream, err = c.admitData(h, content)
	c.data = f
	if err == nil && f.left == 0 {
		err = c.endData()
	}
	return err
}

// admitData returns the stream that a DATA frame belongs to, or nil if its
// content is to be dropped.
func (c *Conn) admitData(h frameHeader, content int) (*Stream, error) {
	s := c.streams[h.streamID]
	switch {
	case s == nil && c.idle(h.streamID):
		return nil, connError(ProtocolError, "DATA on a stream that was never opened")
	case s == nil:
		return nil, c.lateFrame(h.streamID)
	case s.recvEnd:
		return nil, c.streamError(h.streamID, StreamClosed, "DATA after the end of the stream")
	case !s.finalHead:
		return nil, c.streamError(h.streamID, ProtocolError, "DATA before the response head")
	case int(s.recvWindow) < h.length:
		return nil, c.streamError(h.streamID, FlowControlError, "more DATA than the stream's window")
	case s.expect >= 0 && int64(content) > s.expect:
		return nil, c.streamError(h.streamID, ProtocolError, "more DATA than content-length says")
	}
	s.recvWindow -= int32(h.length)
	s.credit += int32(h.length - content)
	if s.expect >= 0 {
		s.expect -= int64(content)
	}
	return s, nil
}

// lateFrame answers DATA on a stream that has ended: with nothing if it was we
// who reset it and the peer may not have known.
func (c *Conn) lateFrame(id uint32) error {
	if h, ok := c.ended.find(id); ok && h == endedByUs || c.final && id > c.finalID {
		return nil
	}
	return c.streamError(id, StreamClosed, "DATA after the end of the stream")
}

// takeData passes on the part of the frame that p begins with.
func (c *Conn) takeData(p []byte) ([]byte, error) {
	f := &c.data
	n := min(len(p), f.left)
	if content := min(n, f.left-f.padding); content > 0 && f.stream != nil && f.stream.err == nil {
		s := f.stream
		s.in.append(p[:content], f.left-f.padding, int(s.window))
		c.signal(s)
	}
	f.left -= n
	f.padding = min(f.padding, f.left)
	if f.left > 0 {
		return nil, nil
	}
	return p[n:], c.endData()
}

// endData completes the frame.
func (c *Conn) endData() error {
	f := c.data
	c.data = dataFrame{}
	if f.end && f.stream != nil && f.stream.err == nil {
		return c.endRecv(f.stream)
	}
	return nil
}

// creditConn takes n bytes off the connection's window and returns the credit, in
// portions of half a window: what a stream may hold is bounded by its own.
func (c *Conn) creditConn(n int) error {
	if int(c.window) < n {
		return connError(FlowControlError, "more DATA than the connection's window")
	}
	c.window -= int32(n)
	c.received += int32(n)
	if c.received >= max(c.cfg.ConnWindow, defaultWindow)/2 {
		k := c.out.room(headerLen + 4)
		k.b = appendWindowUpdate(k.b, 0, uint32(c.received))
		c.window += c.received
		c.received = 0
	}
	return nil
}

// creditStream returns the credit for n discarded bytes, in portions of half a
// window. A stream of which nothing more is due gets none.
func (c *Conn) creditStream(s *Stream, n int) {
	s.credit += int32(n)
	if s.recvEnd || s.err != nil || s.expect == 0 || s.credit < (s.window+1)/2 {
		return
	}
	c.fitWindow(s)
	if s.credit == 0 {
		return
	}
	k := c.out.room(headerLen + 4)
	k.b = appendWindowUpdate(k.b, s.id, uint32(s.credit))
	s.recvWindow += s.credit
	s.credit = 0
}

// A reader that takes slowTrips round trips, and slowTime at least, for half a
// window would do as well with half of it.
const (
	slowTrips = 16
	slowTime  = 50 * time.Millisecond
)

// quickHalves is how many halves of a window in a row have to be used quickly
// before it grows. Who reads slowly through a socket does so in bursts, of a third
// of the kernel's buffer: those are no reason to hold more while it stalls.
const quickHalves = 8

// fitWindow doubles the window of a stream that keeps using half of it within two
// round trips: then it is the window that limits it, not its reader. It halves one
// that has grown and whose reader is slow, by keeping credit back: all that such a
// window does is to fill memory.
func (c *Conn) fitWindow(s *Stream) {
	now := time.Since(c.start)
	took, first := now-s.credited, s.credited == 0
	s.credited = now
	quick := !first && took < 2*c.roundTrip
	if !quick {
		s.quick = 0
	}
	switch {
	case first:
	case quick:
		if s.quick++; s.quick < quickHalves {
			return
		}
		s.quick = 0
		more := min(s.window, c.cfg.MaxStreamWindow-s.window)
		if more > 0 && c.cfg.Budget.take(int64(more)) {
			s.window += more
			s.credit += more
		}
	case took > max(slowTrips*c.roundTrip, slowTime):
		less := min(s.window/2, s.window-c.cfg.StreamWindow, s.credit)
		s.window -= less
		s.credit -= less
		c.cfg.Budget.give(int64(less))
	}
}

// shrink gives back what fitWindow took.
func (c *Conn) shrink(s *Stream) {
	if more := s.window - c.cfg.StreamWindow; more > 0 {
		c.cfg.Budget.give(int64(more))
	}
}

// startWindow is the window that a new stream is held to. Before the peer has
// applied our settings it may use the default.
func (c *Conn) startWindow() int32 {
	if !c.acked {
		return max(c.cfg.StreamWindow, defaultWindow)
	}
	return c.cfg.StreamWindow
}
