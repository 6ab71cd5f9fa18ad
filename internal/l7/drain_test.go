package l7

import (
	"bufio"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestDrainHTTP1(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		reached, goOn := make(chan bool), make(chan bool)
		r := newRig(t, mode, httpApp(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/slow" {
				reached <- true
				<-goOn
			}
			_, _ = io.WriteString(w, "done")
		}))
		idle, fresh, slow := r.connect(), r.connect(), r.connect() // fresh: about to send its request
		r.roundTrip(idle, bufio.NewReader(idle), "GET", get)
		r.flows(1)
		_, _ = slow.Write([]byte("GET /slow HTTP/1.1\r\nHost: e\r\n\r\n"))
		<-reached
		r.sched.Turn(r.fw.Drain)
		if rest, err := io.ReadAll(idle); err != nil {
			t.Errorf("%q, %v", rest, err)
		}
		goOn <- true
		res := r.roundTrip(slow, bufio.NewReader(slow), "GET", "")
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "done" || !res.Close {
			t.Errorf("answered %v %q, %v", res, body, err)
		}
		for _, c := range []*pipeConn{fresh, r.connect()} { // the second's CONNECT was on the way
			if res := r.roundTrip(c, bufio.NewReader(c), "GET", get); res.StatusCode != 200 || !res.Close {
				t.Errorf("answered %v", res)
			}
			if _, err := io.ReadAll(c); err != nil {
				t.Error(err)
			}
		}
		silent := r.connect()
		if rest, err := io.ReadAll(silent); err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// TestDrainHTTP2: the connection says GOAWAY, and what is under way is answered.
func TestDrainHTTP2(t *testing.T) {
	reached, goOn := make(chan bool), make(chan bool)
	r := newRig(t, task.Coroutines, httpApp(func(w http.ResponseWriter, _ *http.Request) {
		reached <- true
		<-goOn
		_, _ = io.WriteString(w, "done")
	}))
	client := r.client(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := client.Get("http://echo/")
		if err != nil {
			t.Error(err)
			return
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "done" {
			t.Errorf("%q, %v", body, err)
		}
	})
	<-reached
	r.sched.Turn(r.fw.Drain)
	goOn <- true
	wg.Wait()
	for deadline := time.Now().Add(5 * time.Second); !r.fw.Idle(); {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still open")
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the last GOAWAY comes by the clock
	}
}

// TestPolicyAtNextRequest: what was allowed on a connection is denied on it after
// an update, and what is gone is gone.
func TestPolicyAtNextRequest(t *testing.T) {
	r := newRig(t, task.Coroutines, scripted(nil, ok))
	c := r.connect()
	in := bufio.NewReader(c)
	status := func() int {
		res := r.roundTrip(c, in, "GET", get)
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if got := status(); got != 200 {
		t.Errorf("at first %d", got)
	}
	was := r.port
	svc := *was.Service
	now := *was
	now.Service, svc.Ports = &svc, []*mesh.Port{&now}
	r.port = &now
	r.deny("/")
	r.store.Publish(&mesh.Snapshot{Version: 2, Services: map[string]*mesh.Service{svc.Key: &svc}})
	if got := status(); got != 403 {
		t.Errorf("after the policy %d", got)
	}
	r.store.Publish(&mesh.Snapshot{Version: 3})
	if got := status(); got != 404 {
		t.Errorf("without the service %d", got)
	}
}

func TestIdleTimeout(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		r := newRig(t, task.Coroutines, scripted(nil, ok))
		r.fw.limits.IdleTimeout = 20 * time.Millisecond
		client := r.client(http2)
		res, err := client.Get("http://echo/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		for deadline := time.Now().Add(5 * time.Second); !r.fw.Idle(); {
			if time.Now().After(deadline) {
				t.Fatalf("HTTP/2 %v: the connection is still open", http2)
			}
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // it ends by the clock
		}
	}
}

func TestHeadTimeout(t *testing.T) {
	r := newRig(t, task.Coroutines, scripted(nil, ok))
	r.fw.limits.HeadTimeout = 20 * time.Millisecond
	c := r.connect()
	res := r.roundTrip(c, bufio.NewReader(c), "GET", "GET / HTTP/1.1\r\nHos")
	if res.StatusCode != 408 || !res.Close {
		t.Errorf("answered %v", res)
	}
}

// refuser is an HTTP/2 application that refuses its first streams, and answers
// the others with what they sent.
func refuser(s *task.Scheduler, refuse int, seen chan<- string) func(*pipeConn) {
	return func(c *pipeConn) {
		s.Turn(func(b *task.Batch) {
			conn := h2.NewServer(c.pipe, h2.Config{Depth: 1}, &acceptor{accept: func(b *task.Batch, st *h2.Stream) {
				if refuse > 0 {
					refuse--
					st.Reset(b, h2.RefusedStream)
					st.Done(b)
					return
				}
				s.Start(b, task.RoutineFunc(func(t *task.Task) {
					defer func() { st.Done(t.Batch()) }()
					st.SetWaker(t)
					body := ""
					for err := error(nil); err == nil; {
						err = task.ReadMore(t, st, 0)
						body += string(st.Peek())
						st.Discard(t.Batch(), len(st.Peek()))
					}
					seen <- body
					_ = st.WriteHead(t.Batch(), &h2.Head{Status: 200}, true)
				}))
			}})
			h2.Ride(b, conn, c.pipe)
		})
	}
}

// TestRefusedStream: a request that was refused unseen is sent again, with its body.
func TestRefusedStream(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		seen := make(chan string, 1)
		r := newRig(t, mode, nil)
		r.apps[r.port.Endpoints[0].Addr] = refuser(r.sched, 2, seen)
		r.port.Protocol = mesh.HTTP2
		c := r.connect()
		res := r.roundTrip(c, bufio.NewReader(c), "POST", "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 5\r\n\r\nhello")
		if res.StatusCode != 200 {
			t.Errorf("answered %v", res)
		}
		if body := <-seen; body != "hello" {
			t.Errorf("the application got %q", body)
		}
		if f := r.flows(1)[0]; f.Retries != 2 || f.Received != 5 {
			t.Errorf("recorded %+v", f)
		}
	})
}

// TestTooLargeOverHTTP2: a client that does not care what we take is told.
func TestTooLargeOverHTTP2(t *testing.T) {
	r := newRig(t, task.Coroutines, nil)
	r.fw.limits.MaxHeaders = 20
	c := r.connect()
	status := make(chan int, 1)
	r.sched.Turn(func(b *task.Batch) {
		conn := h2.NewClient(c.pipe, h2.Config{Depth: 1}, &acceptor{})
		h2.Ride(b, conn, c.pipe)
		r.sched.Start(b, task.RoutineFunc(func(tk *task.Task) {
			head := h2.Head{Method: "GET", Scheme: "http", Authority: "e", Path: "/"}
			for range 30 {
				head.Fields = append(head.Fields, h2.Field{Name: "a", Value: "b"})
			}
			s, err := conn.Open(tk.Batch(), &head, true, tk)
			for err == nil && s.Head() == nil && s.ReadErr() == nil {
				err = tk.Park()
			}
			if s.Head() == nil {
				status <- 0
				return
			}
			status <- s.Head().Status
		}))
	})
	if got := <-status; got != 431 {
		t.Errorf("answered %d", got)
	}
	if f := r.flows(1)[0]; f.Status != 431 || f.Protocol != "HTTP/2" {
		t.Errorf("recorded %+v", f)
	}
}
