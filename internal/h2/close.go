package h2

import (
	"errors"
	"math"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Drain begins to end the connection in order. A server asks for no new streams,
// but takes those under way, for the client may not know yet; DrainFinal follows
// a round trip or more later. A client opens none. The connection ends with its
// last stream.
func (c *Conn) Drain(b *task.Batch) {
	c.mu.Lock()
	if !c.draining && !c.closing && !c.dead {
		c.beginDraining()
		if !c.client {
			c.sendGoAway(maxStreamID, NoError, "")
		} else {
			c.endIfIdle()
		}
	}
	c.release(b)
}

// DrainFinal tells the client which stream is the last that was taken, and takes
// no more. The connection ends with its last stream. On a client it is Drain.
func (c *Conn) DrainFinal(b *task.Batch) {
	c.mu.Lock()
	if !c.final && !c.closing && !c.dead {
		c.beginDraining()
		c.final, c.finalID = true, c.lastID
		if !c.client {
			c.sendGoAway(c.finalID, NoError, "")
		}
		c.endIfIdle()
	}
	c.release(b)
}

// beginDraining tells the handler, and the owners of all streams: some use theirs
// for one thing after the other, and now had better not.
func (c *Conn) beginDraining() {
	if c.draining {
		return
	}
	c.draining, c.changed = true, true
	for _, s := range c.streams {
		c.signal(s)
	}
}

// Close ends the connection at once, with GOAWAY. debug tells the peer why. All
// streams fail.
func (c *Conn) Close(b *task.Batch, code ErrCode, debug string) {
	c.mu.Lock()
	c.shut(connError(code, debug))
	c.release(b)
}

func (c *Conn) sendGoAway(last uint32, code ErrCode, debug string) {
	k := c.out.room(headerLen + 8 + len(debug))
	k.b = appendGoAway(k.b, last, code, debug)
}

// peerGoAway follows a GOAWAY of the peer: streams above last were not processed
// and fail now, or they would hang until the peer closes.
func (c *Conn) peerGoAway(last uint32, why *ConnError) {
	c.beginDraining()
	c.changed, c.goAway = true, why
	if c.client {
		for id, s := range c.streams {
			if id > last {
				c.fail(s, &StreamError{
					Code: why.Code, Remote: true, Unprocessed: true, Reason: "the peer is going away " + why.Reason,
				}, endedByUs)
			}
		}
	}
	c.endIfIdle()
}

// endIfIdle ends a connection that takes no streams and has none. After Drain
// alone a server still takes some, unless the client has said goodbye.
func (c *Conn) endIfIdle() {
	if !c.draining || len(c.streams) > 0 || c.closing || c.dead {
		return
	}
	switch {
	case c.goAway != nil:
		c.finish(NoError, "", c.goAway)
	case c.client, c.final:
		c.finish(NoError, "", &ConnError{Code: NoError, Reason: "drained"})
	}
}

// shut ends the connection for err, with GOAWAY.
func (c *Conn) shut(err error) {
	if c.closing || c.dead {
		return
	}
	var ce *ConnError
	if !errors.As(err, &ce) {
		ce = &ConnError{Code: InternalError}
	}
	c.finish(ce.Code, ce.Reason, err)
}

// finish sends the last GOAWAY and fails all streams. The transport is ended once
// it has taken all output, and cut if that or the peer takes too long.
func (c *Conn) finish(code ErrCode, debug string, err error) {
	c.sendGoAway(c.lastID, code, debug)
	c.closing, c.changed = true, true
	c.failAll(err, math.MaxUint64)
	if code != NoError {
		c.linger(lingerTime)
	}
}

// failAll ends every stream for err and lets go of what receiving holds. Output
// from unsent on has not left: requests in it were not processed.
func (c *Conn) failAll(err error, unsent uint64) {
	if c.err == nil {
		c.err = err
	}
	for _, s := range c.streams {
		if c.client && s.headEnd > unsent {
			c.fail(s, &StreamError{Code: RefusedStream, Unprocessed: true, Reason: "the connection broke before the request left: " + err.Error()}, endedByUs)
			continue
		}
		c.fail(s, err, endedByPeer)
	}
	c.partial.free()
	c.partial = nil
	c.block.got.free()
	c.block, c.data = block{}, dataFrame{}
}

// cut ends the connection for err, without a word to the peer.
func (c *Conn) cut(err error) {
	if c.dead {
		return
	}
	c.dead, c.changed = true, true
	unsent := c.out.handed
	if c.flushing {
		unsent += uint64(len(c.out.sending.b) - c.out.sent) // nobody knows how much of it
	}
	c.failAll(err, unsent)
	c.cutFor = c.err
	c.stopKeepalive()
	if !c.flushing {
		c.out.buf.free()
		c.out.sending.free()
		c.out = output{}
	}
}

// endAfterFlush ends our side of the transport when the last word is out.
func (c *Conn) endAfterFlush(b *task.Batch) {
	if !c.closing || c.halfShut || c.dead || c.out.queued() > 0 {
		return
	}
	c.halfShut = true
	c.linger(c.cfg.PingTimeout) // the transport may still hold much for a slow peer
	c.mu.Unlock()
	err := c.t.CloseWrite(b)
	c.mu.Lock()
	if err != nil {
		c.cut(err)
	}
}
