package load

import (
	"errors"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// exchanger does exchanges, one after the other, on what it has connected to.
type exchanger interface {
	// connect opens what the exchanges need. It is called again after an error.
	connect(t *task.Task) error
	exchange(t *task.Task) error
	// close lets go; ended tells that the exchanges went well.
	close(t *task.Task, ended bool)
}

// worker has one exchange in flight at a time.
type worker struct {
	run  *Run
	tun  *tunnel
	ex   exchanger
	task *task.Task

	connected bool
	due       time.Duration // guarded by the queue's mu
	assigned  bool          // guarded by the queue's mu
}

// connection is the task of one connection in a tunnel: a worker of its own, or
// what starts those that share it.
func (r *Run) connection(tun *tunnel) task.Routine {
	switch r.spec.Protocol {
	case GRPCUnary, GRPCStream:
		return task.RoutineFunc(func(t *task.Task) { r.shared(t, tun) })
	case TCP:
		return &worker{run: r, tun: tun, ex: &tcp{run: r, tun: tun}}
	}
	return &worker{run: r, tun: tun, ex: newHTTP1(r, tun)}
}

// Run connects, and works until the run stops.
func (w *worker) Run(t *task.Task) {
	defer w.run.workers.Done()
	w.task = t
	var err error
	if !w.run.spec.OneShot {
		err = w.connect(t)
	}
	w.run.opened(err)
	if err != nil {
		return
	}
	w.work(t)
	if w.connected {
		w.ex.close(t, false)
	}
}

func (w *worker) connect(t *task.Task) error {
	err := w.ex.connect(t)
	w.connected = err == nil
	return err
}

func (w *worker) work(t *task.Task) {
	for !w.run.stopping.Load() {
		began := w.run.now()
		if w.run.spec.paced() {
			due, ok := w.run.queue.pull(w)
			if !ok {
				return
			}
			began = due
		}
		w.once(t, began)
	}
}

// once does an exchange and records it.
func (w *worker) once(t *task.Task, began time.Duration) {
	var err error
	if !w.connected {
		err = w.connect(t)
	}
	if err == nil {
		err = w.ex.exchange(t)
	}
	if w.run.stopping.Load() {
		return
	}
	if err == nil {
		w.tun.rec.done(w.run.now() - began)
	} else {
		w.tun.rec.failed(err)
	}
	w.run.next(t.Batch())
	if w.connected && (err != nil || w.run.spec.OneShot) {
		w.ex.close(t, err == nil)
		w.connected = false
	}
	if err != nil {
		w.pause(t)
	}
}

// retryAfter keeps a target that fails at once from taking all of the machine.
const retryAfter = 20 * time.Millisecond

func (w *worker) pause(t *task.Task) {
	t.SetDeadline(time.Now().Add(retryAfter))
	defer t.SetDeadline(time.Time{})
	for !w.run.stopping.Load() && t.Park() == nil {
		continue
	}
}

// tcp sends Upload bytes and takes them back.
type tcp struct {
	run *Run
	tun *tunnel
	s   *h2.Stream
}

func (c *tcp) connect(t *task.Task) (err error) {
	c.s, err = c.tun.connect(t, c.run.spec.Target)
	return err
}

var filler = make([]byte, 64<<10)

func (c *tcp) exchange(t *task.Task) error {
	for out, in := c.run.spec.Upload, c.run.spec.Upload; in > 0; {
		n, err := c.s.Write(t.Batch(), filler[:min(out, int64(len(filler)))])
		if err != nil {
			return err
		}
		out -= int64(n)
		c.tun.rec.sent.Add(int64(n))
		ended, got := c.s.ReadErr(), len(c.s.Peek())
		if got > 0 {
			c.s.Discard(t.Batch(), got)
			in -= int64(got)
			c.tun.rec.received.Add(int64(got))
		}
		switch {
		case in < 0:
			return errors.New("more bytes came back than were sent")
		case got == 0 && ended != nil:
			return ended
		case got == 0 && n == 0:
			if err := t.Park(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *tcp) close(t *task.Task, ended bool) { finish(t, c.s, ended) }

// finish lets go of a stream: in order, waiting for the other side to end too, or
// at once.
func finish(t *task.Task, s *h2.Stream, ended bool) {
	if ended && s.CloseWrite(t.Batch()) == nil {
		for s.ReadErr() == nil && t.Park() == nil {
			continue
		}
	}
	s.Done(t.Batch())
}
