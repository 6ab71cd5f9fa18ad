package h2

import (
	"errors"
	"io"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Receive takes bytes that arrived, cut anywhere. It keeps nothing of p. What
// they make ready is put on b, to run at the end of the turn.
//
// It always returns nil: if the peer has broken the protocol, the connection
// sends GOAWAY and ends the transport itself, ignoring what still comes.
func (c *Conn) Receive(b *task.Batch, p []byte) error {
	_ = c.Feed(b, p)
	return nil
}

// Feed is Receive, and returns why the connection ends once it does.
func (c *Conn) Feed(b *task.Batch, p []byte) error {
	c.mu.Lock()
	c.keepalive.alive = true
	if err := c.consume(p); err != nil {
		c.shut(err)
	}
	err := c.err
	c.release(b)
	return err
}

// Closed is told that nothing will arrive any more, and why: nil or io.EOF if the
// peer just ended.
func (c *Conn) Closed(b *task.Batch, err error) {
	inOrder := err == nil || errors.Is(err, io.EOF)
	if inOrder {
		err = ErrClosed
	}
	c.mu.Lock()
	c.cut(err)
	last := inOrder && !c.halfShut
	c.halfShut = c.halfShut || inOrder
	if c.halfShut {
		c.cutFor = nil // both sides have ended: let the transport send what it holds
	}
	c.release(b)
	if last {
		_ = c.t.CloseWrite(b) // an error means that it is gone
	}
}

// consume parses p.
func (c *Conn) consume(p []byte) error {
	for len(p) > 0 && !c.closing && !c.dead {
		var err error
		switch {
		case c.preface > 0:
			p, err = c.takePreface(p)
		case c.data.left > 0:
			p, err = c.takeData(p)
		default:
			p, err = c.takeFrame(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) takePreface(p []byte) ([]byte, error) {
	want := preface[len(preface)-c.preface:]
	n := min(len(p), len(want))
	if string(p[:n]) != want[:n] {
		return nil, connError(ProtocolError, "the client does not speak HTTP/2: it sent no connection preface")
	}
	c.preface -= n
	return p[n:], nil
}

// takeFrame handles the frame at the start of p, or keeps p if it ends before the
// frame does. Of DATA only the part before the content is needed.
func (c *Conn) takeFrame(p []byte) ([]byte, error) {
	if c.partial == nil {
		n, err := c.need(p)
		if err != nil {
			return nil, err
		}
		if len(p) >= n {
			return p[n:], c.handle(p[:n])
		}
		c.partial = newChunk(n)
	}
	k := c.partial
	for {
		n, err := c.need(k.b)
		if err != nil {
			return nil, err
		}
		if len(k.b) == n {
			c.partial = nil
			err := c.handle(k.b)
			k.free()
			return p, err
		}
		if len(p) == 0 {
			return nil, nil
		}
		k = k.withRoom(n - len(k.b))
		c.partial = k
		m := min(n-len(k.b), len(p))
		k.b = append(k.b, p[:m]...)
		p = p[m:]
	}
}

// http1 is how a server answers that knows nothing of HTTP/2.
const http1 = "HTTP/1."

// need returns how many bytes of the frame that p begins with have to be there
// before it can be handled, as far as p tells.
func (c *Conn) need(p []byte) (int, error) {
	if len(p) < headerLen {
		return headerLen, nil
	}
	if c.client && !c.settled && string(p[:len(http1)]) == http1 {
		return 0, connError(ProtocolError, "the server speaks HTTP/1.1, not HTTP/2")
	}
	h := parseHeader(p)
	if err := c.checkHeader(h); err != nil {
		return 0, err
	}
	switch {
	case h.typ != frameData:
		return headerLen + h.length, nil
	case h.has(flagPadded) && h.length > 0:
		return headerLen + 1, nil
	}
	return headerLen, nil
}

// checkHeader refuses frames by their header alone.
func (c *Conn) checkHeader(h frameHeader) error {
	switch {
	case h.length > maxFrame:
		return connError(FrameSizeError, "frame larger than 16 KiB")
	case !c.settled && (h.typ != frameSettings || h.has(flagAck)):
		return connError(ProtocolError, "the first frame is not SETTINGS")
	case c.block.open && (h.typ != frameContinuation || h.streamID != c.block.streamID):
		return connError(ProtocolError, "a frame in the middle of a header block")
	case !c.block.open && h.typ == frameContinuation:
		return connError(ProtocolError, "CONTINUATION without HEADERS")
	}
	return nil
}

// handle acts on one frame, which is whole unless it is DATA.
func (c *Conn) handle(frame []byte) error {
	h, p := parseHeader(frame), frame[headerLen:]
	switch h.typ {
	case frameData:
		return c.onData(h, p)
	case frameHeaders:
		return c.onHeaders(h, p)
	case frameContinuation:
		return c.onContinuation(h, p)
	case framePriority:
		return c.onPriority(h, p)
	case frameRSTStream:
		return c.onRSTStream(h, p)
	case frameSettings:
		return c.onSettings(h, p)
	case framePing:
		return c.onPing(h, p)
	case frameGoAway:
		return c.onGoAway(h, p)
	case frameWindowUpdate:
		return c.onWindowUpdate(h, p)
	case framePushPromise:
		return connError(ProtocolError, "PUSH_PROMISE, which we do not allow")
	}
	return c.chargeControl(1) // an unknown type is ignored (RFC 9113 section 5.5)
}
