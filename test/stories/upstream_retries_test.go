package stories

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// TestDeliveredOnce: a POST that has reached the application is never sent again,
// whatever becomes of it.
func TestDeliveredOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]meshtest.Handler{
		"reset": func(x *meshtest.Exchange) { x.Conn.SetLinger(0); x.Close() },
		"ended": func(x *meshtest.Exchange) { x.Close() },
		"half a head": func(x *meshtest.Exchange) {
			io.WriteString(x, "HTTP/1.1 200 O")
			x.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, apps, _ := twoStage(t)
			for _, app := range apps {
				app.Handle(func(x *meshtest.Exchange) {
					io.Copy(io.Discard, x)
					lose(x)
				})
			}
			r := do(t, s.client.HTTP(s.wp.Addr), "POST", echo, strings.NewReader("pay 10"))
			if r.StatusCode != 503 {
				t.Errorf("status %d, expected 503", r.StatusCode)
			}
			if n := len(apps[0].Requests()) + len(apps[1].Requests()); n != 1 {
				t.Errorf("delivered %d times, expected once", n)
			}
			logLine{"response_flags": "UC", "retries": 0}.in(t, s.logged(1)[0])
		})
	}
}

// TestStaleConnection: an application that closes its idle connections as the
// next request is on its way. A GET is sent again on a new one; a POST may have
// been seen, and is not.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	served := map[int]bool{} // by connection; the application serves one request at a time here
	var mu sync.Mutex
	app.Handle(func(x *meshtest.Exchange) {
		mu.Lock()
		again := served[x.Serial]
		served[x.Serial] = true
		mu.Unlock()
		if again {
			x.Close() // without a byte
			return
		}
		ok(x)
	})
	client := s.client.HTTP(s.wp.Addr)
	for range 50 {
		get(t, client, echo).want(t, 200, "ok")
	}
	if n := s.metric("waypoint_retries_total"); n < 25 {
		t.Errorf("waypoint_retries_total is %v: the connections were not used again", n)
	}
	before := len(app.Requests())
	get(t, client, echo).want(t, 200, "ok")                           // leaves a connection that is used up
	r := do(t, client, "POST", echo, strings.NewReader("not safely")) // which takes this
	if got := len(app.Requests()) - before; r.StatusCode == 503 && got > 3 || r.StatusCode != 503 && r.StatusCode != 200 {
		t.Errorf("status %d after %d deliveries", r.StatusCode, got)
	}
}

// TestQuietlyClosedConnection: one that the application closed while it was idle
// is not used at all.
func TestQuietlyClosedConnection(t *testing.T) {
	t.Parallel()
	s, app, node := echoStage(t)
	closed := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		ok(x)
		x.Close()
		close(closed)
	})
	client := s.client.HTTP(s.wp.Addr)
	get(t, client, echo).want(t, 200, "ok")
	<-closed
	s.Eventually("the waypoint has let go of the connection", func() bool { return s.metric("waypoint_upstream_streams") == 0 })
	app.Handle(ok)
	do(t, client, "POST", echo, strings.NewReader("x")).want(t, 200, "ok")
	if n := len(node.Connects()); n != 2 {
		t.Errorf("%d CONNECTs, expected 2", n)
	}
	logLine{"retries": 0}.in(t, s.logged(2)[1])
}

// h2App is an HTTP/2 application spoken frame by frame: serve is called with the
// head of each request, on the connection of that number.
func h2App(s *stage, addr string, serve func(conn int, f *http2.Framer, head *http2.MetaHeadersFrame), settings ...http2.Setting) {
	var conns atomic.Int32
	s.TCP("h2", addr, func(conn *net.TCPConn) {
		number := int(conns.Add(1))
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.WriteSettings(settings...)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					f.WriteSettingsAck()
				}
			case *http2.MetaHeadersFrame:
				serve(number, f, frame)
			case *http2.DataFrame:
				f.WriteWindowUpdate(0, max(frame.Length, 1))
				f.WriteWindowUpdate(frame.StreamID, max(frame.Length, 1))
				if frame.StreamEnded() {
					serve(number, f, nil)
				}
			}
		}
	})
}

func answer200(f *http2.Framer, id uint32, end bool) {
	var block bytes.Buffer
	hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
}

