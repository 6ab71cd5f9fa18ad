package h2

import "strconv"

// The methods in this file append to the output. They want c.mu.

// writeData takes as much of p as may be sent now.
func (c *Conn) writeData(s *Stream, p []byte) (int, error) {
	if err := s.writable(); err != nil {
		return 0, err
	}
	room := c.room()
	if !s.turn && len(c.blocked) > 0 {
		room = 0 // others were first
	}
	c.endTurn(s)
	if len(c.blocked) > 0 || c.turns > 0 {
		room = min(room, quantum)
	}
	n := max(min(len(p), room, int(s.sendWindow)), 0)
	if n > 0 {
		c.out.data(s, p[:n])
		c.sendWindow -= int32(n)
		s.sendWindow -= int32(n)
		c.updates = min(c.updates+2+int32(n/updateBytes), maxUpdates)
	}
	s.wantWrite = n < len(p)
	if s.wantWrite && s.sendWindow > 0 {
		c.awaitTurn(s)
		c.lookAgain = true
	}
	return n, nil
}

// fits reports whether the peer takes a header section with these fields
// (SETTINGS_MAX_HEADER_LIST_SIZE). Pseudo-header fields are not counted.
func (c *Conn) fits(fields []Field) bool {
	n := 0
	for i := range fields {
		n += len(fields[i].Name) + len(fields[i].Value) + 32
	}
	return uint64(n) <= uint64(c.peerHeaders)
}

// sendRequest appends the HEADERS of a request.
func (c *Conn) sendRequest(id uint32, h *Head, end bool) {
	start := c.beginHeaders()
	e, k := &c.encoder, c.out.buf
	k.b = e.field(k.b, ":method", h.Method)
	if h.Method != "CONNECT" || h.Protocol != "" {
		k.b = e.field(k.b, ":scheme", h.Scheme)
		k.b = e.field(k.b, ":path", h.Path)
	}
	if h.Authority != "" {
		k.b = e.field(k.b, ":authority", h.Authority)
	}
	if h.Protocol != "" {
		k.b = e.field(k.b, ":protocol", h.Protocol)
	}
	k.b = c.encodeFields(k.b, h.Fields)
	c.endHeaders(start, id, end)
}

// writeHead sends the head of a response.
func (c *Conn) writeHead(s *Stream, h *Head, end bool) error {
	switch {
	case s.err != nil:
		return s.err
	case s.sendEnd:
		return errWriteEnded
	case s.sentHead:
		return errSecondHead
	case h.Status < 100 || h.Status > 999 || h.interim() && end:
		return errStatus
	case !c.fits(h.Fields):
		return ErrHeadTooLarge
	}
	start := c.beginHeaders()
	k := c.out.buf
	k.b = c.encoder.field(k.b, ":status", statusString(h.Status))
	k.b = c.encodeFields(k.b, h.Fields)
	c.endHeaders(start, s.id, end)
	s.sentHead = !h.interim()
	if end {
		c.endSend(s)
	}
	return nil
}

// sendTrailers appends a trailer section.
func (c *Conn) sendTrailers(s *Stream, fields []Field) {
	start := c.beginHeaders()
	c.out.buf.b = c.encodeFields(c.out.buf.b, fields)
	c.endHeaders(start, s.id, true)
}

func (c *Conn) encodeFields(p []byte, fields []Field) []byte {
	for i := range fields {
		p = c.encoder.field(p, fields[i].Name, fields[i].Value)
	}
	return p
}

// beginHeaders leaves place for a frame header and returns where.
func (c *Conn) beginHeaders() int {
	k := c.out.room(512) // a guess: append makes more
	start := len(k.b)
	k.b = append(k.b, make([]byte, headerLen)...)
	k.b = c.encoder.begin(k.b)
	return start
}

// endHeaders completes the HEADERS frame at start, with CONTINUATION frames if
// the block is longer than a frame.
func (c *Conn) endHeaders(start int, id uint32, end bool) {
	k := c.out.buf
	h := frameHeader{length: len(k.b) - start - headerLen, typ: frameHeaders, streamID: id}
	if end {
		h.flags = flagEndStream
	}
	if h.length <= maxFrame {
		h.flags |= flagEndHeaders
		putHeader(k.b[start:], h)
		return
	}
	rest := append([]byte(nil), k.b[start+headerLen+maxFrame:]...)
	h.length = maxFrame
	putHeader(k.b[start:], h)
	k.b = k.b[:start+headerLen+maxFrame]
	for len(rest) > 0 {
		h = frameHeader{length: min(len(rest), maxFrame), typ: frameContinuation, streamID: id}
		if h.length == len(rest) {
			h.flags = flagEndHeaders
		}
		k.b = append(appendHeader(k.b, h), rest[:h.length]...)
		rest = rest[h.length:]
	}
}

// statuses holds the digits of every status that is in use.
var statuses = func() (table [600]string) {
	for i := range table {
		table[i] = strconv.Itoa(i)
	}
	return table
}()

func statusString(status int) string {
	if status < len(statuses) {
		return statuses[status]
	}
	return strconv.Itoa(status)
}
