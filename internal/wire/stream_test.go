package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// openStream returns a Stream with its reader running, and its peer.
func openStream(t testing.TB, mode task.Mode) (*Stream, *net.TCPConn, *task.Scheduler) {
	t.Helper()
	a, b := sockets(t)
	sched := task.NewScheduler(mode)
	t.Cleanup(sched.Close)
	c, err := Plain(sched, b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := NewStream(c)
	left := make(chan struct{})
	go func() { s.Serve(); close(left) }()
	t.Cleanup(func() {
		sched.Turn(func(b *task.Batch) { s.Abort(b, nil) })
		<-left
	})
	return s, a, sched
}

// within runs r as a task and waits for its end.
func within(t testing.TB, sched *task.Scheduler, r func(t *task.Task) error) error {
	t.Helper()
	done := make(chan error, 1)
	sched.Turn(func(b *task.Batch) {
		sched.Start(b, task.RoutineFunc(func(t *task.Task) { done <- r(t) }))
	})
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("the task did not end")
		return nil
	}
}

func bothModes(t *testing.T, test func(t *testing.T, mode task.Mode)) {
	for _, mode := range []task.Mode{task.Coroutines, task.Goroutines} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

// echo sends back what it reads and then its own end.
func echo(s *Stream) func(t *task.Task) error {
	return func(t *task.Task) error {
		s.SetWaker(t)
		for {
			err := task.ReadMore(t, s, 0)
			if err == io.EOF {
				return s.CloseWrite(t.Batch())
			}
			if err != nil {
				return err
			}
			p := s.Peek()
			if err := task.WriteAll(t, s, p); err != nil {
				return err
			}
			s.Discard(t.Batch(), len(p))
		}
	}
}

func TestStreamEcho(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		s, peer, sched := openStream(t, mode)
		want := payload(16 << 20)
		go func() {
			peer.Write(want)
			peer.CloseWrite()
		}()
		got := make(chan []byte, 1)
		go func() {
			p, err := io.ReadAll(peer)
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
		if err := within(t, sched, echo(s)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(<-got, want) {
			t.Error("bytes were lost or changed")
		}
	})
}

func TestStreamStopsReadingAtItsBound(t *testing.T) {
	s, peer, sched := openStream(t, task.Coroutines)
	sent := make(chan int, 1)
	want := payload(32 << 20)
	go func() {
		peer.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, _ := peer.Write(want)
		sent <- n
	}()
	n := <-sent
	if n == len(want) {
		t.Fatal("the peer was never held back")
	}
	if have := len(s.Peek()); have < readBound || have > readBound+readSize {
		t.Errorf("%d bytes are kept unread, want about %d", have, readBound)
	}
	peer.CloseWrite()
	total := 0
	err := within(t, sched, func(t *task.Task) error {
		s.SetWaker(t)
		for {
			if err := task.ReadMore(t, s, 0); err != nil {
				return err
			}
			p := s.Peek()
			if !bytes.Equal(p, want[total:total+len(p)]) {
				return errors.New("bytes changed")
			}
			total += len(p)
			s.Discard(t.Batch(), len(p))
		}
	})
	if err != io.EOF || total != n {
		t.Errorf("read %d of %d, then %v", total, n, err)
	}
}

func waiting(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

func TestStreamHoldsBackAWriter(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		s, peer, sched := openStream(t, mode)
		const size = 64 << 20
		var total int64
		read := make(chan error, 1)
		go func() {
			for end := time.Now().Add(patience); waiting(s.c) < highWater && time.Now().Before(end); {
				<-time.After(time.Millisecond)
			}
			var err error
			total, err = io.Copy(io.Discard, peer)
			read <- err
		}()
		chunk := payload(10 << 10) // below direct: it is collected
		err := within(t, sched, func(t *task.Task) error {
			s.SetWaker(t)
			for left := size; left > 0; {
				n, err := s.Write(t.Batch(), chunk[:min(left, len(chunk))])
				if err != nil {
					return err
				}
				left -= n
				if n < len(chunk) && left > 0 {
					if err := t.Park(); err != nil {
						return err
					}
				}
			}
			return s.CloseWrite(t.Batch())
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil || total != size {
			t.Errorf("%d of %d bytes, %v", total, size, err)
		}
	})
}

func TestStreamAbort(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		s, peer, sched := openStream(t, mode)
		why := errors.New("policy changed")
		timer := time.AfterFunc(20*time.Millisecond, func() {
			sched.Turn(func(b *task.Batch) { s.Abort(b, why) })
		})
		defer timer.Stop()
		err := within(t, sched, func(t *task.Task) error {
			s.SetWaker(t)
			return task.ReadMore(t, s, 0)
		})
		if err != why {
			t.Errorf("the task got %v, want the cause", err)
		}
		if _, err := peer.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("the peer read %v, want a reset", err)
		}
	})
}

func TestStreamPeerReset(t *testing.T) {
	s, peer, sched := openStream(t, task.Coroutines)
	peer.SetLinger(0)
	peer.Close()
	err := within(t, sched, func(t *task.Task) error {
		s.SetWaker(t)
		return task.ReadMore(t, s, 0)
	})
	if err == nil || err == io.EOF {
		t.Errorf("got %v, want a reset", err)
	}
}

// What Peek returned stays as it is while more arrives.
func TestPeekIsStable(t *testing.T) {
	s, peer, _ := openStream(t, task.Coroutines)
	wake := make(signal, 1)
	s.SetWaker(wake)
	first := []byte("first")
	peer.Write(first)
	<-wake
	for len(s.Peek()) < len(first) {
		<-wake
	}
	before := s.Peek()
	more := payload(40 << 10)
	go peer.Write(more)
	for len(s.Peek()) < len(first)+len(more) {
		<-wake
	}
	if !bytes.Equal(before, first) {
		t.Errorf("peeked bytes changed to %q", before)
	}
	s.c.sched.Turn(func(b *task.Batch) { s.Discard(b, len(first)) })
	if !bytes.Equal(s.Peek(), more) {
		t.Error("bytes after a discard are not the ones that follow")
	}
}

// Done after our end: the peer gets all that was written, and its own end is
// waited for; without our end it is a reset.
func TestStreamDone(t *testing.T) {
	want := payload(300 << 10)
	s, peer, sched := openStream(t, task.Coroutines)
	err := within(t, sched, func(t *task.Task) error {
		s.SetWaker(t)
		if err := task.WriteAll(t, s, want); err != nil {
			return err
		}
		err := s.CloseWrite(t.Batch())
		s.Done(t.Batch())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	peer.Write(payload(1 << 10)) // dropped, and no reason for a reset
	if got, err := io.ReadAll(peer); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the peer got %d of %d bytes, %v", len(got), len(want), err)
	}

	s, peer, sched = openStream(t, task.Coroutines)
	sched.Turn(s.Done)
	if _, err := peer.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the peer of a stream that was open read %v, want a reset", err)
	}
}
