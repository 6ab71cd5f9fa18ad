package l7

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// pipe is one end of a byte stream in memory: a task.Stream for the code under
// test, and a net.Conn (see conn) for the application or client at the other end.
// Both ends share one lock.
type pipe struct {
	mu    *sync.Mutex
	peer  *pipe
	in    []byte // unread
	buf   []byte // what in is a part of
	err   error  // what ended the incoming side
	limit int    // bytes that may wait to be read
	waker task.Waker
	shut  bool // our side was ended
}

var errPipeClosed = errors.New("pipe: write after its end")

func newPipe(limit int) (*pipe, *pipe) {
	mu := new(sync.Mutex)
	a, b := &pipe{mu: mu, limit: limit}, &pipe{mu: mu, limit: limit}
	a.peer, b.peer = b, a
	return a, b
}

func (p *pipe) Peek() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in
}

func (p *pipe) Discard(b *task.Batch, n int) {
	p.mu.Lock()
	p.in = p.in[n:]
	if len(p.in) == 0 {
		p.in = p.buf[:0]
	}
	w := p.peer.waker
	p.mu.Unlock()
	wake(b, w)
}

func (p *pipe) ReadErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *pipe) Write(b *task.Batch, d []byte) (int, error) {
	p.mu.Lock()
	if p.shut || p.peer.err != nil {
		p.mu.Unlock()
		return 0, errPipeClosed
	}
	n := min(len(d), max(p.peer.limit-len(p.peer.in), 0))
	p.peer.add(d[:n])
	w := p.peer.waker
	p.mu.Unlock()
	if n > 0 {
		wake(b, w)
	}
	return n, nil
}

// add appends to what is unread, in place if there is room.
func (p *pipe) add(d []byte) {
	if len(p.in)+len(d) > cap(p.in) {
		p.buf = append(make([]byte, 0, 2*(len(p.in)+len(d))), p.in...)
		p.in = p.buf
	}
	p.in = append(p.in, d...)
}

func (p *pipe) CloseWrite(b *task.Batch) error {
	p.mu.Lock()
	p.shut = true
	if p.peer.err == nil {
		p.peer.err = io.EOF
	}
	w := p.peer.waker
	p.mu.Unlock()
	wake(b, w)
	return nil
}

func (p *pipe) Abort(b *task.Batch, cause error) {
	p.mu.Lock()
	if p.shut && p.err == io.EOF { // ended both ways already
		p.mu.Unlock()
		return
	}
	p.shut, p.peer.shut = true, true
	p.err, p.in = cause, nil
	p.peer.err = &resetError{cause}
	w := p.peer.waker
	p.mu.Unlock()
	wake(b, w)
}

func (p *pipe) SetWaker(w task.Waker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waker = w
}

// Done implements task.Stream.
func (p *pipe) Done(b *task.Batch) {
	p.mu.Lock()
	over := p.shut && p.err != nil
	p.waker = nil
	p.mu.Unlock()
	if !over {
		p.Abort(b, h2.Cancel)
	}
}

func wake(b *task.Batch, w task.Waker) {
	if w != nil {
		w.Wake(b)
	}
}

// resetError is what the other end of an aborted pipe sees.
type resetError struct{ cause error }

func (e *resetError) Error() string { return "reset: " + e.cause.Error() }
func (e *resetError) Unwrap() error { return e.cause }

// pipeConn is a blocking view of a pipe, for net/http and for tests.
type pipeConn struct {
	*pipe
	sched    *task.Scheduler
	mu       sync.Mutex
	changed  chan struct{} // closed when something happens
	deadline time.Time
}

func (p *pipe) conn(s *task.Scheduler) *pipeConn {
	c := &pipeConn{pipe: p, sched: s, changed: make(chan struct{})}
	p.SetWaker(c)
	return c
}

// Wake implements task.Waker.
func (c *pipeConn) Wake(*task.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// listen returns a channel that is closed by what happens from now on.
func (c *pipeConn) listen() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *pipeConn) wait(changed <-chan struct{}) error {
	c.mu.Lock()
	at := c.deadline
	c.mu.Unlock()
	if at.IsZero() {
		<-changed
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-time.After(time.Until(at)):
		return os.ErrDeadlineExceeded
	}
}

func (c *pipeConn) Read(p []byte) (int, error) {
	for {
		changed := c.listen()
		err := c.ReadErr()
		if d := c.Peek(); len(d) > 0 {
			n := copy(p, d)
			c.sched.Turn(func(b *task.Batch) { c.Discard(b, n) })
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		if err := c.wait(changed); err != nil {
			return 0, err
		}
	}
}

func (c *pipeConn) Write(p []byte) (int, error) {
	for done := 0; ; {
		changed := c.listen()
		var n int
		var err error
		c.sched.Turn(func(b *task.Batch) { n, err = c.pipe.Write(b, p[done:]) })
		if done += n; done == len(p) || err != nil {
			return done, err
		}
		if err := c.wait(changed); err != nil {
			return done, err
		}
	}
}

func (c *pipeConn) CloseWrite() error {
	c.sched.Turn(func(b *task.Batch) { _ = c.pipe.CloseWrite(b) })
	return nil
}

func (c *pipeConn) Close() error {
	c.sched.Turn(func(b *task.Batch) {
		if c.ReadErr() == io.EOF {
			_ = c.pipe.CloseWrite(b)
			return
		}
		c.Abort(b, io.ErrClosedPipe)
	})
	return nil
}

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	err := c.SetDeadline(t)
	c.Wake(nil)
	return err
}
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }
func (c *pipeConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
