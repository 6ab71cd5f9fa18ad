package h2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// stdClient is net/http's client, speaking HTTP/2 without TLS.
func stdClient(t testing.TB) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// echo answers a request with its own body, in pieces as they come, then with
// trailers.
func echo(t *task.Task, s *Stream) {
	if err := s.WriteHead(t.Batch(), &Head{Status: 200, Fields: []Field{
		{"x-method", s.Head().Method}, {"x-path", s.Head().Path}, {"trailer", "x-sum"},
	}}, false); err != nil {
		return
	}
	sum := sha256.New()
	for {
		err := task.ReadMore(t, s, 0)
		p := s.Peek()
		sum.Write(p)
		if werr := task.WriteAll(t, s, p); werr != nil {
			return
		}
		s.Discard(t.Batch(), len(p))
		if err != nil {
			break
		}
	}
	_ = s.WriteTrailers(t.Batch(), []Field{{"x-sum", fmt.Sprintf("%x", sum.Sum(nil))}})
}

func randomBytes(n int) []byte {
	src := rand.NewChaCha8([32]byte{byte(n)})
	p := make([]byte, n)
	_, _ = src.Read(p)
	return p
}

func TestServerAgainstNetHTTP(t *testing.T) {
	bothModes(t, func(t *testing.T, sched *task.Scheduler) {
		addr := listen(t, sched, Config{}, echo)
		client := stdClient(t)
		var wg sync.WaitGroup
		for _, size := range []int{0, 1, 100, 16384, 16385, 300_000, 3_000_000} {
			for range 3 {
				wg.Go(func() { postAndCompare(t, client, addr, randomBytes(size)) })
			}
		}
		wg.Wait()
	})
}

func postAndCompare(t *testing.T, client *http.Client, addr string, body []byte) {
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/a?b=c", bytes.NewReader(body))
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("body of %d bytes came back as %d, %v", len(body), len(got), err)
	}
	if resp.Header.Get("x-path") != "/a?b=c" || resp.Header.Get("x-method") != "POST" || resp.ProtoMajor != 2 {
		t.Errorf("head: %v", resp)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(body)); resp.Trailer.Get("x-sum") != want {
		t.Errorf("trailer %q, want %q", resp.Trailer.Get("x-sum"), want)
	}
}

// stdServer is net/http's server, speaking HTTP/2 without TLS.
func stdServer(t testing.TB, h http.Handler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return ln.Addr().String()
}

func TestClientAgainstNetHTTP(t *testing.T) {
	bothModes(t, func(t *testing.T, sched *task.Scheduler) {
		addr := stdServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.Header().Set("X-Path", r.URL.RequestURI())
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			sum := sha256.New()
			_, _ = io.Copy(w, io.TeeReader(r.Body, sum))
			w.Header().Set("X-Sum", fmt.Sprintf("%x", sum.Sum(nil)))
		}))
		c := dial(t, sched, Config{}, addr)
		for _, size := range []int{0, 1, 16384, 300_000, 3_000_000} {
			body := randomBytes(size)
			run(sched, func(tk *task.Task) { exchange(t, tk, c, addr, body) })
		}
		if err := c.Err(); err != nil {
			t.Error(err)
		}
	})
}

// run runs f as a task and waits for it.
func run(sched *task.Scheduler, f func(t *task.Task)) {
	done := make(chan struct{})
	sched.Turn(func(b *task.Batch) {
		sched.Start(b, task.RoutineFunc(func(t *task.Task) {
			defer close(done)
			f(t)
		}))
	})
	<-done
}

// exchange posts body while it reads the answer, which comes back as it was sent.
func exchange(t *testing.T, tk *task.Task, c *Conn, addr string, body []byte) {
	s, err := c.Open(tk.Batch(), &Head{
		Method: "POST", Scheme: "http", Authority: addr, Path: "/p?q",
		Fields: []Field{{"content-length", fmt.Sprint(len(body))}},
	}, false, tk)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { s.Done(tk.Batch()) }()
	var got []byte
	rest, closed := body, false
	for s.ReadErr() == nil || len(s.Peek()) > 0 {
		n, err := s.Write(tk.Batch(), rest)
		if rest = rest[n:]; len(rest) == 0 && !closed {
			closed = true
			err = s.CloseWrite(tk.Batch())
		}
		if err != nil && !closed {
			t.Error(err)
			return
		}
		p := s.Peek()
		got = append(got, p...)
		s.Discard(tk.Batch(), len(p))
		if len(p) == 0 && s.ReadErr() == nil && tk.Park() != nil {
			return
		}
	}
	if h := s.Head(); h == nil || h.Status != http.StatusEarlyHints {
		t.Errorf("interim head %+v", h)
	}
	s.NextHead()
	if h := s.Head(); h == nil || h.Status != http.StatusAccepted || h.Get("x-path") != "/p?q" {
		t.Errorf("final head %+v", h)
	}
	if s.ReadErr() != io.EOF || !bytes.Equal(got, body) {
		t.Errorf("%d bytes came back as %d, %v", len(body), len(got), s.ReadErr())
	}
	if tr := s.Trailers(); len(tr) != 1 || tr[0].Value != fmt.Sprintf("%x", sha256.Sum256(body)) {
		t.Errorf("trailers %v", tr)
	}
}

// TestClientSeesResets has net/http reset, refuse and go away.
func TestClientSeesResets(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	addr := stdServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	c := dial(t, sched, Config{}, addr)
	run(sched, func(tk *task.Task) {
		s, err := c.Open(tk.Batch(), &Head{Method: "GET", Scheme: "http", Authority: addr, Path: "/"}, true, tk)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = readAll(tk, s)
		if code, ok := s.ResetCode(); !ok || code != InternalError {
			t.Errorf("reset code %v, %v; error %v", code, ok, err)
		}
		s.Done(tk.Batch())
	})
}

func TestServerTellsNetHTTPOfResets(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	addr := listen(t, sched, Config{}, func(tk *task.Task, s *Stream) { s.Reset(tk.Batch(), EnhanceYourCalm) })
	_, err := stdClient(t).Get("http://" + addr) //nolint:noctx // local
	if err == nil || !strings.Contains(err.Error(), "ENHANCE_YOUR_CALM") {
		t.Errorf("error %v", err)
	}
}

func TestServerSeesCancel(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	started, got := make(chan struct{}), make(chan ErrCode, 1)
	addr := listen(t, sched, Config{}, func(tk *task.Task, s *Stream) {
		close(started)
		for {
			if code, ok := s.ResetCode(); ok {
				got <- code
				return
			}
			if tk.Park() != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+addr, nil)
	go func() {
		<-started
		cancel()
	}()
	if _, err := stdClient(t).Do(req); err == nil {
		t.Error("the canceled request succeeded")
	}
	if code := <-got; code != Cancel {
		t.Errorf("reset with %v", code)
	}
}
