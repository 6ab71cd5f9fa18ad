package hbone

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

var (
	clientID = identity.ID{TrustDomain: "cluster.local", Namespace: "a", ServiceAccount: "client"}
	serverID = identity.ID{TrustDomain: "cluster.local", Namespace: "b", ServiceAccount: "server"}
	trust    = identity.Trust{Domain: "cluster.local"}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a server and a dialer that trust each other.
type world struct {
	t      testing.TB
	sched  *task.Scheduler
	ca     *certs.CA
	client *certs.Current
	server *certs.Current
	srv    *Server
	addr   netip.AddrPort
	dialer *Dialer

	mu    sync.Mutex
	errs  []error // guarded by mu; of ServeConn
	conns sync.WaitGroup
}

type options struct {
	mode   task.Mode
	server ServerConfig
	dialer DialerConfig
}

// newWorld serves h on a loopback port.
func newWorld(t testing.TB, o options, h func(w *world) Handler) *world {
	t.Helper()
	ca, err := certs.NewCA()
	must(t, err)
	w := &world{t: t, sched: task.NewScheduler(o.mode), ca: ca, client: new(certs.Current), server: new(certs.Current)}
	w.renew(w.client, ca, clientID)
	w.renew(w.server, ca, serverID)
	o.server.Scheduler, o.dialer.Scheduler = w.sched, w.sched
	o.server.TLS = identity.ServerConfig(w.server, trust)
	o.dialer.Source, o.dialer.Trust = w.client, trust
	w.srv = NewServer(o.server, h(w))
	w.dialer = NewDialer(o.dialer)
	l, err := wire.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	w.addr = addrPort(l.Addr())
	w.conns.Go(func() { w.accept(l) })
	t.Cleanup(func() {
		l.Close()
		w.dialer.Close()
		w.srv.Close()
		w.conns.Wait()
		w.sched.Close()
	})
	return w
}

func (w *world) accept(l *net.TCPListener) {
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			return
		}
		w.conns.Go(func() {
			if err := w.srv.ServeConn(tcp); err != nil {
				w.mu.Lock()
				w.errs = append(w.errs, err)
				w.mu.Unlock()
			}
		})
	}
}

// renew stores a new certificate of ca for id, with the roots of all given.
func (w *world) renew(s *certs.Current, ca *certs.CA, id identity.ID, more ...*certs.CA) {
	w.t.Helper()
	cert, err := ca.Issue(id, time.Hour)
	must(w.t, err)
	roots := []*x509.Certificate{ca.Root}
	for _, m := range more {
		roots = append(roots, m.Root)
	}
	s.Store(cert, roots)
}

func (w *world) destination() Destination { return NewDestination(w.addr, serverID) }

// run runs fn as a task and returns a channel with its error.
func (w *world) run(fn func(t *task.Task) error) <-chan error {
	done := make(chan error, 1)
	w.sched.Turn(func(b *task.Batch) {
		w.sched.Start(b, task.RoutineFunc(func(t *task.Task) { done <- fn(t) }))
	})
	return done
}

func (w *world) wait(done <-chan error) error {
	w.t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		w.t.Fatal("a task did not end")
		return nil
	}
}

func (w *world) do(fn func(t *task.Task) error) error {
	w.t.Helper()
	return w.wait(w.run(fn))
}

// open opens a stream and leaves it with nobody as its waker.
func (w *world) open(authority string) (s *Stream, err error) {
	w.t.Helper()
	err = w.do(func(t *task.Task) error {
		var err error
		s, err = w.dialer.Open(t, w.destination(), authority, nil)
		if s != nil {
			s.SetWaker(nil)
		}
		return err
	})
	return s, err
}

func (w *world) turn(fn func(b *task.Batch)) { w.sched.Turn(fn) }

func (w *world) done(s *Stream) { w.turn(s.Done) }

// serving runs each stream as a task after it was accepted.
func serving(routine func(t *task.Task, s *Stream) error) func(w *world) Handler {
	return func(w *world) Handler {
		return HandlerFunc(func(b *task.Batch, s *Stream) {
			w.sched.Start(b, task.RoutineFunc(func(t *task.Task) {
				s.SetWaker(t)
				defer func() { s.Done(t.Batch()) }()
				if err := routine(t, s); err != nil {
					s.Abort(t.Batch(), err)
				}
			}))
		})
	}
}

// echo accepts, sends back what it reads, and ends after the peer.
func echo(t *task.Task, s *Stream) error {
	if err := s.Accept(t.Batch()); err != nil {
		return err
	}
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

// silent accepts and then only waits for the end.
func silent(t *task.Task, s *Stream) error {
	if err := s.Accept(t.Batch()); err != nil {
		return err
	}
	for s.ReadErr() == nil {
		if err := t.Park(); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads to the end.
func readAll(t *task.Task, s task.Stream) ([]byte, error) {
	var got []byte
	for {
		err := task.ReadMore(t, s, 0)
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		p := s.Peek()
		got = append(got, p...)
		s.Discard(t.Batch(), len(p))
	}
}

func payload(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i * 7 >> (i % 3))
	}
	return p
}

func bothModes(t *testing.T, test func(t *testing.T, mode task.Mode)) {
	for _, mode := range []task.Mode{task.Coroutines, task.Goroutines} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

func wantFailure(t testing.TB, err error, want Failure) *OpenError {
	t.Helper()
	e, ok := errors.AsType[*OpenError](err)
	if !ok || e.Failure != want {
		t.Fatalf("got %v, want the failure %q", err, want)
	}
	return e
}

// exchange writes out and reads to the end, at once.
func exchange(t *task.Task, s task.Stream, out []byte) ([]byte, error) {
	s.SetWaker(t)
	var in []byte
	for ended := false; ; {
		if len(out) > 0 {
			n, err := s.Write(t.Batch(), out)
			if err != nil {
				return in, err
			}
			if out = out[n:]; len(out) == 0 {
				if err := s.CloseWrite(t.Batch()); err != nil {
					return in, err
				}
			}
		}
		err := s.ReadErr()
		p := s.Peek()
		in = append(in, p...)
		s.Discard(t.Batch(), len(p))
		if err != nil && err != io.EOF {
			return in, err
		}
		if ended = err == io.EOF; ended && len(out) == 0 {
			return in, nil
		}
		if err := t.Park(); err != nil {
			return in, err
		}
	}
}
