package hbone

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

func TestThereAndBack(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		w := newWorld(t, options{mode: mode}, serving(func(t *task.Task, s *Stream) error {
			if s.Peer != clientID || s.Target.String() != "10.1.2.3:80" || !s.PeerAddr.Addr().IsLoopback() {
				return fmt.Errorf("stream %+v", s)
			}
			if s.Baggage != "service.name=a,service.name=b" || s.Traceparent != "00-x" || ParseForwarded(s.Forwarded).Host != "h" {
				return fmt.Errorf("fields %q %q %q", s.Baggage, s.Traceparent, s.Forwarded)
			}
			return echo(t, s)
		}))
		want := payload(20 << 20)
		err := w.do(func(t *task.Task) error {
			s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:80", []Field{
				{"baggage", "service.name=a"}, {"baggage", "service.name=b"}, {"forwarded", "host=h"}, {"traceparent", "00-x"},
			})
			if err != nil {
				return err
			}
			defer func() { s.Done(t.Batch()) }()
			if s.Peer != serverID || s.PeerAddr != w.addr {
				return fmt.Errorf("stream %+v", s)
			}
			got, err := exchange(t, s, want)
			if err == nil && !bytes.Equal(got, want) {
				err = fmt.Errorf("%d bytes came back of %d, or changed ones", len(got), len(want))
			}
			return err
		})
		must(t, err)
		if st := w.dialer.Stats(); st.Tunnels != 1 || st.Streams != 0 || st.Dials != 1 || st.DialsFailed != 0 {
			t.Errorf("dialer: %+v", st)
		}
		if st := w.srv.Stats(); st.Connections != 1 || st.Streams != 1 || st.Accepted != 1 {
			t.Errorf("server: %+v", st)
		}
	})
}

// Each side may end its direction long before the other.
func TestHalfClose(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		want := payload(20 << 20)
		if mode == task.Goroutines {
			want = want[:2<<20]
		}
		w := newWorld(t, options{mode: mode}, serving(func(t *task.Task, s *Stream) error {
			if err := s.Accept(t.Batch()); err != nil {
				return err
			}
			if s.Target.Host == "server-first" {
				if err := s.CloseWrite(t.Batch()); err != nil {
					return err
				}
			}
			got, err := readAll(t, s)
			if err != nil || !bytes.Equal(got, want) {
				return fmt.Errorf("%d bytes, %w", len(got), err)
			}
			if s.Target.Host == "server-first" {
				return nil
			}
			if err := task.WriteAll(t, s, want); err != nil {
				return err
			}
			return s.CloseWrite(t.Batch())
		}))
		for _, first := range []string{"client-first", "server-first"} {
			err := w.do(func(t *task.Task) error {
				s, err := w.dialer.Open(t, w.destination(), first+":80", nil)
				if err != nil {
					return err
				}
				defer func() { s.Done(t.Batch()) }()
				if first == "server-first" {
					if err := task.ReadMore(t, s, 0); err != io.EOF {
						return fmt.Errorf("the server's end is %w", err)
					}
				}
				if err := task.WriteAll(t, s, want); err != nil {
					return err
				}
				if err := s.CloseWrite(t.Batch()); err != nil {
					return err
				}
				got, err := readAll(t, s)
				if err == nil && first == "client-first" && !bytes.Equal(got, want) {
					err = fmt.Errorf("%d bytes came back of %d", len(got), len(want))
				}
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", first, err)
			}
		}
	})
}

func TestRejected(t *testing.T) {
	w := newWorld(t, options{}, func(*world) Handler {
		return HandlerFunc(func(b *task.Batch, s *Stream) { s.Reject(b, int(s.Target.Port)) })
	})
	for _, status := range []int{401, 404, 503} {
		_, err := w.open(fmt.Sprintf("10.1.2.3:%d", status))
		if e := wantFailure(t, err, Status); e.Status != status {
			t.Errorf("status %d, want %d", e.Status, status)
		}
	}
	_, err := w.open("no-port")
	if e := wantFailure(t, err, Status); e.Status != 400 {
		t.Errorf("a bad authority gives %d, want 400", e.Status)
	}
	if st := w.dialer.Stats(); st.Dials != 1 || st.Streams != 0 {
		t.Errorf("%+v: want one tunnel for all, and no stream left", st)
	}
}