// TestUnprocessedIsSentAgain: HTTP/2 says which requests an application has not
// looked at. They are sent again with their bodies, as long as those were small
// enough to keep.
func TestUnprocessedIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(f *http2.Framer, id uint32){
		"REFUSED_STREAM": func(f *http2.Framer, id uint32) { f.WriteRSTStream(id, http2.ErrCodeRefusedStream) },
		"GOAWAY":         func(f *http2.Framer, id uint32) { f.WriteGoAway(id-1, http2.ErrCodeNo, nil) },
	} {
		for _, size := range []int{0, 1000, 64 << 10} {
			t.Run(fmt.Sprintf("%s/%d bytes", name, size), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "kubernetes.io/h2c"))))
				s.node("echo", 21)
				var refused atomic.Bool
				var pending uint32 // stream whose body has yet to come
				h2App(s, s.Addr(21, 8080), func(_ int, f *http2.Framer, head *http2.MetaHeadersFrame) {
					switch {
					case head != nil && !refused.Swap(true):
						refuse(f, head.StreamID)
					case head != nil && head.StreamEnded():
						answer200(f, head.StreamID, true)
					case head != nil:
						pending = head.StreamID
					case pending != 0:
						answer200(f, pending, true)
					}
				})
				r := do(t, s.client.HTTP(s.wp.Addr), "POST", echo, bytes.NewReader(make([]byte, size)))
				r.want(t, 200, "")
				logLine{"retries": 1, "response_flags": nil}.in(t, s.logged(1)[0])
			})
		}
	}
}

// TestRetryByStatus: the codes that a route names are asked for again, so many
// times, and the last answer is passed on.
func TestRetryByStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http")),
		httpRoute("echo", "{retry: {attempts: 2, backoff: 1ms, codes: [500, 503]}, backendRefs: [{name: echo, port: 8080}]}")))
	s.node("echo", 21)
	app := s.HTTP("echo", s.Addr(21, 8080))
	attempts := map[string]int{}
	var mu sync.Mutex
	app.Handle(func(x *meshtest.Exchange) {
		body, err := io.ReadAll(x)
		if err != nil {
			x.Close()
			return
		}
		mu.Lock()
		attempts[x.Target]++
		attempt := attempts[x.Target]
		mu.Unlock()
		switch {
		case x.Target == "/third-time" && attempt < 3:
			x.Reply(503, "not yet")
		case x.Target == "/never":
			x.Reply(500, fmt.Sprintf("attempt %d", attempt))
		case x.Target == "/not-listed":
			x.Reply(502, "not listed")
		default:
			x.Reply(200, string(body))
		}
	})
	client := s.client.HTTP(s.wp.Addr)
	do(t, client, "POST", echo+"/third-time", strings.NewReader("same")).want(t, 200, "same")
	do(t, client, "POST", echo+"/never", strings.NewReader("same")).want(t, 500, "attempt 3")
	do(t, client, "POST", echo+"/not-listed", strings.NewReader("same")).want(t, 502, "not listed")
	for target, want := range map[string]int{"/third-time": 3, "/never": 3, "/not-listed": 1} {
		if attempts[target] != want {
			t.Errorf("%s: %d attempts, expected %d", target, attempts[target], want)
		}
	}
	lines := s.logged(3)
	logLine{"retries": 2, "response_code": 200, "response_flags": nil}.in(t, lines[0])
	logLine{"retries": 2, "response_code": 500, "response_flags": "URX"}.in(t, lines[1])
	logLine{"retries": 0, "response_code": 502, "response_flags": nil}.in(t, lines[2])
}

// TestTooLargeToKeep: a body above 64 KiB is not kept, so the request is sent once.
func TestTooLargeToKeep(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http")),
		httpRoute("echo", "{retry: {attempts: 2, backoff: 1ms, codes: [503]}, backendRefs: [{name: echo, port: 8080}]}")))
	s.node("echo", 21)
	app := s.HTTP("echo", s.Addr(21, 8080))
	app.Handle(func(x *meshtest.Exchange) {
		if _, err := io.Copy(io.Discard, x); err != nil {
			x.Close()
			return
		}
		x.Reply(503, "no")
	})
	client := s.client.HTTP(s.wp.Addr)
	do(t, client, "POST", echo, bytes.NewReader(make([]byte, 200<<10))).want(t, 503, "no")
	if n := len(app.Requests()); n != 1 {
		t.Errorf("%d attempts with a body that is not kept", n)
	}
	do(t, client, "POST", echo, bytes.NewReader(make([]byte, 64<<10))).want(t, 503, "no")
	if n := len(app.Requests()); n != 4 {
		t.Errorf("%d attempts with a body of 64 KiB, expected 3", n-1)
	}
}

// TestInvalidAnswer: what is not HTTP is answered 502, and is not asked for again.
func TestInvalidAnswer(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"no HTTP":         "hello\r\n\r\n",
		"two lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"length and more": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, app, _ := echoStage(t)
			app.Handle(func(x *meshtest.Exchange) {
				io.WriteString(x, said)
				x.Close()
			})
			if r := get(t, s.client.HTTP(s.wp.Addr), echo); r.StatusCode != http.StatusBadGateway {
				t.Errorf("status %d, expected 502", r.StatusCode)
			}
			logLine{"response_flags": "UPE"}.in(t, s.logged(1)[0])
			if n := len(app.Requests()); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}
