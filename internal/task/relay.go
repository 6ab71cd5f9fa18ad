package task

import (
	"errors"
	"io"
	"time"
)

// ErrIdle is returned by Relay.Run when no byte moved for Relay.Idle.
var ErrIdle = errors.New("idle for too long")

// Relay copies between two streams, both ways, each with its own half-close. It
// owns no buffer: bytes go from what one has received into what the other sends.
type Relay struct {
	// Down and Up are the two streams.
	Down, Up Stream
	// Idle ends the relay when nothing has moved for so long. Zero: never.
	Idle time.Duration
	// Check, if set, is asked on every wake: an error ends the relay. This is
	// how a policy change reaches an open connection.
	Check func() error

	// Received counts bytes from Down to Up, Sent those from Up to Down.
	Received, Sent int64

	downEnded, upEnded bool // that stream's half-close was passed on
	moved              bool // since the idle deadline was set
}

// Run copies until both sides have ended (nil), one breaks, Check objects or the
// relay idles. On an error the caller aborts whatever should not live on; Run
// itself aborts nothing. It makes t the waker of both streams.
func (r *Relay) Run(t *Task) error {
	r.Down.SetWaker(t)
	r.Up.SetWaker(t)
	r.arm(t)
	for {
		if r.Check != nil {
			if err := r.Check(); err != nil {
				return err
			}
		}
		b := t.Batch()
		if from, err := pump(b, r.Down, r.Up, &r.Received, &r.downEnded, &r.moved); err != nil {
			return &RelayError{Upstream: !from, Err: err}
		}
		if from, err := pump(b, r.Up, r.Down, &r.Sent, &r.upEnded, &r.moved); err != nil {
			return &RelayError{Upstream: from, Err: err}
		}
		if r.downEnded && r.upEnded {
			return nil
		}
		if err := t.Park(); err != nil {
			if !errors.Is(err, ErrDeadline) {
				return err
			}
			if !r.moved {
				return ErrIdle
			}
			r.arm(t)
		}
	}
}

// arm sets the idle deadline. It is moved only when it passes, not by every
// byte: resetting a timer costs more than copying a small frame.
func (r *Relay) arm(t *Task) {
	r.moved = false
	if r.Idle > 0 {
		t.SetDeadline(time.Now().Add(r.Idle))
	}
}

// pump moves what it can from src to dst. An error is src's if fromSrc.
func pump(b *Batch, src, dst Stream, count *int64, ended, moved *bool) (fromSrc bool, err error) {
	for !*ended {
		end := src.ReadErr()
		p := src.Peek()
		if len(p) == 0 {
			if end == nil {
				return false, nil
			}
			if !errors.Is(end, io.EOF) {
				return true, end
			}
			*ended, *moved = true, true
			return false, dst.CloseWrite(b)
		}
		n, err := dst.Write(b, p)
		src.Discard(b, n)
		*count += int64(n)
		*moved = *moved || n > 0
		if err != nil || n < len(p) {
			return false, err
		}
	}
	return false, nil
}

// RelayError says which of the two streams of a relay broke.
type RelayError struct {
	Upstream bool // Up, else Down
	Err      error
}

func (e *RelayError) Error() string {
	if e.Upstream {
		return "upstream: " + e.Err.Error()
	}
	return "downstream: " + e.Err.Error()
}

func (e *RelayError) Unwrap() error { return e.Err }
