package h2

import (
	"encoding/binary"
	"time"
)

// onPriority ignores what RFC 9113 section 5.3 has deprecated.
func (c *Conn) onPriority(h frameHeader, p []byte) error {
	switch {
	case h.streamID == 0:
		return connError(ProtocolError, "PRIORITY on stream 0")
	case len(p) != 5:
		if c.idle(h.streamID) {
			return connError(FrameSizeError, "PRIORITY is not 5 bytes")
		}
		return c.streamError(h.streamID, FrameSizeError, "PRIORITY is not 5 bytes")
	case binary.BigEndian.Uint32(p)&maxStreamID == h.streamID:
		if c.streams[h.streamID] == nil {
			return connError(ProtocolError, "stream depends on itself")
		}
		return c.streamError(h.streamID, ProtocolError, "stream depends on itself")
	}
	return c.chargeControl(1)
}

func (c *Conn) onRSTStream(h frameHeader, p []byte) error {
	switch {
	case len(p) != 4:
		return connError(FrameSizeError, "RST_STREAM is not 4 bytes")
	case h.streamID == 0, c.idle(h.streamID):
		return connError(ProtocolError, "RST_STREAM on a stream that was never opened")
	}
	s := c.streams[h.streamID]
	if s == nil {
		return c.chargeControl(1) // it crossed with ours, or with the end
	}
	code := ErrCode(binary.BigEndian.Uint32(p))
	s.resetCode, s.wasReset = code, true
	c.fail(s, &StreamError{Code: code, Remote: true, Unprocessed: code == RefusedStream && c.client}, endedByPeer)
	return c.chargeReset()
}

func (c *Conn) onSettings(h frameHeader, p []byte) error {
	switch {
	case h.streamID != 0:
		return connError(ProtocolError, "SETTINGS on a stream")
	case h.has(flagAck) && len(p) != 0, len(p)%settingLen != 0:
		return connError(FrameSizeError, "SETTINGS of a wrong length")
	case h.has(flagAck):
		c.onSettingsAck()
		return nil
	}
	window := c.peerWindow
	for q := p; len(q) > 0; q = q[settingLen:] {
		s := setting{settingID(binary.BigEndian.Uint16(q)), binary.BigEndian.Uint32(q[2:])}
		if s.id == settingInitialWindowSize && s.value <= maxWindow {
			window = int32(s.value)
			continue
		}
		if err := c.apply(s); err != nil {
			return err
		}
	}
	// Once for all parameters: a frame may hold thousands.
	if err := c.setPeerWindow(window); err != nil {
		return err
	}
	k := c.out.room(headerLen)
	k.b = appendSettingsAck(k.b)
	c.settled, c.changed = true, true
	return c.chargeControl(1 + len(p)/(32*settingLen))
}

