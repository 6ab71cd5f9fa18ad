package l7

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// moody is an application that now and then resets, hangs up, answers early,
// closes afterwards, or cuts its answer short.
func moody(w http.ResponseWriter, q *http.Request) {
	switch rand.N(12) {
	case 0:
		panic(http.ErrAbortHandler)
	case 1:
		w.Header().Set("Connection", "close")
	case 2:
		w.WriteHeader(413) // without having read the body
		return
	case 3:
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "short")
		panic(http.ErrAbortHandler)
	case 4:
		w.WriteHeader(503)
		return
	}
	n, _ := io.Copy(io.Discard, q.Body)
	_, _ = fmt.Fprint(w, strings.Repeat("x", int(n)))
}

// TestChaos: whatever clients and endpoints do, in the end nothing is left open,
// and what is answered 200 is complete.
func TestChaos(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		for _, protocol := range []mesh.Protocol{mesh.HTTP1, mesh.HTTP2} {
			h1, h2 := httpApp(moody), h2App(moody)
			app := func(c *pipeConn) {
				if protocol == mesh.HTTP2 {
					h2(c)
					return
				}
				h1(c)
			}
			r := newRig(t, mode, app)
			r.addEndpoint("10.0.0.2:8080", app)
			r.addEndpoint("10.0.0.3:8080", nil)
			r.port.Protocol = protocol
			rule := forward()
			rule.Retry = &route.Retry{Attempts: 1, Backoff: time.Millisecond, Codes: []int{503}}
			rule.Timeouts.Request = 4 * time.Second
			r.route(rule)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for range 20 {
						r.misbehave()
					}
				})
			}
			wg.Wait()
			r.settled()
		}
	})
}

// misbehave makes one connection and leaves it in one of several ways.
func (r *rig) misbehave() {
	c := r.connect()
	body := strings.Repeat("b", rand.N(3000))
	request := fmt.Sprintf("POST / HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	how := rand.N(6)
	switch how {
	case 0:
		_, _ = c.Write([]byte(request[:rand.N(len(request))]))
		r.sched.Turn(func(b *task.Batch) { c.Abort(b, io.ErrClosedPipe) })
		return
	case 1:
		_, _ = c.Write([]byte(request[:rand.N(len(request))]))
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		return
	case 2:
		_, _ = c.Write([]byte(request))
		r.sched.Turn(func(b *task.Batch) { c.Abort(b, io.ErrClosedPipe) })
		return
	}
	in := bufio.NewReader(c)
	for range 3 {
		if _, err := c.Write([]byte(request)); err != nil {
			break
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		got, err := io.ReadAll(res.Body)
		if err != nil {
			break
		}
		if res.StatusCode == 200 && len(got) != len(body) {
			r.t.Errorf("answered %d bytes of %d", len(got), len(body))
		}
		if res.Close {
			break
		}
	}
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, in)
}

// settled waits until nothing is under way any more, and no connection is open.
func (r *rig) settled() {
	r.t.Helper()
	r.eventually(func() bool { return r.rec.Open() == 0 && r.inFlight() == 0 && r.fw.Idle() })
}

// landed waits until nothing is under way any more: a client has its answer a little
// before the exchange is over.
func (r *rig) landed() {
	r.t.Helper()
	r.eventually(func() bool { return r.rec.Open() == 0 && r.inFlight() == 0 })
}

func (r *rig) eventually(holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(8 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			r.t.Fatalf("%d exchanges open, %d in flight, no connection open: %v", r.rec.Open(), r.inFlight(), r.fw.Idle())
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // there is no one event to wait for
	}
}

func (r *rig) inFlight() (n int64) {
	for _, ep := range r.port.Endpoints {
		n += ep.Load.InFlight.Load()
	}
	return n
}

// TestIdleConnectionsAreCheap: what is idle owns no goroutine, and hardly memory.
func TestIdleConnectionsAreCheap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newTurns(t, typical, typicalAnswer)
	const n = 2000
	clients := make([]*turns, n)
	r.exchange(t)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	for i := range clients {
		clients[i] = r.another()
		clients[i].exchange(t)
		clients[i].client.buf, clients[i].client.in = nil, nil // the test's own
		clients[i].client.peer.buf, clients[i].client.peer.in = nil, nil
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines more", now-goroutines)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// A conn, its entry among all, and a pair of pipes of the test.
	if per := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; per > 1500 {
		t.Errorf("%d bytes an idle connection", per)
	}
	runtime.KeepAlive(clients)
}

// TestSlowClient: of a large response no more is taken from the endpoint than
// fits the client's window, our writer and the endpoint's own window.
func TestSlowClient(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		var sent int
		stuck := make(chan bool)
		r := newRig(t, mode, rude(func(c *pipeConn) {
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
			_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
			for {
				n, err := c.Write([]byte("400\r\n" + strings.Repeat("x", 1024) + "\r\n"))
				sent += n
				if err != nil {
					close(stuck)
					return
				}
			}
		}))
		r.limit = 32 << 10
		c := r.connect()
		_, _ = c.Write([]byte(get))
		<-stuck
		if sent > 2*r.limit+2*maxPending {
			t.Errorf("%d bytes were taken from the endpoint", sent)
		}
		r.sched.Turn(func(b *task.Batch) { c.Abort(b, io.ErrClosedPipe) })
		r.settled()
	})
}
