package hbone

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

func dial(t testing.TB, addr netip.AddrPort) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	must(t, err)
	return c
}

// getOverTLS sends a GET with net/http and returns its status.
func getOverTLS(t testing.TB, addr netip.AddrPort, config *tls.Config) int {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+addr.String()+"/", nil)
	must(t, err)
	resp, err := transport.RoundTrip(req)
	must(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.After(patience); !ok(); {
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			t.Fatal("did not come: " + what)
		}
	}
}

// A connection that still shook hands when the server left is served, and told to go.
func TestLeave(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		w := newWorld(t, options{mode: mode}, serving(echo))
		w.srv.Leave()
		late, err := w.open("10.1.2.3:80")
		must(t, err)
		until(t, "GOAWAY", func() bool { return late.tunnel.h2.Draining() })
	})
}

// A drained connection serves the streams it has; new ones go on a new tunnel,
// and nothing is refused or lost meanwhile.
func TestDrain(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		w := newWorld(t, options{mode: mode}, serving(echo))
		old, err := w.open("10.1.2.3:80")
		must(t, err)
		w.srv.Drain()
		until(t, "GOAWAY", func() bool { return old.tunnel.h2.Draining() })
		fresh, err := w.open("10.1.2.3:80")
		must(t, err)
		if fresh.tunnel == old.tunnel {
			t.Error("a tunnel that was told to go away got a new stream")
		}
		must(t, w.do(func(t *task.Task) error {
			got, err := exchange(t, old, []byte("late"))
			if err == nil && string(got) != "late" {
				err = errors.New("bytes changed")
			}
			return err
		}))
		w.done(old)
		until(t, "the end of the drained tunnel", func() bool { return w.dialer.Stats().Tunnels == 1 })
		w.srv.Drain()
		w.done(fresh)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, w.srv.Wait(ctx))
	})
}

// Streams that are opened while the server drains again and again: none may be
// lost, for each GOAWAY names the last stream only after the client knew.
func TestDrainRace(t *testing.T) {
	w := newWorld(t, options{}, serving(echo))
	var stop atomic.Bool
	var opened atomic.Int64
	var all []<-chan error
	for range 8 {
		all = append(all, w.run(func(t *task.Task) error {
			for !stop.Load() {
				s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:80", nil)
				if err != nil {
					return err
				}
				got, err := exchange(t, s, []byte("hello"))
				s.Done(t.Batch())
				if err != nil {
					return err
				}
				if string(got) != "hello" {
					return errors.New("bytes were lost")
				}
				opened.Add(1)
			}
			return nil
		}))
	}
	for range 20 {
		before := opened.Load()
		until(t, "streams between two drains", func() bool { return opened.Load() > before+20 })
		w.srv.Drain()
	}
	stop.Store(true)
	for _, done := range all {
		if err := w.wait(done); err != nil {
			t.Errorf("a stream was lost to a drain: %v", err)
		}
	}
	if st := w.dialer.Stats(); st.Dials < 20 {
		t.Errorf("%+v: the drains had no effect", st)
	}
}

func TestServerClose(t *testing.T) {
	w := newWorld(t, options{}, serving(silent))
	s, err := w.open("10.1.2.3:80")
	must(t, err)
	if cut := w.srv.Close(); cut != 1 {
		t.Errorf("%d streams cut, want 1", cut)
	}
	err = w.do(func(t *task.Task) error {
		s.SetWaker(t)
		return task.ReadMore(t, s, 0)
	})
	if err == nil || err == io.EOF {
		t.Errorf("a stream that was cut reads %v, want an error", err)
	}
	w.done(s)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, w.srv.Wait(ctx))
	if late, err := w.open("10.1.2.3:80"); err == nil {
		w.done(late)
		t.Error("a closed server serves a new connection")
	}
}

func TestMaxAgeAndIdle(t *testing.T) {
	for name, config := range map[string]ServerConfig{
		"age":  {MaxAge: 50 * time.Millisecond},
		"idle": {IdleTimeout: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{server: config}, serving(echo))
			s, err := w.open("10.1.2.3:80")
			must(t, err)
			if name == "age" {
				until(t, "a GOAWAY", func() bool { return s.tunnel.h2.Draining() })
			}
			must(t, w.do(func(t *task.Task) error {
				_, err := exchange(t, s, []byte("x"))
				return err
			}))
			w.done(s)
			until(t, "the end of the tunnel", func() bool { return w.dialer.Stats().Tunnels == 0 })
		})
	}
}