func TestIdentities(t *testing.T) {
	w := newWorld(t, options{}, serving(silent))
	other := serverID
	other.ServiceAccount = "other"
	open := func(dst Destination) error {
		return w.do(func(t *task.Task) error {
			s, err := w.dialer.Open(t, dst, "10.1.2.3:80", nil)
			if s != nil {
				s.Done(t.Batch())
			}
			return err
		})
	}
	must(t, open(NewDestination(w.addr, other, serverID)))
	must(t, open(NewDestination(w.addr, serverID, other)))
	must(t, open(AnyPeer(w.addr)))
	if st := w.dialer.Stats(); st.Tunnels != 2 {
		t.Errorf("%d tunnels, want one for the same identities in any order, and one for any", st.Tunnels)
	}
	e := wantFailure(t, open(NewDestination(w.addr, other)), PeerRefused)
	if m, ok := errors.AsType[*identity.MismatchError](e); !ok || m.Got != serverID {
		t.Errorf("got %v", e)
	}
	wantFailure(t, open(NewDestination(w.addr)), PeerRefused)

	// The server does not accept us: known only after our side's handshake.
	stranger, err := certs.NewCA()
	must(t, err)
	w.renew(w.client, stranger, clientID, w.ca)
	wantFailure(t, open(NewDestination(w.addr, serverID, clientID)), PeerRefused)
}

func TestDialFails(t *testing.T) {
	w := newWorld(t, options{dialer: DialerConfig{ConnectTimeout: 100 * time.Millisecond}}, serving(silent))
	open := func(addr netip.AddrPort) error {
		return w.do(func(t *task.Task) error {
			_, err := w.dialer.Open(t, NewDestination(addr, serverID), "10.1.2.3:80", nil)
			return err
		})
	}
	l, err := wire.Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	mute := addrPort(l.Addr())
	wantFailure(t, open(mute), DialTimeout) // nobody accepts: no handshake
	until(t, "the end of the dial", func() bool { return w.dialer.Stats().DialsFailed == 1 })
	l.Close()
	wantFailure(t, open(mute), DialFailed)
	if st := w.dialer.Stats(); st.DialsFailed != 2 || st.Tunnels != 0 {
		t.Errorf("%+v", st)
	}
	w.dialer.Close()
	wantFailure(t, open(w.addr), DialFailed)
}

