package wire

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// turnBudget is how much one turn reads before it runs what became ready, and
// lets other goroutines have the core.
const turnBudget = 128 << 10

// errDrained says that the socket has nothing more now. crypto/tls goes on after
// a temporary net.Error, with what it has of a record kept.
var errDrained error = drained{}

type drained struct{}

func (drained) Error() string   { return "no more input at the moment" }
func (drained) Timeout() bool   { return false }
func (drained) Temporary() bool { return true }

// reader is the state of a connection's reader.
type reader struct {
	fd      int  // valid inside the read callback
	drained bool // the socket had no more when last read; reset by readiness
	hint    hint // how the kernel tells that without another read
}

func (r *reader) init(raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) { r.hint.init(int(fd)) })
}

// Serve reads on the calling goroutine and hands everything to h, until the peer
// ends its side, h has an error, or the connection breaks or is aborted. h.Closed
// has been called when it returns. The connection itself is closed when both
// sides have ended, or by Abort.
func (c *Conn) Serve(h Receiver) {
	c.mu.Lock()
	c.inside++
	c.mu.Unlock()
	b := c.sched.NewBatch()
	err := c.read(b, h)
	if cause := c.cause(); cause != nil {
		err = cause
	}
	h.Closed(b, err)
	b.Run()
	c.mu.Lock()
	c.readDone = true
	c.mu.Unlock()
	c.leave()
}

// read returns why there is nothing more to read.
func (c *Conn) read(b *task.Batch, h Receiver) error {
	var err error
	turn := func(fd uintptr) bool {
		c.rd.fd, c.rd.drained = int(fd), false
		err = c.turn(b, h)
		return err != nil || c.stopped()
	}
	for {
		// Everything happens in here. It returns false to wait for the socket
		// and true to leave.
		if waitErr := c.raw.Read(turn); err == nil && waitErr != nil {
			err = waitErr
		}
		if err != nil || c.cause() != nil {
			return err
		}
		c.waitResumed()
	}
}

// turn reads until the socket is drained, in portions of the budget. Each
// portion is followed by a run of the batch.
func (c *Conn) turn(b *task.Batch, h Receiver) error {
	buf := readBuffers.Get().(*[readSize]byte)
	defer readBuffers.Put(buf)
	for got := 0; ; {
		n, err := c.readOnce(buf[:])
		if n > 0 {
			got += n
			if failed := h.Receive(b, buf[:n]); failed != nil {
				err = failed
			}
		}
		if err == nil && got < turnBudget && !c.stopped() {
			continue
		}
		c.send(b) // what crypto/tls wrote while it read
		b.Run()
		switch {
		case errors.Is(err, errDrained):
			return nil
		case err != nil || c.stopped():
			return err
		}
		got = 0
		runtime.Gosched()
	}
}

func (c *Conn) readOnce(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.receive(p)
}

// receive reads from the socket without blocking.
func (c *Conn) receive(p []byte) (int, error) {
	if c.rd.drained {
		return 0, errDrained
	}
	for {
		n, more, err := c.rd.hint.read(c.rd.fd, p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			c.rd.drained = true
			return 0, errDrained
		case err != nil:
			return 0, fmt.Errorf("reading from %s: %w", c.RemoteAddr(), err)
		case n == 0:
			return 0, io.EOF
		}
		c.rd.drained = !more
		return n, nil
	}
}

// pause has the reader stop after the current receive, until unpause.
func (c *Conn) pause() {
	c.mu.Lock()
	c.paused = true
	c.mu.Unlock()
}

func (c *Conn) unpause() {
	c.mu.Lock()
	c.unpauseLocked()
	c.mu.Unlock()
}

func (c *Conn) unpauseLocked() {
	c.paused = false
	select {
	case c.resume <- struct{}{}:
	default: // the reader has a signal to see already
	}
}

// waitResumed blocks the reader, which belongs to this connection alone.
func (c *Conn) waitResumed() {
	for c.isPaused() {
		<-c.resume
	}
}

func (c *Conn) isPaused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused
}
