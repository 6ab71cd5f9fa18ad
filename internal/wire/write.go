package wire

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// maxChunk is how much is encrypted before the socket is offered it: four
// records.
const maxChunk = 64 << 10

// Write takes as much of p as may wait, and offers it to the socket at once. Less
// than len(p) without an error means that the peer is slow: the waker is told
// when there is space.
func (c *Conn) Write(b *task.Batch, p []byte) (n int, err error) {
	for n < len(p) {
		room, err := c.room()
		if err != nil || room == 0 {
			return n, err
		}
		chunk := p[n:min(len(p), n+room, n+maxChunk)]
		if c.tls == nil {
			err = c.writeThrough(chunk)
		} else {
			_, err = c.tls.Write(chunk) // calls enqueue, once a record
		}
		if err != nil {
			return n, err
		}
		n += len(chunk)
		c.send(b)
	}
	return n, c.writeErr()
}

// room returns how much more may wait; zero after it noted to wake the waker.
func (c *Conn) room() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return 0, c.err
	case c.fin:
		return 0, ErrClosed
	case c.queued >= highWater:
		c.starved = true
		return 0, nil
	}
	return highWater - c.queued, nil
}

func (c *Conn) writeErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// writeThrough offers p to the socket without a copy if nothing waits before it,
// and keeps what is left.
func (c *Conn) writeThrough(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil && !c.flushing && c.err == nil {
		n, err := c.attempt.try(c, p)
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			c.failLocked(err)
			return c.err
		}
		p = p[n:]
	}
	return c.enqueueLocked(p)
}

// enqueue copies p behind what waits. Only crypto/tls gets beyond highWater here,
// by the overhead of a few records and by alerts.
func (c *Conn) enqueue(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enqueueLocked(p)
}

func (c *Conn) enqueueLocked(p []byte) error {
	if c.err != nil || len(p) == 0 {
		return c.err
	}
	if c.queue == nil {
		c.queue = getBuffer()
	}
	c.queue.b = append(c.queue.b, p...)
	c.queued += len(p)
	return nil
}

func (c *Conn) dropQueueLocked() {
	if c.queue != nil {
		c.queued -= len(c.queue.b)
		putBuffer(c.queue)
		c.queue = nil
	}
}

// send offers what waits to the socket, unless a flusher does that already.
func (c *Conn) send(b *task.Batch) {
	c.mu.Lock()
	var w task.Waker
	if !c.flushing && c.queue != nil {
		w = c.sendLocked()
	}
	c.mu.Unlock()
	if w != nil {
		w.Wake(b)
	}
}

// sendLocked returns whom to wake once mu is released.
func (c *Conn) sendLocked() task.Waker {
	n, err := c.attempt.try(c, c.queue.b)
	switch {
	case err != nil && !errors.Is(err, syscall.EAGAIN):
		return c.failLocked(err)
	case n == len(c.queue.b):
		c.dropQueueLocked()
		return c.drainedLocked()
	}
	rest := copy(c.queue.b, c.queue.b[n:])
	c.queue.b = c.queue.b[:rest]
	c.queued -= n
	c.flushing = true
	c.inside++
	go c.flush()
	return nil
}

// failLocked notes that writing has failed. The reader is left alone: what the
// peer said before it went is worth reading.
func (c *Conn) failLocked(err error) task.Waker {
	if c.err == nil {
		c.err = fmt.Errorf("writing to %s: %w", c.RemoteAddr(), err)
	}
	c.dropQueueLocked()
	c.settleLocked()
	return c.waker
}

// drainedLocked sends the FIN that waited behind the output, and returns whom to
// wake if a write was refused.
func (c *Conn) drainedLocked() task.Waker {
	if c.fin && c.queued == 0 && !c.finSent {
		c.finLocked()
	}
	if c.starved && c.queued <= lowWater {
		c.starved = false
		return c.waker
	}
	return nil
}

// CloseWrite ends our side after what was written.
func (c *Conn) CloseWrite(b *task.Batch) error {
	c.mu.Lock()
	err, again := c.err, c.fin
	c.mu.Unlock()
	if err != nil || again {
		return err
	}
	if c.tls != nil {
		if err := c.tls.CloseWrite(); err != nil {
			return err
		}
		c.send(b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fin = true
	if c.queued == 0 && !c.finSent && c.err == nil {
		c.finLocked()
	}
	return c.err
}

func (c *Conn) finLocked() {
	c.finSent = true
	if err := c.tcp.CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		c.failLocked(err)
	}
	c.settleLocked()
}

// writeAttempt is one write that does not wait, without an allocation: the
// function is made once.
type writeAttempt struct {
	run func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

func (a *writeAttempt) write(fd uintptr) bool {
	a.n, a.err = writeSocket(int(fd), a.p)
	return true
}

func (a *writeAttempt) try(c *Conn, p []byte) (int, error) {
	a.p, a.n, a.err = p, 0, nil
	if err := c.raw.Write(a.run); err != nil {
		a.err = err
	}
	a.p = nil
	return a.n, a.err
}

// writeSocket writes once without blocking.
func writeSocket(fd int, p []byte) (int, error) {
	for {
		n, err := writeOnce(fd, p)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// flush is the flusher: it waits for the socket until nothing waits.
func (c *Conn) flush() {
	defer c.leave()
	for {
		out := c.takeQueue()
		if out == nil {
			return
		}
		for p := out.b; len(p) > 0; {
			n, err := c.writeSome(p)
			c.progress(n, err)
			if err != nil {
				break
			}
			p = p[n:]
		}
		putBuffer(out)
	}
}

// takeQueue takes over what waits, or ends the flushing.
func (c *Conn) takeQueue() *buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil && c.err == nil {
		out := c.queue
		c.queue = nil
		return out
	}
	c.flushing = false
	c.dropQueueLocked()
	if !c.aborted {
		_ = c.tcp.SetWriteDeadline(time.Time{}) // fails only if the connection is gone
	}
	return nil
}

// writeSome waits for the socket to take at least a part of p.
func (c *Conn) writeSome(p []byte) (n int, err error) {
	if err := c.armWrite(); err != nil {
		return 0, err
	}
	waitErr := c.raw.Write(func(fd uintptr) bool {
		n, err = writeSocket(int(fd), p)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// armWrite sets the deadline of the next wait, unless an abort has set its own.
func (c *Conn) armWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return c.tcp.SetWriteDeadline(time.Now().Add(c.timeout))
}

// progress accounts for what the flusher wrote, and wakes who waits for space.
func (c *Conn) progress(n int, err error) {
	c.mu.Lock()
	c.queued -= n
	var w task.Waker
	switch {
	case err == nil:
		w = c.drainedLocked()
	case isTimeout(err):
		w = c.abortLocked(fmt.Errorf("%s for %s: %w", c.RemoteAddr(), c.timeout, ErrWriteTimeout))
	default:
		w = c.failLocked(err)
	}
	c.mu.Unlock()
	if w != nil {
		c.sched.Turn(w.Wake)
	}
}
