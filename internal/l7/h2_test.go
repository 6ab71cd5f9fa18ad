package l7

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// h2App serves with net/http, HTTP/2 without TLS.
func h2App(h http.HandlerFunc) func(*pipeConn) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	return func(c *pipeConn) { _ = srv.Serve(&oneConn{c: c}) }
}

// client returns a net/http client whose connections go through the rig.
func (r *rig) client(http2 bool) *http.Client {
	tr := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return r.connect(), nil },
		Protocols:   new(http.Protocols),
	}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestVersions: any version in, any out, with bodies and trailers both ways.
func TestVersions(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	app := func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Proto", q.Proto)
		w.Header().Set("X-Cookie", strings.Join(q.Header["Cookie"], "|"))
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && q.ProtoMajor == 1 {
			t.Error(err)
		}
		w.WriteHeader(201)
		n, err := io.Copy(w, q.Body)
		w.Header().Set("X-Sum", fmt.Sprint(n, err, q.Trailer.Get("X-T")))
	}
	for _, tt := range []struct {
		name     string
		protocol mesh.Protocol
		client2  bool
		want     string
	}{
		{"1 to 1", mesh.HTTP1, false, "HTTP/1.1"},
		{"1 to 2", mesh.HTTP2, false, "HTTP/2.0"},
		{"2 to 1", mesh.HTTP1, true, "HTTP/1.1"},
		{"2 to 2", mesh.GRPC, true, "HTTP/2.0"},
		{"1 to undeclared", mesh.Sniff, false, "HTTP/1.1"},
		{"2 to undeclared", mesh.Sniff, true, "HTTP/2.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBothModes(t, func(t *testing.T, mode task.Mode) {
				h1, h2 := httpApp(app), h2App(app)
				r := newRig(t, mode, func(c *pipeConn) {
					if tt.want == "HTTP/2.0" {
						h2(c)
						return
					}
					h1(c)
				})
				r.port.Protocol = tt.protocol
				client := r.client(tt.client2)
				for _, body := range []string{"", "hi", big} {
					req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://echo/p?q", io.MultiReader(strings.NewReader(body)))
					req.Header.Set("Cookie", "a=b; c=d")
					req.Trailer = http.Header{"X-T": {"yes"}}
					res, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(res.Body)
					if err != nil || string(got) != body || res.StatusCode != 201 || res.Header.Get("X-Proto") != tt.want || res.Header.Get("X-Cookie") != "a=b; c=d" {
						t.Errorf("answered %v, %d bytes, %v", res, len(got), err)
					}
					if sum := res.Trailer.Get("X-Sum"); sum != fmt.Sprint(len(body), nil, "yes") {
						t.Errorf("trailer %q", sum)
					}
				}
				for _, f := range r.flows(3) {
					if f.Flags != 0 || f.Status != 201 || f.Sent != f.Received {
						t.Errorf("recorded %+v", f)
					}
				}
				if n := r.dialled("10.0.0.1:8080"); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// TestGRPC: a call whose messages alternate, trailers, and a call that fails at
// once.
func TestGRPC(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		r := newRig(t, mode, h2App(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			if q.Header.Get("Te") != "trailers" {
				t.Errorf("te %q", q.Header.Get("Te"))
			}
			if q.URL.Path == "/a.B/Fail" {
				w.Header().Set("Grpc-Status", "5")
				w.WriteHeader(200)
				return
			}
			w.Header().Set("Trailer", "Grpc-Status, X-T")
			_ = http.NewResponseController(w).Flush()
			message := make([]byte, 8)
			for {
				if _, err := io.ReadFull(q.Body, message); err != nil {
					break
				}
				_, _ = w.Write(message)
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("Grpc-Status", "0")
			w.Header().Set("X-T", "1")
		}))
		r.port.Protocol = mesh.GRPC
		client := r.client(true)
		in, out := io.Pipe()
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://echo/a.B/C", in)
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
		res, err := client.Do(req) // the head comes before the first message
		if err != nil {
			t.Fatal(err)
		}
		message := []byte{0, 0, 0, 0, 3, 'a', 'b', 'c'}
		for i := range 5 {
			_, _ = out.Write(message)
			got := make([]byte, len(message))
			if _, err := io.ReadFull(res.Body, got); err != nil || !bytes.Equal(got, message) {
				t.Fatalf("message %d: %q, %v", i, got, err)
			}
		}
		_ = out.Close()
		rest, err := io.ReadAll(res.Body)
		if err != nil || len(rest) > 0 || res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("X-T") != "1" {
			t.Errorf("at the end %q, %v, trailers %v", rest, err, res.Trailer)
		}
		req, _ = http.NewRequestWithContext(t.Context(), "POST", "http://echo/a.B/Fail", http.NoBody)
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
		res, err = client.Do(req)
		if err != nil || res.Header.Get("Grpc-Status") != "5" {
			t.Errorf("answered %v, %v", res, err)
		}
		flows := r.flows(2)
		if f := flows[0]; f.GRPCStatus != "0" || f.RequestMessages != 5 || f.ResponseMessages != 5 || f.Status != 200 {
			t.Errorf("recorded %+v", f)
		}
		if f := flows[1]; f.GRPCStatus != "5" {
			t.Errorf("recorded %+v", f)
		}
	})
}

func TestHTTP2Denied(t *testing.T) {
	r := newRig(t, task.Coroutines, httpApp(echoApp))
	r.deny("/secret")
	client := r.client(true)
	res, err := client.Get("http://echo/secret")
	if err != nil || res.StatusCode != 403 || res.Proto != "HTTP/2.0" {
		t.Fatalf("answered %v, %v", res, err)
	}
	if f := r.flows(1)[0]; f.Status != 403 || f.Protocol != "HTTP/2" {
		t.Errorf("recorded %+v", f)
	}
}

// TestParallel: many requests at once over one connection from the client and as
// few as possible to the endpoint.
func TestParallel(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		r := newRig(t, mode, h2App(echoApp))
		r.port.Protocol = mesh.HTTP2
		client := r.client(true)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				body := strings.Repeat("x", i*50)
				res, err := client.Post("http://echo/", "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				if err != nil || !strings.HasSuffix(string(got), " "+body) {
					t.Errorf("request %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
		if n := r.dialled("10.0.0.1:8080"); n > 3 {
			t.Errorf("%d connections", n)
		}
		r.landed()
	})
}
