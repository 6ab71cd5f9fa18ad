package task

// Stream is a byte stream that never blocks its caller: a stream of a tunnel, a
// plain TCP connection, a stream of an HTTP/2 connection inside one.
//
// One task at a time reads and writes it, and in the end calls Done. Whatever may
// end that task's waiting comes through the waker.
type Stream interface {
	// Peek returns bytes that have arrived and were not discarded. They stay
	// as they are until the next Discard; more may be appended meanwhile.
	Peek() []byte
	// Discard consumes n of the bytes that Peek returned and grants the peer
	// the credit to send as many more.
	Discard(b *Batch, n int)
	// ReadErr says what ended the incoming side: nil if more may come, io.EOF
	// after the peer has ended it, else what broke the stream. Bytes may still
	// be there to Peek: ask for the error first and look for bytes after.
	ReadErr() error
	// Write takes as much of p as flow control and buffers allow, and copies
	// it. Less than len(p) without an error means: go on after the next wake.
	Write(b *Batch, p []byte) (int, error)
	// CloseWrite ends our side after what was written. The other side lives on.
	CloseWrite(b *Batch) error
	// Abort ends both sides at once. cause is for the record: it is what
	// ReadErr returns from then on. Aborting again does nothing.
	Abort(b *Batch, cause error)
	// SetWaker names who is woken by bytes, an end, an error or space to
	// write. Nil: nobody.
	SetWaker(w Waker)
	// Done lets go of the stream, as Close does of a file: its owner calls it
	// last, whatever has happened, and uses nothing of it any more. What was
	// written is still sent; a side that is open is reset. A stream without
	// Done keeps its place in its connection for ever.
	Done(b *Batch)
}

// GoingAway reports whether the connection that carries s takes no new streams, and
// ends with those it has: nothing new is to begin on s. What is under way goes on.
// The waker of s is woken when that begins.
func GoingAway(s Stream) bool {
	carried, ok := s.(interface{ GoingAway() bool })
	return ok && carried.GoingAway()
}

// ReadMore parks t until s has more than have bytes to Peek. If the stream ends
// before, it returns s.ReadErr(). t must be the waker of s.
func ReadMore(t *Task, s Stream, have int) error {
	for {
		ended := s.ReadErr()
		if len(s.Peek()) > have {
			return nil
		}
		if ended != nil {
			return ended
		}
		if err := t.Park(); err != nil {
			return err
		}
	}
}

// WriteAll writes all of p to s, parked while s takes nothing. t must be the
// waker of s.
func WriteAll(t *Task, s Stream, p []byte) error {
	for {
		n, err := s.Write(t.Batch(), p)
		if err != nil {
			return err
		}
		p = p[n:]
		if len(p) == 0 {
			return nil
		}
		if err := t.Park(); err != nil {
			return err
		}
	}
}