func TestAnswerTimeoutAndCancel(t *testing.T) {
	w := newWorld(t, options{dialer: DialerConfig{ConnectTimeout: 100 * time.Millisecond}}, serving(func(t *task.Task, s *Stream) error {
		for s.ReadErr() == nil {
			if err := t.Park(); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err := w.open("10.1.2.3:80")
	wantFailure(t, err, AnswerTimeout)
	err = w.do(func(t *task.Task) error {
		t.SetDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := w.dialer.Open(t, w.destination(), "10.1.2.3:80", nil)
		return err
	})
	if e := wantFailure(t, err, Waited); !errors.Is(e, task.ErrDeadline) {
		t.Errorf("got %v", e)
	}
}

// 300 streams at once need several tunnels, dialled one after the other; all get
// through, and the peer's limit is never exceeded.
func TestManyStreams(t *testing.T) {
	bothModes(t, func(t *testing.T, mode task.Mode) {
		w := newWorld(t, options{mode: mode}, serving(echo))
		const n = 300
		ready, release := make(chan struct{}, n), make(chan struct{})
		var all []<-chan error
		for i := range n {
			all = append(all, w.run(func(t *task.Task) error {
				s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:80", nil)
				ready <- struct{}{}
				if err != nil {
					return err
				}
				t.Block(func() { <-release })
				defer func() { s.Done(t.Batch()) }()
				want := payload(1000 + i)
				got, err := exchange(t, s, want)
				if err == nil && !bytes.Equal(got, want) {
					err = errors.New("bytes changed")
				}
				return err
			}))
		}
		for range n {
			select {
			case <-ready:
			case <-time.After(patience):
				t.Fatal("a stream did not open")
			}
		}
		if st := w.dialer.Stats(); st.Tunnels != 3 || st.Streams != n {
			t.Errorf("%+v: want 3 tunnels of 100 streams", st)
		}
		close(release)
		for _, done := range all {
			must(t, w.wait(done))
		}
		if st := w.dialer.Stats(); st.Streams != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A peer's limit below ours is kept; who finds no place waits for one.
func TestPeerLimit(t *testing.T) {
	w := newWorld(t, options{
		server: ServerConfig{MaxStreams: 5},
		dialer: DialerConfig{MaxTunnels: 2},
	}, serving(echo))
	first, err := w.open("10.1.2.3:80") // its settings are here after this
	must(t, err)
	w.done(first)
	const n = 50
	var all []<-chan error
	for range n {
		all = append(all, w.run(func(t *task.Task) error {
			s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:80", nil)
			if err != nil {
				return err
			}
			_, err = exchange(t, s, []byte("x"))
			s.Done(t.Batch())
			return err
		}))
	}
	refused := 0
	for _, done := range all {
		if err := w.wait(done); err != nil {
			wantFailure(t, err, Unprocessed) // before a new tunnel's settings came
			refused++
		}
	}
	if refused > n/2 {
		t.Errorf("%d of %d were refused", refused, n)
	}
	if st := w.dialer.Stats(); st.Tunnels > 2 {
		t.Errorf("%+v: more tunnels than allowed", st)
	}
}

func TestTooManyWait(t *testing.T) {
	w := newWorld(t, options{
		server: ServerConfig{MaxStreams: 1},
		dialer: DialerConfig{MaxTunnels: 1, MaxWaiting: 2, ConnectTimeout: 200 * time.Millisecond},
	}, serving(silent))
	s, err := w.open("10.1.2.3:80")
	must(t, err)
	var all []<-chan error
	for range 5 {
		all = append(all, w.run(func(t *task.Task) error {
			_, err := w.dialer.Open(t, w.destination(), "10.1.2.3:80", nil)
			return err
		}))
	}
	for _, done := range all {
		wantFailure(t, w.wait(done), Busy) // three at once, two after the timeout
	}
	w.done(s)
}

// A stalled reader costs its window and no more, and its neighbours nothing.
func TestStalledReader(t *testing.T) {
	w := newWorld(t, options{}, serving(func(t *task.Task, s *Stream) error {
		if s.Target.Port == 1 {
			return silent(t, s)
		}
		return echo(t, s)
	}))
	stalled, err := w.open("10.1.2.3:1")
	must(t, err)
	defer w.done(stalled)
	chunk, total := payload(64<<10), 0
	for n := 1; n > 0; {
		w.turn(func(b *task.Batch) {
			n, err = stalled.Write(b, chunk)
			must(t, err)
			total += n
		})
	}
	if total > 512<<10 {
		t.Errorf("%d bytes were taken for a reader that reads nothing", total)
	}
	want := payload(4 << 20)
	must(t, w.do(func(t *task.Task) error {
		s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:2", nil)
		if err != nil {
			return err
		}
		defer func() { s.Done(t.Batch()) }()
		got, err := exchange(t, s, want)
		if err == nil && !bytes.Equal(got, want) {
			err = errors.New("bytes changed")
		}
		return err
	}))
	if st := w.dialer.Stats(); st.Tunnels != 1 {
		t.Errorf("%+v", st)
	}
}

// A renewal cuts nothing; the next tunnel uses what is new.
func TestRotation(t *testing.T) {
	w := newWorld(t, options{}, serving(echo))
	next, err := certs.NewCA()
	must(t, err)
	old, err := w.open("10.1.2.3:80")
	must(t, err)
	w.renew(w.client, w.ca, clientID, next)
	w.renew(w.server, w.ca, serverID, next)
	w.renew(w.client, next, clientID, w.ca)
	w.renew(w.server, next, serverID)
	w.dialer.Forget(w.addr)
	fresh, err := w.open("10.1.2.3:80")
	must(t, err)
	w.done(fresh)
	got, err := []byte(nil), w.do(func(t *task.Task) error {
		got, err := exchange(t, old, []byte("still here"))
		if string(got) != "still here" {
			return fmt.Errorf("%q, %w", got, err)
		}
		return err
	})
	if err != nil {
		t.Errorf("the old tunnel: %q, %v", got, err)
	}
	w.done(old)
	if st := w.dialer.Stats(); st.Dials != 2 {
		t.Errorf("%+v: want two dials", st)
	}
	// A peer that knows only the new root refuses the old certificate.
	w.renew(w.client, w.ca, clientID, next)
	w.dialer.Forget(w.addr)
	_, err = w.open("10.1.2.3:80")
	wantFailure(t, err, PeerRefused)
}

func TestServerRefusesNonCONNECT(t *testing.T) {
	w := newWorld(t, options{}, serving(echo))
	config := identity.ClientConfig(w.client, func(identity.ID) error { return nil })
	status := getOverTLS(t, w.addr, config)
	if status != 404 {
		t.Errorf("GET in a tunnel gives %d, want 404", status)
	}
}

func TestHandshakeError(t *testing.T) {
	w := newWorld(t, options{server: ServerConfig{HandshakeTimeout: 50 * time.Millisecond}}, serving(echo))
	c, err := net.Dial("tcp", w.addr.String())
	must(t, err)
	defer c.Close()
	io.ReadAll(c) // until the server gives up
	tc := tls.Client(dial(t, w.addr), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	defer tc.Close()
	if _, err := tc.Read(make([]byte, 1)); err == nil {
		t.Error("a client without a certificate was served")
	}
	until(t, "two failed handshakes", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.errs) == 2
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.errs {
		if e, ok := errors.AsType[*HandshakeError](err); !ok || !e.Peer.IsValid() {
			t.Errorf("ServeConn returned %v", err)
		}
	}
	if n := w.srv.Stats().HandshakesFailed; n != 2 {
		t.Errorf("%d handshakes counted as failed, want 2", n)
	}
}
