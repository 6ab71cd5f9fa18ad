package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Both peers write more than all buffers hold before either reads: nothing may
// block the reader.
func TestHugeWritesBothWays(t *testing.T) {
	want := payload(8 << 20)
	run := func(t *testing.T, c *Conn, peer net.Conn, peerEnd func() error) {
		r := serve(t, c)
		done := make(chan error, 2)
		go func() {
			_, err := peer.Write(want)
			done <- errors.Join(err, peerEnd())
		}()
		go func() {
			err := writeAll(t, c, want)
			closeWrite(t, c)
			done <- err
		}()
		got, err := io.ReadAll(peer)
		if err := errors.Join(err, <-done, <-done); err != nil {
			t.Fatal(err)
		}
		if err := r.closed(t); err != io.EOF {
			t.Errorf("the reader ended with %v", err)
		}
		if !bytes.Equal(got, want) || !bytes.Equal(r.wait(len(want)), want) {
			t.Error("bytes were lost or changed")
		}
	}
	t.Run("TCP", func(t *testing.T) {
		c, peer := overTCP(t, Options{})
		run(t, c, peer, peer.CloseWrite)
	})
	t.Run("TLS", func(t *testing.T) {
		c, peer := overTLS(t, Options{})
		run(t, c, peer, peer.CloseWrite)
	})
}

// Readiness is told on edges: a FIN that comes with data must not be missed, nor
// one that is there before the reader is.
func TestFINWithData(t *testing.T) {
	for _, hinted := range []bool{true, false} {
		for range 50 {
			c, peer := overTCP(t, Options{})
			c.rd.hint.on = c.rd.hint.on && hinted
			if _, err := peer.Write([]byte("last words")); err != nil {
				t.Fatal(err)
			}
			peer.CloseWrite()
			r := serve(t, c)
			if err := r.closed(t); err != io.EOF || string(r.data) != "last words" {
				t.Fatalf("got %q, %v", r.data, err)
			}
		}
	}
	t.Run("later", func(t *testing.T) {
		c, peer := overTCP(t, Options{})
		r := serve(t, c)
		for i := range 20 {
			peer.Write([]byte("x"))
			r.wait(i + 1)
		}
		peer.CloseWrite()
		if err := r.closed(t); err != io.EOF {
			t.Errorf("got %v", err)
		}
	})
}

func TestHalfClose(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (*Conn, halfCloser){
		"TCP": func(t *testing.T) (*Conn, halfCloser) { c, p := overTCP(t, Options{}); return c, p },
		"TLS": func(t *testing.T) (*Conn, halfCloser) { c, p := overTLS(t, Options{}); return c, p },
	} {
		t.Run(name+", the peer first", func(t *testing.T) {
			c, peer := open(t)
			r := serve(t, c)
			peer.CloseWrite()
			if err := r.closed(t); err != io.EOF {
				t.Fatal(err)
			}
			want := payload(1 << 20)
			go func() {
				if err := writeAll(t, c, want); err != nil {
					t.Error(err)
				}
				closeWrite(t, c)
			}()
			if got, err := io.ReadAll(peer); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
			}
		})
		t.Run(name+", we first", func(t *testing.T) {
			c, peer := open(t)
			r := serve(t, c)
			closeWrite(t, c)
			if got, err := io.ReadAll(peer); err != nil || len(got) != 0 {
				t.Fatalf("%q, %v", got, err)
			}
			want := payload(1 << 20)
			if _, err := peer.Write(want); err != nil {
				t.Fatal(err)
			}
			peer.CloseWrite()
			if err := r.closed(t); err != io.EOF || !bytes.Equal(r.data, want) {
				t.Errorf("%d bytes of %d, %v", len(r.data), len(want), err)
			}
			c.sched.Turn(func(b *task.Batch) {
				if _, err := c.Write(b, []byte("x")); err == nil {
					t.Error("a write after CloseWrite has no error")
				}
			})
		})
	}
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func TestAbortResets(t *testing.T) {
	c, peer := overTCP(t, Options{})
	r := serve(t, c)
	why := errors.New("policy changed")
	c.sched.Turn(func(b *task.Batch) { c.Abort(b, why) })
	if err := r.closed(t); err != why {
		t.Errorf("the receiver got %v, want the cause", err)
	}
	if _, err := peer.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the peer read %v, want a reset", err)
	}
	c.sched.Turn(func(b *task.Batch) {
		if _, err := c.Write(b, []byte("x")); err != why {
			t.Errorf("a write gives %v, want the cause", err)
		}
	})
}

