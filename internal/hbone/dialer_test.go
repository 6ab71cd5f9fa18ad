package hbone

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

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
