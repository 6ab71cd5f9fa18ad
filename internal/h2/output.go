package h2

import "github.com/waypoint-mesh/waypoint/internal/task"

const (
	// highWater is how many bytes may wait for the transport before streams
	// may write no more DATA; below lowWater they go on. With frame headers and a
	// little control it fills a chunk of 64 KiB, which is four TLS records and one
	// write, and is still in the core's cache when it is encrypted.
	highWater = 63 << 10
	lowWater  = highWater / 2
	// quantum is what a stream writes in its turn while others wait for theirs.
	quantum = 16 << 10
	// hardLimit is where a connection is cut whose peer makes us queue headers
	// and control frames but reads nothing.
	hardLimit = highWater + 1<<20
)

// output is what the connection has to send. The flush in progress works on
// sending without the lock while others append to buf.
type output struct {
	buf     *chunk // frames, whole ones
	sending *chunk // taken by the flush
	sent    int    // of sending
	handed  uint64 // bytes that the transport has taken so far

	// The last frame in buf, if it is DATA that more can be added to.
	last   *Stream
	lastAt int
}

// queued is the number of bytes that the transport has not taken.
func (o *output) queued() int {
	n := 0
	if o.buf != nil {
		n = len(o.buf.b)
	}
	if o.sending != nil {
		n += len(o.sending.b) - o.sent
	}
	return n
}

// end is the position, in all that was ever appended, of the next frame.
func (o *output) end() uint64 { return o.handed + uint64(o.queued()) }

// room returns the chunk to append the next frame of n bytes to.
func (o *output) room(n int) *chunk {
	o.last = nil
	o.buf = o.buf.withRoom(n)
	return o.buf
}

// data appends p as DATA of s. Bytes that follow those of the same stream extend
// its last frame, so that a head and a body written apart cost one frame.
func (o *output) data(s *Stream, p []byte) {
	o.buf = o.buf.withRoom(len(p) + headerLen*(len(p)/maxFrame+2))
	k := o.buf
	for len(p) > 0 {
		if o.last != s {
			o.last, o.lastAt = s, len(k.b)
			k.b = appendHeader(k.b, frameHeader{typ: frameData, streamID: s.id})
		}
		length := len(k.b) - o.lastAt - headerLen
		n := min(len(p), maxFrame-length)
		k.b = append(k.b, p[:n]...)
		p = p[n:]
		putHeader(k.b[o.lastAt:], frameHeader{length: length + n, typ: frameData, streamID: s.id})
		if length+n == maxFrame {
			o.last = nil
		}
	}
}

// endData ends our side of s, in its last frame of DATA if that is still here.
func (o *output) endData(s *Stream) {
	if o.last == s {
		o.buf.b[o.lastAt+4] |= flagEndStream
		o.last = nil
		return
	}
	k := o.room(headerLen)
	k.b = appendHeader(k.b, frameHeader{typ: frameData, flags: flagEndStream, streamID: s.id})
}

// take makes what was appended the next to be sent and reports whether there is
// anything. Buffers go back to their pool as soon as there is not.
func (o *output) take() bool {
	if o.sending != nil && o.sent < len(o.sending.b) {
		return true
	}
	o.sending.free()
	o.sending, o.sent, o.buf, o.last = o.buf, 0, nil, nil
	return o.sending != nil
}

// Depth is how many connections this one is nested in.
func (c *Conn) Depth() int { return c.cfg.Depth }

// Flush hands the output to the transport. Only one turn at a time does: another
// that comes meanwhile has it look once more.
func (c *Conn) Flush(b *task.Batch) {
	c.mu.Lock()
	c.stuck = false
	if c.flushing {
		c.flushAgain = true
		c.mu.Unlock()
		return
	}
	c.flushing = true
	for !c.dead && c.out.take() {
		if !c.sendTaken(b) {
			break
		}
	}
	c.flushing = false
	if c.dead {
		c.out = output{} // left to the collector: it may have been cut off in mid-write
	}
	c.wakeWriters()
	c.endAfterFlush(b)
	c.release(b)
}

// sendTaken writes what was taken and reports whether to go on. It lets go of
// the lock while the transport works.
func (c *Conn) sendTaken(b *task.Batch) bool {
	p := c.out.sending.b[c.out.sent:]
	c.flushAgain = false
	c.mu.Unlock()
	n, err := c.t.Write(b, p)
	c.mu.Lock()
	if err != nil {
		c.cut(err)
		return false
	}
	c.out.sent += n
	c.out.handed += uint64(n)
	if n < len(p) && !c.flushAgain {
		c.stuck = true
		return false
	}
	return true
}

// room is how many bytes of DATA the connection would take now.
func (c *Conn) room() int {
	return min(highWater-c.out.queued(), int(c.sendWindow))
}

// wakeWriters lets streams go on that wait for their turn to write, oldest first,
// as many as there is room for.
func (c *Conn) wakeWriters() {
	if len(c.blocked) == 0 || c.out.queued() > lowWater {
		return
	}
	room := c.room()
	if room <= 0 {
		return
	}
	n := min(max(room/quantum, 1), len(c.blocked))
	for _, s := range c.blocked[:n] {
		s.blocked, s.turn = false, true
		c.turns++
		c.signal(s)
	}
	rest := copy(c.blocked, c.blocked[n:])
	clear(c.blocked[rest:])
	c.blocked = c.blocked[:rest]
	// One that does not use its turn must not keep it from the next: look
	// again after those woken have run.
	c.lookAgain = rest > 0
}

// endTurn takes back the turn of s.
func (c *Conn) endTurn(s *Stream) {
	if s.turn {
		s.turn = false
		c.turns--
	}
}

// awaitTurn puts s at the end of those that wait for their turn.
func (c *Conn) awaitTurn(s *Stream) {
	if !s.blocked {
		s.blocked = true
		c.blocked = append(c.blocked, s)
	}
}