func TestIdleTunnelsAreClosed(t *testing.T) {
	w := newWorld(t, options{dialer: DialerConfig{IdleTimeout: 50 * time.Millisecond}}, serving(echo))
	s, err := w.open("10.1.2.3:80")
	must(t, err)
	other, err := w.open("10.1.2.3:80")
	must(t, err)
	w.done(other)
	<-time.After(150 * time.Millisecond) // longer than idle: it must not count while a stream is open
	if st := w.dialer.Stats(); st.Tunnels != 1 {
		t.Fatalf("%+v: a tunnel in use was closed", st)
	}
	w.done(s)
	until(t, "the end of the idle tunnel", func() bool { return w.dialer.Stats().Tunnels == 0 })
	until(t, "an empty dialer", func() bool {
		w.dialer.mu.Lock()
		defer w.dialer.mu.Unlock()
		return len(w.dialer.pools) == 0
	})
	again, err := w.open("10.1.2.3:80")
	must(t, err)
	w.done(again)
}

func TestRetain(t *testing.T) {
	w := newWorld(t, options{}, serving(echo))
	s, err := w.open("10.1.2.3:80")
	must(t, err)
	w.dialer.Retain(func(netip.AddrPort) bool { return true })
	same, err := w.open("10.1.2.3:80")
	must(t, err)
	if same.tunnel != s.tunnel {
		t.Error("an address to keep was forgotten")
	}
	w.done(same)
	w.dialer.Retain(func(netip.AddrPort) bool { return false })
	other, err := w.open("10.1.2.3:80")
	must(t, err)
	if other.tunnel == s.tunnel {
		t.Error("a forgotten tunnel got a new stream")
	}
	w.done(s)
	w.done(other)
	until(t, "the end of the forgotten tunnel", func() bool { return w.dialer.Stats().Tunnels == 1 })
}

// How a peer's reset reads: NO_ERROR and CANCEL as an end, others as an error.
func TestResets(t *testing.T) {
	w := newWorld(t, options{}, serving(func(t *task.Task, s *Stream) error {
		if err := s.Accept(t.Batch()); err != nil {
			return err
		}
		if s.Target.Port == 1 {
			return nil // Done: CANCEL
		}
		return errors.New("broken upstream") // Abort: INTERNAL_ERROR
	}))
	read := func(port string) (code h2.ErrCode, err error) {
		s, err := w.open("10.1.2.3:" + port)
		must(t, err)
		defer w.done(s)
		err = w.do(func(t *task.Task) error {
			s.SetWaker(t)
			return task.ReadMore(t, s, 0)
		})
		code, _ = s.ResetCode()
		return code, err
	}
	if code, err := read("1"); err != io.EOF || code != h2.Cancel {
		t.Errorf("a dropped stream reads %v with code %v, want EOF and CANCEL", err, code)
	}
	if code, err := read("2"); err == nil || err == io.EOF || code != h2.InternalError {
		t.Errorf("an aborted stream reads %v with code %v, want an error and INTERNAL_ERROR", err, code)
	}
}

// A client that resets its stream has left: the server's side reads an error,
// whatever the code, but after an END_STREAM the end stays an end.
func TestClientResets(t *testing.T) {
	ends := make(chan error, 1)
	w := newWorld(t, options{}, serving(func(t *task.Task, s *Stream) error {
		err := s.Accept(t.Batch())
		if err == nil {
			err = task.ReadMore(t, s, 0)
		}
		ends <- err
		return err
	}))
	s, err := w.open("10.1.2.3:80")
	must(t, err)
	w.done(s)
	if err := <-ends; err == nil || err == io.EOF {
		t.Errorf("a reset reads %v, want an error", err)
	}
	s, err = w.open("10.1.2.3:80")
	must(t, err)
	w.turn(func(b *task.Batch) {
		must(t, s.CloseWrite(b))
		s.Done(b)
	})
	if err := <-ends; err != io.EOF {
		t.Errorf("an end before a reset reads %v, want EOF", err)
	}
}
