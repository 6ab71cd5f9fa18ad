package hbone

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// The standard library's server as the other end: another HTTP/2 than ours, which
// answers CONNECT and ends a stream with END_STREAM and RST_STREAM(NO_ERROR).
func TestDialerToNetHTTP(t *testing.T) {
	w := newWorld(t, options{}, serving(echo))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{
		TLSConfig: identity.ServerConfig(w.server, trust),
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect || r.Host != "10.1.2.3:80" || r.Header.Get("Forwarded") == "" {
				rw.WriteHeader(http.StatusTeapot)
				return
			}
			rw.WriteHeader(http.StatusOK)
			flush := http.NewResponseController(rw).Flush
			must(t, flush())
			p := make([]byte, 4<<10)
			for {
				n, err := r.Body.Read(p)
				if _, werr := rw.Write(p[:n]); werr != nil || err != nil {
					return
				}
				if flush() != nil {
					return
				}
			}
		}),
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
	dst := NewDestination(addrPort(l.Addr()), serverID)
	want := payload(4 << 20)
	must(t, w.do(func(t *task.Task) error {
		s, err := w.dialer.Open(t, dst, "10.1.2.3:80", []Field{{"forwarded", "host=x"}})
		if err != nil {
			return err
		}
		defer func() { s.Done(t.Batch()) }()
		got, err := exchange(t, s, want)
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes of %d, %w", len(got), len(want), err)
		}
		return nil
	}))
	err = w.do(func(t *task.Task) error {
		_, err := w.dialer.Open(t, dst, "10.1.2.3:81", nil)
		return err
	})
	if e := wantFailure(t, err, Status); e.Status != http.StatusTeapot {
		t.Errorf("status %d", e.Status)
	}
	w.dialer.Close()
}

// A request body that ends before the response does is a half-close to us.
func TestServerToNetHTTP(t *testing.T) {
	w := newWorld(t, options{}, serving(echo))
	transport := &http.Transport{
		TLSClientConfig:   identity.ClientConfig(w.client, func(identity.ID) error { return nil }),
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	want := payload(4 << 20)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "https://"+w.addr.String(), bytes.NewReader(want))
	must(t, err)
	req.Host = "10.1.2.3:80"
	resp, err := transport.RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !bytes.Equal(got, want) {
		t.Errorf("status %d, %d bytes of %d, %v", resp.StatusCode, len(got), len(want), err)
	}
}