// An abort from within the reader's own turn, and of a peer's connection from
// another's, must not wait for itself.
func TestAbortInsideATurn(t *testing.T) {
	one, peerOne := overTCP(t, Options{})
	two, peerTwo := overTCP(t, Options{})
	meet := new(sync.WaitGroup)
	meet.Add(2)
	cross := func(self, other *Conn) *collector {
		r := newCollector()
		r.then = func(b *task.Batch, _ []byte) error {
			meet.Done()
			meet.Wait() // both are inside their read callback now
			other.Abort(b, nil)
			self.Abort(b, nil)
			return nil
		}
		return r
	}
	a, b := cross(one, two), cross(two, one)
	a.serve(t, one)
	b.serve(t, two)
	peerOne.Write([]byte("x"))
	peerTwo.Write([]byte("x"))
	a.closed(t)
	b.closed(t)
}

func TestPeerReset(t *testing.T) {
	c, peer := overTCP(t, Options{})
	r := serve(t, c)
	peer.SetLinger(0)
	peer.Close()
	if err := r.closed(t); err == nil || err == io.EOF {
		t.Errorf("got %v, want a reset", err)
	}
}

// What is queued for a peer that does not read is bounded, and it is cut after
// the write timeout; both the writer and the receiver are told.
func TestStalledPeer(t *testing.T) {
	c, _ := overTLS(t, Options{WriteTimeout: 300 * time.Millisecond})
	r := serve(t, c)
	wrote := make(chan error, 1)
	go func() { wrote <- writeAll(t, c, payload(64<<20)) }()
	var err error
	for most, done := 0, false; !done; {
		select {
		case err = <-wrote:
			done = true
		case <-time.After(time.Millisecond):
			if most = max(most, waiting(c)); most > highWater+4<<10 {
				t.Fatalf("%d bytes wait, more than the bound", most)
			}
		}
	}
	if !errors.Is(err, ErrWriteTimeout) {
		t.Errorf("the writer got %v, want ErrWriteTimeout", err)
	}
	if err := r.closed(t); !errors.Is(err, ErrWriteTimeout) {
		t.Errorf("the receiver got %v, want ErrWriteTimeout", err)
	}
}

// An error of the receiver ends the reading; what it wrote before leaves.
func TestReceiverFails(t *testing.T) {
	c, peer := overTCP(t, Options{})
	r := newCollector()
	bad := errors.New("not my protocol")
	r.then = func(b *task.Batch, _ []byte) error {
		if _, err := c.Write(b, []byte("go away")); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(b); err != nil {
			t.Error(err)
		}
		return bad
	}
	r.serve(t, c)
	if _, err := peer.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(peer)
	if err != nil || string(got) != "go away" {
		t.Errorf("the peer got %q, %v", got, err)
	}
	if err := r.closed(t); err != bad {
		t.Errorf("the receiver's end is %v", err)
	}
}

// A connection whose both sides are over is closed without an abort, whether our
// side ended in order or broke.
func TestClosesItself(t *testing.T) {
	gone := func(c *Conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.closed
	}
	t.Run("in order", func(t *testing.T) {
		c, peer := overTCP(t, Options{})
		r := serve(t, c)
		peer.CloseWrite()
		r.closed(t)
		if gone(c) {
			t.Error("closed while our side is open")
		}
		closeWrite(t, c)
		for !gone(c) {
			<-time.After(time.Millisecond)
		}
	})
	t.Run("broken", func(t *testing.T) {
		c, peer := overTCP(t, Options{})
		r := serve(t, c)
		peer.SetLinger(0)
		peer.Close()
		r.closed(t)
		for !gone(c) {
			<-time.After(time.Millisecond)
			c.sched.Turn(func(b *task.Batch) { c.Write(b, []byte("x")) })
		}
	})
}

func TestHandshakeTimeout(t *testing.T) {
	_, b := sockets(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	limit := NewHandshakes(1)
	if _, err := Server(ctx, newScheduler(t), b, testConfig(), limit, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if len(limit.slots) != 0 {
		t.Error("the slot was not given back")
	}
}

// A peer that says nothing holds no slot of the limit.
func TestSilentPeerDoesNotBlockHandshakes(t *testing.T) {
	limit := NewHandshakes(1)
	_, silent := sockets(t)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		_, err := Server(ctx, task.NewScheduler(task.Coroutines), silent, testConfig(), limit, Options{})
		over <- err
	}()
	a, b := sockets(t)
	done := make(chan error, 1)
	go func() { done <- tls.Client(a, testConfig()).Handshake() }()
	in, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if _, err := Server(in, newScheduler(t), b, testConfig(), limit, Options{}); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the silent one ended with %v", err)
	}
}

func TestAddresses(t *testing.T) {
	c, peer := overTCP(t, Options{})
	if got := c.RemoteAddr(); got != netip.MustParseAddrPort(peer.LocalAddr().String()) {
		t.Errorf("RemoteAddr = %v", got)
	}
	if got := c.LocalAddr(); got != netip.MustParseAddrPort(peer.RemoteAddr().String()) {
		t.Errorf("LocalAddr = %v", got)
	}
}
