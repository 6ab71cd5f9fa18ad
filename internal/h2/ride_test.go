package h2

import (
	"bytes"
	"io"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// TestRide runs connections in streams of a connection in streams of another, and
// moves more bytes than all their windows hold.
func TestRide(t *testing.T) {
	bothModes(t, func(t *testing.T, sched *task.Scheduler) {
		h := &events2{sched: sched, handle: echo}
		addr := listen(t, sched, Config{}, func(tk *task.Task, s *Stream) {
			serveInside(tk, s, 1, func(tk *task.Task, s *Stream) { serveInside(tk, s, 2, nil, h) }, nil)
		})
		outer := dial(t, sched, Config{}, addr)
		body := randomBytes(3_000_000)
		run(sched, func(tk *task.Task) {
			middle, end1 := clientInside(t, tk, outer, 1)
			inner, end2 := clientInside(t, tk, middle, 2)
			s, err := inner.Open(tk.Batch(), &Head{Method: "POST", Scheme: "http", Authority: "a", Path: "/"}, false, tk)
			if err != nil {
				t.Error(err)
				return
			}
			got := pingPong(tk, s, body)
			if !bytes.Equal(got, body) {
				t.Errorf("%d bytes came back as %d: %v", len(body), len(got), s.ReadErr())
			}
			s.Done(tk.Batch())
			end2(tk)
			end1(tk)
		})
		if outer.Err() != nil {
			t.Error(outer.Err())
		}
	})
}

// serveInside answers a CONNECT and serves a connection in it until it ends.
func serveInside(tk *task.Task, s *Stream, depth int, handle func(*task.Task, *Stream), h Handler) {
	if err := s.WriteHead(tk.Batch(), &Head{Status: 200}, false); err != nil {
		return
	}
	if h == nil {
		h = &events2{sched: tk.Scheduler(), handle: handle}
	}
	ended := &endWatch{Handler: h, w: tk}
	c := NewServer(s, Config{Depth: depth, Scheduler: tk.Scheduler()}, ended)
	Ride(tk.Batch(), c, s)
	for c.Err() == nil || s.ReadErr() == nil {
		if tk.Park() != nil {
			return
		}
	}
}

// endWatch wakes w when the connection changes.
type endWatch struct {
	Handler
	w task.Waker
}

func (e *endWatch) Changed(b *task.Batch, _ *Conn) { e.w.Wake(b) }

// clientInside opens a tunnel on c and a client in it. end ends both.
func clientInside(t *testing.T, tk *task.Task, c *Conn, depth int) (*Conn, func(tk *task.Task)) {
	s, err := c.Open(tk.Batch(), &Head{Method: "CONNECT", Authority: "a:1"}, false, tk)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := readHead(tk, s); err != nil || h.Status != 200 {
		t.Fatalf("head %v, %v", h, err)
	}
	inner := NewClient(s, Config{Depth: depth, Scheduler: tk.Scheduler()}, &endWatch{Handler: &events2{}, w: tk})
	Ride(tk.Batch(), inner, s)
	return inner, func(tk *task.Task) {
		inner.Drain(tk.Batch())
		for s.ReadErr() == nil {
			if tk.Park() != nil {
				return
			}
		}
		s.Done(tk.Batch())
	}
}

// pingPong writes body to s while it reads what comes back.
func pingPong(tk *task.Task, s *Stream, body []byte) []byte {
	var got []byte
	closed := false
	for {
		b := tk.Batch()
		n, err := s.Write(b, body)
		if body = body[n:]; err == nil && len(body) == 0 && !closed {
			closed = true
			_ = s.CloseWrite(b)
		}
		end := s.ReadErr()
		p := s.Peek()
		got = append(got, p...)
		s.Discard(b, len(p))
		if end != nil {
			return got
		}
		if len(p) == 0 && tk.Park() != nil {
			return got
		}
	}
}

func TestRideEndsWithItsStream(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c, s := d.open(t)
	var inner, innerServer *Conn
	d.turn(func(b *task.Batch) {
		inner = NewClient(c, Config{Depth: 1}, &events{})
		Ride(b, inner, c)
		innerServer = NewServer(s, Config{Depth: 1}, &events{})
		Ride(b, innerServer, s)
	})
	d.move()
	if !inner.Settled() || !innerServer.Settled() {
		t.Fatal("the inner connection did not begin")
	}
	d.turn(func(b *task.Batch) { s.Reset(b, Cancel) })
	d.move()
	if inner.Err() == nil || innerServer.Err() == nil {
		t.Errorf("the inner connection outlives its stream: %v, %v", inner.Err(), innerServer.Err())
	}
	if d.client.Err() != nil || d.server.Err() != nil || c.ReadErr() == io.EOF {
		t.Error("the outer connection or the kind of end is wrong")
	}
}
