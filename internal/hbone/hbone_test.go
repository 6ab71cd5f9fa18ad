package hbone

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

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
