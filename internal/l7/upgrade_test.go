package l7

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// echoSocket takes the upgrade and sends back what it gets, until it ends.
func echoSocket(heads chan<- string) func(*pipeConn) {
	return func(c *pipeConn) {
		in := bufio.NewReader(c)
		head := ""
		for !strings.HasSuffix(head, "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			head += line
		}
		heads <- head
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"))
		_, _ = io.Copy(c, in)
		_ = c.CloseWrite()
	}
}

// echoStreams is an HTTP/2 application, on our own engine, that takes extended
// CONNECT and sends back what it gets.
func echoStreams(s *task.Scheduler, heads chan<- h2.Head) func(*pipeConn) {
	return func(c *pipeConn) { serveStreams(s, c, heads) }
}

func serveStreams(s *task.Scheduler, c *pipeConn, heads chan<- h2.Head) {
	s.Turn(func(b *task.Batch) {
		conn := h2.NewServer(c.pipe, h2.Config{ExtendedConnect: true, Depth: 1}, &acceptor{accept: func(b *task.Batch, st *h2.Stream) {
			s.Start(b, task.RoutineFunc(func(t *task.Task) {
				st.SetWaker(t)
				head := *st.Head()
				head.Fields = slices.Clone(head.Fields)
				heads <- head
				_ = st.WriteHead(t.Batch(), &h2.Head{Status: 200}, false)
				for {
					err := task.ReadMore(t, st, 0)
					if p := st.Peek(); len(p) > 0 {
						if task.WriteAll(t, st, p) != nil {
							break
						}
						st.Discard(t.Batch(), len(p))
					} else if err != nil {
						break
					}
				}
				_ = st.CloseWrite(t.Batch())
				st.Done(t.Batch())
			}))
		}})
		h2.Ride(b, conn, c.pipe)
	})
}

type acceptor struct {
	accept  func(*task.Batch, *h2.Stream)
	changed func(*task.Batch)
}

func (a *acceptor) Accept(b *task.Batch, s *h2.Stream) { a.accept(b, s) }
func (a *acceptor) Changed(b *task.Batch, _ *h2.Conn) {
	if a.changed != nil {
		a.changed(b)
	}
}

const upgrade = "GET /ws HTTP/1.1\r\nHost: e\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

func TestWebSocket(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		heads := make(chan string, 1)
		r := newRig(t, mode, echoSocket(heads))
		c := r.connect()
		converse(t, r, c, "x")
		check(t, "sent upstream", <-heads, []string{"Upgrade: websocket\r\n", "Connection: Upgrade\r\n", "Sec-WebSocket-Key: dGhl", "GET /ws "})
	})
}

// TestWebSocketToHTTP2: the client speaks HTTP/1.1, the endpoint HTTP/2.
func TestWebSocketToHTTP2(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		heads := make(chan h2.Head, 1)
		r := newRig(t, mode, nil)
		r.apps[r.port.Endpoints[0].Addr] = echoStreams(r.sched, heads)
		r.port.Protocol = mesh.HTTP2
		c := r.connect()
		converse(t, r, c, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") // the example of RFC 6455 1.3
		head := <-heads
		if head.Method != "CONNECT" || head.Protocol != "websocket" || head.Path != "/ws" || head.Get("upgrade") != "" || head.Get("sec-websocket-version") != "13" {
			t.Errorf("sent upstream %+v", head)
		}
	})
}

// converse upgrades c and talks a little.
func converse(t *testing.T, r *rig, c *pipeConn, accept string) {
	t.Helper()
	in := bufio.NewReader(c)
	res := r.roundTrip(c, in, "GET", upgrade)
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Connection") != "Upgrade" || res.Header.Get("Sec-WebSocket-Accept") != accept {
		t.Fatalf("answered %v", res)
	}
	_, _ = c.Write([]byte("hello"))
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	_ = c.CloseWrite()
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
	if f := r.flows(1)[0]; f.Status != 101 || f.Received != 5 || f.Sent != 5 || f.Flags != 0 {
		t.Errorf("recorded %+v", f)
	}
}

// TestWebSocketOverHTTP2: the client asks by extended CONNECT.
func TestWebSocketOverHTTP2(t *testing.T) {
	for _, protocol := range []mesh.Protocol{mesh.HTTP1, mesh.HTTP2} {
		inBothModes(t, func(t *testing.T, mode task.Mode) {
			heads, h2heads := make(chan string, 1), make(chan h2.Head, 1)
			r := newRig(t, mode, echoSocket(heads))
			r.port.Protocol = protocol
			if protocol == mesh.HTTP2 {
				r.apps[r.port.Endpoints[0].Addr] = echoStreams(r.sched, h2heads)
			}
			c := r.connect()
			answers := make(chan string, 1)
			r.sched.Turn(func(b *task.Batch) {
				var once sync.Once
				a := new(acceptor)
				conn := h2.NewClient(c.pipe, h2.Config{Depth: 1}, a)
				a.changed = func(b *task.Batch) { // the settings have come
					once.Do(func() {
						r.sched.Start(b, task.RoutineFunc(func(tk *task.Task) { answers <- converseH2(tk, conn) }))
					})
				}
				h2.Ride(b, conn, c.pipe)
			})
			if got := <-answers; got != "200 hello" {
				t.Errorf("got %q", got)
			}
			if protocol == mesh.HTTP1 {
				check(t, "sent upstream", <-heads, []string{"GET /ws HTTP/1.1\r\n", "upgrade: websocket\r\n", "Connection: Upgrade\r\n", "Sec-WebSocket-Key: "})
			} else if head := <-h2heads; head.Protocol != "websocket" {
				t.Errorf("sent upstream %+v", head)
			}
			if f := r.flows(1)[0]; f.Status != 101 || f.Method != "GET" || f.Flags != 0 {
				t.Errorf("recorded %+v", f)
			}
		})
	}
}

func converseH2(t *task.Task, conn *h2.Conn) string {
	s, err := conn.Open(t.Batch(), &h2.Head{Method: "CONNECT", Protocol: "websocket", Scheme: "http", Authority: "e", Path: "/ws"}, false, t)
	if err != nil {
		return err.Error()
	}
	defer func() { s.Done(t.Batch()) }()
	for s.Head() == nil {
		if s.ReadErr() != nil || t.Park() != nil {
			return "no answer"
		}
	}
	got := http.StatusText(s.Head().Status)
	if s.Head().Status == 200 {
		got = "200 "
	}
	_ = task.WriteAll(t, s, []byte("hello"))
	_ = s.CloseWrite(t.Batch())
	for {
		err := task.ReadMore(t, s, 0)
		p := s.Peek()
		got += string(p)
		s.Discard(t.Batch(), len(p))
		if len(p) == 0 && err != nil {
			if !errors.Is(err, io.EOF) {
				got += err.Error()
			}
			return got
		}
	}
}

func TestUpgradeRefused(t *testing.T) {
	r := newRig(t, task.Coroutines, scripted(nil, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"))
	c := r.connect()
	in := bufio.NewReader(c)
	for range 2 { // and the connection goes on
		res := r.roundTrip(c, in, "GET", upgrade)
		if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 403 || string(body) != "no" {
			t.Errorf("answered %v %q, %v", res, body, err)
		}
	}
}
