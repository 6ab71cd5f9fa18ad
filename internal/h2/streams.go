package h2

// The methods in this file change the state of streams. They want c.mu.

// how says how a stream came to its end, which decides what a late frame on it
// means.
type how uint8

const (
	endedByPeer how = iota // with END_STREAM or RST_STREAM: it must send no more
	endedByUs              // we reset it: frames may be under way and are ignored
)

// ended remembers the streams that ended last.
type ended struct {
	ring [32]struct {
		id  uint32
		how how
	}
	next int
}

func (e *ended) add(id uint32, h how) {
	e.ring[e.next].id, e.ring[e.next].how = id, h
	e.next = (e.next + 1) % len(e.ring)
}

func (e *ended) find(id uint32) (how, bool) {
	for i := range e.ring {
		if e.ring[i].id == id {
			return e.ring[i].how, true
		}
	}
	return 0, false
}

// newStream returns a stream that is not yet in c.streams.
func (c *Conn) newStream(id uint32) *Stream {
	return &Stream{
		c: c, id: id, expect: -1,
		sendWindow: c.peerWindow, recvWindow: c.startWindow(), window: c.cfg.StreamWindow,
	}
}

// signal has the stream's waker called when the lock is let go of.
func (c *Conn) signal(s *Stream) {
	if !s.signalled {
		s.signalled = true
		c.woken = append(c.woken, s)
	}
}

// endSend notes that END_STREAM was sent.
func (c *Conn) endSend(s *Stream) {
	s.sendEnd, s.wantWrite = true, false
	if s.recvEnd {
		c.endBoth(s)
	}
}

// endBoth forgets a stream that has ended in order, which earns the peer some of
// what others cost it.
func (c *Conn) endBoth(s *Stream) {
	c.forget(s, endedByPeer)
	c.resets.earn(1)
	c.control.earn(1)
}

// endRecv notes that END_STREAM came.
func (c *Conn) endRecv(s *Stream) error {
	if s.expect > 0 {
		return c.streamError(s.id, ProtocolError, "content-length is larger than the content")
	}
	s.recvEnd = true
	c.signal(s)
	if s.sendEnd {
		c.endBoth(s)
	}
	return nil
}

// forget takes a stream that has ended out of the connection.
func (c *Conn) forget(s *Stream, h how) {
	if s.closed {
		return
	}
	s.closed, s.wantWrite = true, false
	delete(c.streams, s.id)
	c.ended.add(s.id, h)
	c.shrink(s)
	c.unblock(s)
	c.endTurn(s)
	if c.out.last == s {
		c.out.last = nil
	}
	c.freePlace(s)
	c.endIfIdle()
}

// fail ends a stream for err.
func (c *Conn) fail(s *Stream, err error, h how) {
	if s.err == nil {
		s.err = err
	}
	c.signal(s)
	c.forget(s, h)
}

// reset sends RST_STREAM and ends the stream for err.
func (c *Conn) reset(s *Stream, code ErrCode, err error) {
	if s.closed {
		return
	}
	c.sendReset(s.id, code)
	c.fail(s, err, endedByUs)
}

// abort is reset at our own wish: nothing that came before counts.
func (c *Conn) abort(s *Stream, code ErrCode, err error) {
	if s.closed {
		return
	}
	s.aborted = true
	s.in.drop()
	c.reset(s, code, err)
}

// streamError resets a stream for what the peer did wrong on it, whether we know
// it or not. It costs the peer: a reset that it led us to is as bad as its own.
func (c *Conn) streamError(id uint32, code ErrCode, reason string) error {
	if s := c.streams[id]; s != nil {
		c.reset(s, code, &StreamError{Code: code, Reason: reason})
	} else {
		c.sendReset(id, code)
		c.ended.add(id, endedByUs)
	}
	if c.client {
		return c.chargeControl(1)
	}
	return c.chargeReset()
}

func (c *Conn) sendReset(id uint32, code ErrCode) {
	k := c.out.room(headerLen + 4)
	k.b = appendRSTStream(k.b, id, code)
}

// letGo is Done.
func (c *Conn) letGo(s *Stream) {
	s.done = true
	if !s.closed {
		code := Cancel
		if s.sendEnd {
			code = NoError
		}
		c.abort(s, code, &StreamError{Code: code, Reason: "its owner let go of it"})
	}
	s.in.peeked = false // nobody looks any more
	s.in.drop()
	for s.head != nil {
		h := s.head
		s.head = h.next
		h.free()
	}
	s.trailers.free()
	s.trailers = nil
	c.freePlace(s)
}

// freePlace ends the stream's count as one that somebody works for, when it has
// ended on the wire and its owner has let go.
func (c *Conn) freePlace(s *Stream) {
	if s.accepted && s.closed && s.done {
		s.accepted = false
		c.working--
	}
}

// unblock takes s off the queue of writers.
func (c *Conn) unblock(s *Stream) {
	if !s.blocked {
		return
	}
	s.blocked = false
	for i := range c.blocked {
		if c.blocked[i] == s {
			rest := i + copy(c.blocked[i:], c.blocked[i+1:])
			c.blocked[rest] = nil
			c.blocked = c.blocked[:rest]
			return
		}
	}
}

// idle reports whether id was never used: a frame on it is a grave mistake.
func (c *Conn) idle(id uint32) bool {
	if id%2 == c.nextID%2 {
		return id >= c.nextID
	}
	return id > c.lastID
}
