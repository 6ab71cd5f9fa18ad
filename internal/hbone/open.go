package hbone

import (
	"errors"
	"net"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Open opens a stream to authority through the proxy at dst, and parks t until the
// CONNECT is answered with 200. fields go with the CONNECT (forwarded, baggage,
// traceparent). t becomes the stream's waker. The error is an *[OpenError].
//
// A stream goes on a tunnel that is open and has a place, else on a new one. Each
// of the waits, for a tunnel and for the answer, ends after the connect timeout.
func (d *Dialer) Open(t *task.Task, dst Destination, authority string, fields []Field) (*Stream, error) {
	o := opening{d: d, t: t, dst: dst, deadline: t.Deadline()}
	defer o.restore()
	for {
		tun, err := o.tunnel()
		if err != nil {
			return nil, err
		}
		hs, err := tun.h2.Open(t.Batch(), &h2.Head{Method: "CONNECT", Authority: authority, Fields: fields}, false, t)
		if err == nil {
			d.stats.streams.Add(1)
			s := &Stream{Peer: tun.peer, PeerAddr: dst.Addr, LocalAddr: tun.local, s: hs, tunnel: tun}
			return o.answered(s)
		}
		if err := o.notOpened(tun, err); err != nil {
			return nil, err
		}
	}
}

// opening is one Open under way.
type opening struct {
	d        *Dialer
	t        *task.Task
	dst      Destination
	w        waiter
	deadline time.Time // that t came with
	waits    bool      // a wait has begun
	ours     bool      // t's deadline is the end of that wait
}

// restore gives t its own deadline back.
func (o *opening) restore() {
	if o.ours {
		o.t.SetDeadline(o.deadline)
		o.ours = false
	}
	o.waits = false
}

func (o *opening) fail(f Failure, err error) *OpenError {
	return &OpenError{Failure: f, Addr: o.dst.Addr, Err: err}
}

// tunnel returns a tunnel with a place taken on it.
func (o *opening) tunnel() (*tunnel, error) {
	o.restore()
	for {
		p := o.d.pool(o.dst)
		if p == nil {
			return nil, o.fail(DialFailed, net.ErrClosed)
		}
		o.w = waiter{w: o.t}
		tun, err := o.tunnelOf(p)
		if !errors.Is(err, errRetired) {
			return tun, err
		}
	}
}

func (o *opening) tunnelOf(p *pool) (*tunnel, error) {
	for {
		tun, err := p.acquire(o.t.Batch(), &o.w)
		switch {
		case tun != nil:
			return tun, nil
		case errors.Is(err, errBusy):
			return nil, o.fail(Busy, nil)
		case err != nil:
			return nil, err
		}
		if gaveUp := o.park(Busy); gaveUp != nil {
			dialing, dialErr := p.leave(&o.w)
			switch {
			case dialErr != nil:
				return nil, dialErr
			case dialing && gaveUp.Failure == Busy:
				gaveUp.Failure = DialTimeout
			}
			return nil, gaveUp
		}
	}
}

// park waits for a wake, and fails with f when the wait has lasted for the connect
// timeout.
func (o *opening) park(f Failure) *OpenError {
	if !o.waits {
		o.waits = true
		until := time.Now().Add(o.d.config.ConnectTimeout)
		if o.ours = o.deadline.IsZero() || until.Before(o.deadline); o.ours {
			o.t.SetDeadline(until)
		}
	}
	err := o.t.Park()
	switch {
	case err == nil:
		return nil
	case o.ours && errors.Is(err, task.ErrDeadline):
		return o.fail(f, nil)
	}
	return o.fail(Waited, err)
}

// notOpened gives the place back that h2 had no stream for, and returns an error
// if another tunnel would not help.
func (o *opening) notOpened(tun *tunnel, err error) error {
	b := o.t.Batch()
	switch {
	case errors.Is(err, h2.ErrHeadTooLarge):
		tun.pool.release(b, tun)
		return o.fail(Broken, err)
	case tun.h2.Draining():
		tun.pool.drop(b, tun)
	default:
		tun.pool.full(tun)
	}
	tun.pool.release(b, tun)
	return nil
}

// answered waits for the answer to the CONNECT.
func (o *opening) answered(s *Stream) (*Stream, error) {
	o.restore()
	for {
		status, err := s.status()
		switch {
		case status == 200:
			return s, nil
		case status != 0:
			err = &OpenError{Failure: Status, Addr: o.dst.Addr, Status: status}
		case err != nil:
			err = o.fail(o.unanswered(s, err), err)
		default:
			if failed := o.park(AnswerTimeout); failed != nil {
				err = failed
			}
		}
		if err != nil {
			s.Done(o.t.Batch())
			return nil, err
		}
	}
}

// status returns the status of the answer, 0 if it has not come, or why it will
// not.
func (s *Stream) status() (int, error) {
	for {
		head := s.s.Head()
		if head == nil {
			return 0, s.s.ReadErr()
		}
		status := head.Status
		s.s.NextHead()
		if status >= 200 {
			return status, nil
		}
	}
}

func (o *opening) unanswered(s *Stream, err error) Failure {
	switch {
	case s.s.Unprocessed():
		return Unprocessed
	case refusedUs(err):
		return PeerRefused
	}
	return Broken
}
