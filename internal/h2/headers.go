package h2

import "encoding/binary"

// onHeaders begins a header block.
func (c *Conn) onHeaders(h frameHeader, p []byte) error {
	p, ok := unpad(h, p)
	if !ok {
		return connError(ProtocolError, "HEADERS with more padding than payload")
	}
	var dependency uint32
	if h.has(flagPriority) {
		if len(p) < 5 {
			return connError(FrameSizeError, "HEADERS too short for its priority")
		}
		dependency = binary.BigEndian.Uint32(p) & maxStreamID
		p = p[5:]
	}
	kind, s, err := c.classify(h)
	if err != nil {
		return err
	}
	if kind != discarded && h.has(flagPriority) && dependency == h.streamID {
		kind, err = discarded, c.streamError(h.streamID, ProtocolError, "stream depends on itself")
		if err != nil {
			return err
		}
	}
	c.beginBlock(kind, h, s)
	return c.fragment(h, p)
}

// onContinuation takes more of the block. need has checked that it belongs there.
func (c *Conn) onContinuation(h frameHeader, p []byte) error {
	if c.block.frames++; c.block.frames > maxContinuations {
		return connError(EnhanceYourCalm, "header block in too many CONTINUATION frames")
	}
	return c.fragment(h, p)
}

// classify says what a HEADERS frame begins. A new request is counted here, before
// its block is complete.
func (c *Conn) classify(h frameHeader) (section, *Stream, error) {
	s := c.streams[h.streamID]
	switch {
	case h.streamID == 0:
		return 0, nil, connError(ProtocolError, "HEADERS on stream 0")
	case s != nil && s.recvEnd:
		return discarded, nil, c.streamError(s.id, StreamClosed, "HEADERS after the end of the stream")
	case s != nil && s.finalHead:
		return trailers, s, nil
	case s != nil:
		return response, s, nil
	case !c.idle(h.streamID):
		return discarded, nil, c.lateHeaders(h.streamID)
	case c.client || h.streamID%2 == 0:
		return 0, nil, connError(ProtocolError, "HEADERS on a stream that the peer may not open")
	}
	c.lastID = h.streamID
	return c.classifyNew(h.streamID)
}

// classifyNew admits a request, refuses it, or ignores it.
func (c *Conn) classifyNew(id uint32) (section, *Stream, error) {
	limit := int(c.cfg.MaxConcurrentStreams)
	switch {
	case c.final && id > c.finalID:
		return discarded, nil, c.chargeControl(1)
	case len(c.streams) >= limit, c.working >= 2*limit:
		// The second: the peer resets what we still work for.
		c.sendReset(id, RefusedStream)
		c.ended.add(id, endedByUs)
		return discarded, nil, c.chargeControl(1)
	}
	return request, nil, nil
}

// lateHeaders judges HEADERS on a stream that has ended.
func (c *Conn) lateHeaders(id uint32) error {
	h, ok := c.ended.find(id)
	switch {
	case ok && h == endedByUs, c.final && id > c.finalID:
		return nil // trailers that were under way
	case ok:
		return connError(StreamClosed, "HEADERS on a stream that has ended")
	case c.client:
		return c.chargeControl(1)
	}
	return connError(ProtocolError, "HEADERS on a stream with a lower number than one before")
}

// endBlock acts on a complete header section.
func (c *Conn) endBlock() error {
	bl := c.block
	c.block = block{}
	if bl.stream != nil && bl.stream.err != nil {
		bl.kind = discarded // another turn has reset it between two frames
	}
	if bl.kind == discarded {
		bl.got.free()
		return nil
	}
	if wrong := bl.check(c.cfg.ExtendedConnect); wrong != "" {
		bl.got.free()
		return c.streamError(bl.streamID, ProtocolError, wrong)
	}
	switch bl.kind {
	case request:
		return c.acceptRequest(&bl)
	case response:
		return c.acceptResponse(&bl)
	}
	bl.stream.trailers = bl.got
	return c.endRecv(bl.stream)
}

func (c *Conn) acceptRequest(bl *block) error {
	s := c.newStream(bl.streamID)
	bl.got.TooLarge = bl.tooLarge
	s.head, s.finalHead = bl.got, true
	s.connect = bl.got.Method == "CONNECT"
	if !s.connect {
		s.expect = bl.length
	}
	c.streams[s.id] = s
	s.accepted, s.toAccept = true, true
	c.working++
	c.signal(s)
	if bl.end {
		return c.endRecv(s)
	}
	return nil
}

// maxInterim bounds the interim responses that wait for the reader.
const maxInterim = 8

func (c *Conn) acceptResponse(bl *block) error {
	s := bl.stream
	last, waiting := &s.head, 0
	for *last != nil {
		last = &(*last).next
		waiting++
	}
	if waiting >= maxInterim {
		bl.got.free()
		return c.streamError(s.id, EnhanceYourCalm, "too many interim responses")
	}
	*last = bl.got
	c.signal(s)
	status := bl.got.Status
	if bl.got.interim() {
		return c.chargeControl(1)
	}
	s.finalHead = true
	switch {
	case s.noContent, status == 204, status == 304:
		s.expect = 0
	case !s.connect || status >= 300:
		s.expect = bl.length
	}
	if bl.end {
		if s.noContent || status == 304 {
			s.expect = 0
		}
		return c.endRecv(s)
	}
	return nil
}