// apply takes one parameter of the peer. One that is unknown is ignored.
func (c *Conn) apply(s setting) error {
	switch s.id {
	case settingHeaderTableSize:
		c.encoder.setMax(s.value)
	case settingEnablePush:
		if s.value > 1 || s.value == 1 && c.client {
			return connError(ProtocolError, "SETTINGS_ENABLE_PUSH is not 0 or 1, or 1 from a server")
		}
	case settingMaxConcurrentStreams:
		c.peerLimit = s.value
	case settingInitialWindowSize: // above 2^31-1, else it would not be here
		return connError(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1")
	case settingMaxFrameSize:
		if s.value < maxFrame || s.value >= 1<<24 {
			return connError(ProtocolError, "SETTINGS_MAX_FRAME_SIZE is not between 2^14 and 2^24-1")
		}
	case settingMaxHeaderListSize:
		c.peerHeaders = s.value
	case settingEnableConnect:
		if s.value > 1 || s.value == 0 && c.connect {
			return connError(ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL is not 0 or 1, or was taken back")
		}
		c.connect = s.value == 1
	}
	return nil
}

// setPeerWindow changes the send windows of all streams by the difference, which
// may make them negative (RFC 9113 section 6.9.2).
func (c *Conn) setPeerWindow(window int32) error {
	delta := int64(window) - int64(c.peerWindow)
	if delta == 0 {
		return nil
	}
	c.peerWindow = window
	for _, s := range c.streams {
		next := int64(s.sendWindow) + delta
		if next > maxWindow {
			return connError(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE overflows the window of a stream")
		}
		c.raiseWindow(s, next)
	}
	return nil
}

// raiseWindow sets a send window and wakes a writer that waits for it.
func (c *Conn) raiseWindow(s *Stream, window int64) {
	s.sendWindow = int32(window)
	if s.wantWrite && window > 0 && !s.blocked {
		c.signal(s)
	}
}

func (c *Conn) onSettingsAck() {
	if c.acked {
		return
	}
	c.acked = true
	c.roundTrip = time.Since(c.start) - c.sentAt
	if less := defaultWindow - c.cfg.StreamWindow; less > 0 {
		for _, s := range c.streams {
			s.recvWindow -= less
		}
	}
}

func (c *Conn) onPing(h frameHeader, p []byte) error {
	switch {
	case h.streamID != 0:
		return connError(ProtocolError, "PING on a stream")
	case len(p) != 8:
		return connError(FrameSizeError, "PING is not 8 bytes")
	case h.has(flagAck):
		return nil // that something arrived is all we asked for
	}
	k := c.out.room(headerLen + 8)
	k.b = appendPing(k.b, true, [8]byte(p))
	return c.chargeControl(1)
}

func (c *Conn) onWindowUpdate(h frameHeader, p []byte) error {
	if len(p) != 4 {
		return connError(FrameSizeError, "WINDOW_UPDATE is not 4 bytes")
	}
	more := int64(binary.BigEndian.Uint32(p) & maxStreamID)
	if err := c.chargeUpdate(); err != nil {
		return err
	}
	if h.streamID == 0 {
		return c.creditFromPeer(more)
	}
	s := c.streams[h.streamID]
	switch {
	case s == nil && c.idle(h.streamID):
		return connError(ProtocolError, "WINDOW_UPDATE on a stream that was never opened")
	case s == nil:
		return nil
	case more == 0:
		return c.streamError(s.id, ProtocolError, "WINDOW_UPDATE of 0")
	case int64(s.sendWindow)+more > maxWindow:
		return c.streamError(s.id, FlowControlError, "WINDOW_UPDATE overflows the window")
	}
	c.raiseWindow(s, int64(s.sendWindow)+more)
	return nil
}

// creditFromPeer raises the window of the connection.
func (c *Conn) creditFromPeer(more int64) error {
	switch {
	case more == 0:
		return connError(ProtocolError, "WINDOW_UPDATE of 0 on the connection")
	case int64(c.sendWindow)+more > maxWindow:
		return connError(FlowControlError, "WINDOW_UPDATE overflows the window of the connection")
	}
	c.sendWindow += int32(more)
	c.wakeWriters()
	return nil
}

func (c *Conn) onGoAway(h frameHeader, p []byte) error {
	switch {
	case h.streamID != 0:
		return connError(ProtocolError, "GOAWAY on a stream")
	case len(p) < 8:
		return connError(FrameSizeError, "GOAWAY is shorter than 8 bytes")
	}
	last := binary.BigEndian.Uint32(p) & maxStreamID
	code := ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.peerGoAway(last, &ConnError{Code: code, Remote: true, Reason: printable(p[8:])})
	return c.chargeControl(1)
}

// printable returns the start of what the peer says in its GOAWAY, for our log.
func printable(p []byte) string {
	out := make([]byte, 0, 128)
	for _, b := range p[:min(len(p), cap(out))] {
		if b < ' ' || b >= 0x7f {
			b = '?'
		}
		out = append(out, b)
	}
	return string(out)
}
