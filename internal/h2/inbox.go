package h2

// inbox holds what has arrived on a stream and was not discarded, in one piece,
// so that a parser finds a header block whole however it was cut into frames.
// It owns no buffer while it is empty.
//
// When the piece has no room left its bytes move to a larger one: at twice what
// is needed, or at the stream's window, which nothing outgrows. That makes at
// most two copies of a byte, and only when its reader lags behind.
type inbox struct {
	buf     *chunk
	start   int    // of what is unread in buf
	retired *chunk // replaced while the reader may still look at them
	peeked  bool   // the reader may hold bytes of buf
}

func (in *inbox) len() int {
	if in.buf == nil {
		return 0
	}
	return len(in.buf.b) - in.start
}

func (in *inbox) peek() []byte {
	if in.buf == nil {
		return nil
	}
	in.peeked = true
	return in.buf.b[in.start:len(in.buf.b):len(in.buf.b)]
}

// append adds p. The frame that p is part of has total bytes still to come, p
// included; window is the most that can ever be unread.
func (in *inbox) append(p []byte, total, window int) {
	switch {
	case in.buf == nil:
		in.buf = newChunk(total)
	case cap(in.buf.b)-len(in.buf.b) < len(p):
		in.move(in.len()+total, window)
	}
	in.buf.b = append(in.buf.b, p...)
}

// move replaces the buffer by one for need bytes and more.
func (in *inbox) move(need, window int) {
	old := in.buf
	in.buf = newChunk(max(need, min(2*need, window)))
	in.buf.b = append(in.buf.b, old.b[in.start:]...)
	in.start = 0
	if !in.peeked {
		old.free()
		return
	}
	old.next, in.retired = in.retired, old
	in.peeked = false // nobody has seen the new one yet
}

// discard drops n bytes, at most what is there, and returns how many.
func (in *inbox) discard(n int) int {
	n = min(n, in.len())
	for in.retired != nil {
		k := in.retired
		in.retired = k.next
		k.free()
	}
	in.peeked = false
	in.start += n
	if in.buf != nil && in.start == len(in.buf.b) {
		in.buf.free()
		in.buf, in.start = nil, 0
	}
	return n
}

// drop forgets everything. What the reader may still look at is left to the
// garbage collector.
func (in *inbox) drop() {
	if !in.peeked {
		in.buf.free()
	}
	*in = inbox{}
}
