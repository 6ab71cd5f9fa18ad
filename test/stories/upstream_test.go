package stories

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// twoStage has the application echo at 10.0.0.1:8080 with two pods.
func twoStage(t *testing.T, change ...func(*app.Options)) (s *stage, apps [2]*meshtest.HTTPApp, nodes [2]*meshtest.NodeProxy) {
	t.Helper()
	s = newStage(t, world(pod("echo", 21), pod("echo", 22), service("echo", "10.0.0.1", port(8080, "http"))), change...)
	for i := range apps {
		host := byte(21 + i)
		apps[i] = s.HTTP(fmt.Sprintf("echo-%d", host), s.Addr(host, 8080))
		apps[i].Handle(ok)
		nodes[i] = s.node("echo", host)
	}
	return s, apps, nodes
}

// shortConnect has what does not answer given up soon.
func shortConnect(o *app.Options) { o.ConnectTimeout = short }

// TestAnotherEndpoint: whatever keeps a request from reaching one endpoint, it
// goes to another, a POST with a body too, since no application has seen it.
func TestAnotherEndpoint(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *stage, n *meshtest.NodeProxy){
		"no node proxy":      func(_ *stage, n *meshtest.NodeProxy) { n.Stop() },
		"CONNECT 503":        func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(503)) },
		"CONNECT 401":        func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(401)) },
		"CONNECT 400":        func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(400)) },
		"CONNECT refused":    func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeRefusedStream)) },
		"CONNECT reset":      func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeInternal)) },
		"CONNECT cancelled":  func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeCancel)) },
		"CONNECT unanswered": func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Stall()) },
		"a mute acceptor": func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.TCP("mute", n.Address(), silent)
		},
		"another identity": func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.NodeProxy(strings.TrimSuffix(n.Address(), ":15008"), idOf("impostor"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, apps, nodes := twoStage(t, shortConnect)
			fail(s, nodes[0])
			client := s.client.HTTP(s.wp.Addr)
			for range 6 { // some of them begin at the endpoint that fails
				do(t, client, "POST", echo, strings.NewReader("a body")).want(t, 200, "ok")
			}
			if n := len(apps[0].Requests()); n != 0 {
				t.Errorf("the application that cannot be reached had %d requests", n)
			}
			if n := len(apps[1].Requests()); n != 6 {
				t.Errorf("the other had %d requests, expected 6", n)
			}
			for _, line := range s.logged(6) {
				logLine{"response_code": 200, "response_flags": nil, "upstream_host": s.Addr(22, 8080)}.in(t, line)
			}
		})
	}
}

// silent reads and never answers.
func silent(conn *net.TCPConn) { io.Copy(io.Discard, conn) }

// TestNoOtherEndpoint: if there is none, the client gets a 503, and the log says
// what it was.
func TestNoOtherEndpoint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail func(s *stage, n *meshtest.NodeProxy)
		why  string
	}{
		"no node proxy": {func(_ *stage, n *meshtest.NodeProxy) { n.Stop() }, "no ztunnel there"},
		"CONNECT 503":   {func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(503)) }, "the application does not accept connections"},
		"CONNECT 401":   {func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(401)) }, "denied by an AuthorizationPolicy at the destination"},
		"CONNECT reset": {func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeInternal)) }, "it broke before the answer"},
		"CONNECT unanswered": {
			func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Stall()) }, "no answer to the CONNECT",
		},
		"a mute acceptor": {func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.TCP("mute", n.Address(), silent)
		}, "no answer on 15008"},
		"another identity": {func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.NodeProxy(strings.TrimSuffix(n.Address(), ":15008"), idOf("impostor"))
		}, "identities do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), shortConnect)
			app := s.HTTP("echo", s.Addr(21, 8080))
			tt.fail(s, s.node("echo", 21))
			r := get(t, s.client.HTTP(s.wp.Addr), echo)
			if r.StatusCode != 503 || strings.Contains(r.text, s.IP(21)) {
				t.Errorf("response %d %q, expected a 503 that names no endpoint", r.StatusCode, r.text)
			}
			line := s.logged(1)[0]
			logLine{"response_flags": "UF,URX", "response_code_details": "upstream_connection_failure", "upstream_host": s.Addr(21, 8080)}.in(t, line)
			if why := fmt.Sprint(line["upstream_transport_failure_reason"]); !strings.Contains(why, tt.why) {
				t.Errorf("the log says %q, expected %q in it", why, tt.why)
			}
			if n := len(app.Requests()); n != 0 {
				t.Errorf("the application had %d requests", n)
			}
		})
	}
}

func TestNoEndpointAtAll(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(service("echo", "10.0.0.1", port(8080, "http"), port(3306, "tcp"))))
	if r := get(t, s.client.HTTP(s.wp.Addr), echo); r.StatusCode != 503 {
		t.Errorf("status %d, expected 503", r.StatusCode)
	}
	logLine{"response_flags": "UH", "response_code_details": "no_healthy_upstream", "upstream_host": nil}.in(t, s.logged(1)[0])
	if status := s.refused("10.0.0.1:3306"); status != 503 {
		t.Errorf("CONNECT to the TCP port was answered %d", status)
	}
}

// TestTCPGoesToAnotherEndpoint: the client sees nothing of the one that is down.
func TestTCPGoesToAnotherEndpoint(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("db", 21), pod("db", 22), service("db", "10.0.0.1", port(3306, "tcp"))))
	s.node("db", 21) // its application is down: 503
	s.node("db", 22)
	s.TCP("db", s.Addr(22, 3306), meshtest.Greet("hi\n"))
	for range 6 {
		c := s.open("10.0.0.1:3306")
		c.hear("hi\n")
		c.Close()
	}
	for _, line := range s.logged(6) {
		logLine{"upstream_host": s.Addr(22, 3306), "response_flags": nil}.in(t, line)
	}
}

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

// TestNodeProxyGoesAway: a node proxy that says GOAWAY gets nothing new on that
// connection, not even on a stream that is open there and idle; what is under way
// is finished.
func TestNodeProxyGoesAway(t *testing.T) {
	t.Parallel()
	s, app, node := echoStage(t)
	hold := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		if x.Target == "/slow" {
			<-hold
		}
		ok(x)
	})
	client := s.client.HTTP(s.wp.Addr)
	slow := make(chan error, 1)
	go func() { slow <- expect200(t.Context(), client, echo+"/slow") }()
	s.Eventually("the slow request is there", func() bool { return len(app.Requests()) == 1 })
	get(t, client, echo+"/before").want(t, 200, "ok") // leaves an idle stream on that tunnel
	tunnel := node.Tunnels()[0]
	node.Drain()
	if err := tunnel.Ping(t.Context()); err != nil { // the waypoint has seen the GOAWAY
		t.Fatal(err)
	}
	last := tunnel.LastStream()
	for i := range 10 {
		get(t, client, fmt.Sprintf("%s/after/%d", echo, i)).want(t, 200, "ok")
	}
	if node.Accepted() != 2 {
		t.Errorf("%d tunnels, expected a second one", node.Accepted())
	}
	if tunnel.LastStream() != last {
		t.Errorf("stream %d was opened on the tunnel after its GOAWAY", tunnel.LastStream())
	}
	for _, request := range app.Requests()[2:] {
		if request.Serial <= 2 {
			t.Errorf("%s came on a connection through the tunnel that is going away", request.Target)
		}
	}
	close(hold)
	if err := <-slow; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	s.Eventually("the tunnel that is going away has ended", func() bool { return tunnel.Err() != nil })
}

// TestConnectAboveGoAway: a CONNECT above the last id of a GOAWAY hangs until the
// connection is cut, so it goes elsewhere at once.
func TestConnectAboveGoAway(t *testing.T) {
	t.Parallel()
	s, _, node := echoStage(t)
	var connects atomic.Int32
	node.Behave(func(ctx context.Context, stream *meshtest.Stream) {
		connects.Add(1)
		node.Behave(nil)
		if err := stream.Conn().GoAway(stream.ID()-1, http2.ErrCodeNo); err != nil {
			t.Error(err)
		}
		meshtest.Stall()(ctx, stream)
	})
	start := time.Now()
	r := do(t, s.client.HTTP(s.wp.Addr), "POST", echo, strings.NewReader("x"))
	if r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
	if took := time.Since(start); took > 5*short {
		t.Errorf("it took %v: the request hung where nobody looks at it", took)
	}
	if connects.Load() != 1 || node.Accepted() != 2 {
		t.Errorf("%d CONNECTs were left hanging, %d tunnels; expected 1 and 2", connects.Load(), node.Accepted())
	}
}

// TestStreamLimitOfNodeProxy: where a node proxy takes three streams a connection,
// ten requests need four.
func TestStreamLimitOfNodeProxy(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	app := s.HTTP("echo", s.Addr(21, 8080))
	node := s.node("echo", 21, meshtest.Settings{MaxStreams: 3})
	hold := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		if x.Target == "/slow" {
			<-hold
		}
		ok(x)
	})
	client := s.client.HTTP(s.wp.Addr)
	get(t, client, echo).want(t, 200, "ok") // the limit is known
	failed := make(chan error)
	for range 10 {
		go func() { failed <- expect200(t.Context(), client, echo+"/slow") }()
	}
	s.Eventually("all ten are there", func() bool { return len(app.Requests()) == 11 })
	if n := len(node.Tunnels()); n != 4 {
		t.Errorf("%d tunnels, expected 4", n)
	}
	close(hold)
	for range 10 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for _, line := range s.logged(11) {
		logLine{"retries": 0}.in(t, line)
	}
}

// TestStreamLimitAtOnce is the same without a request before: the limit is not
// known when the first CONNECTs leave, and those that are refused go elsewhere.
func TestStreamLimitAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	app := s.HTTP("echo", s.Addr(21, 8080))
	app.Handle(ok)
	s.node("echo", 21, meshtest.Settings{MaxStreams: 3})
	client := s.client.HTTP(s.wp.Addr)
	failed := make(chan error)
	for range 50 {
		go func() {
			r, err := try(t.Context(), client, "POST", echo, strings.NewReader("x"))
			if err == nil && r.StatusCode != 200 {
				err = fmt.Errorf("status %d: %s", r.StatusCode, r.text)
			}
			failed <- err
		}()
	}
	for range 50 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestEndpointLeaves: its tunnel goes with it, once it is not needed any more, and
// nothing is sent there.
func TestEndpointLeaves(t *testing.T) {
	t.Parallel()
	s, apps, nodes := twoStage(t)
	hold := make(chan struct{})
	for _, app := range apps {
		app.Handle(func(x *meshtest.Exchange) {
			if x.Target == "/slow" {
				<-hold
			}
			ok(x)
		})
	}
	client := s.client.HTTP(s.wp.Addr)
	slow := make(chan error, 2)
	for i := range 2 { // one for each endpoint: the second goes where the first is not
		go func() { slow <- expect200(t.Context(), client, echo+"/slow") }()
		s.Eventually("the slow request is there", func() bool { return len(apps[0].Requests())+len(apps[1].Requests()) == i+1 })
	}
	s.wp.Write("mesh.yaml", world(pod("echo", 22), service("echo", "10.0.0.1", port(8080, "http"))))
	s.Eventually("the endpoint has left", func() bool { return s.metric("waypoint_config_endpoints") == 1 })
	for range 20 {
		get(t, client, echo).want(t, 200, "ok")
	}
	if n := len(apps[0].Requests()); n != 1 {
		t.Errorf("%d requests went to the endpoint that has left", n-1)
	}
	if n := len(nodes[0].Tunnels()); n != 1 {
		t.Errorf("%d tunnels to it while a request is under way there", n)
	}
	close(hold)
	for range 2 {
		if err := <-slow; err != nil {
			t.Errorf("a request under way: %v", err)
		}
	}
	s.Eventually("its tunnels are gone", func() bool { return len(nodes[0].Tunnels()) == 0 })
	if len(nodes[1].Tunnels()) == 0 {
		t.Error("so are those of the endpoint that stays")
	}
}

// TestMuteNodeProxyRecovers: a node proxy that accepts and says nothing fails
// requests within the connect timeout, and costs nothing once it is back.
func TestMuteNodeProxyRecovers(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), shortConnect)
	s.HTTP("echo", s.Addr(21, 8080)).Handle(ok)
	mute := s.TCP("mute", s.Addr(21, 15008), silent)
	client := s.client.HTTP(s.wp.Addr)
	failed := make(chan error)
	for range 20 {
		go func() {
			r, err := try(t.Context(), client, "GET", echo, nil)
			if err == nil && r.StatusCode != 503 && r.StatusCode != 504 {
				err = fmt.Errorf("status %d", r.StatusCode)
			}
			failed <- err
		}()
	}
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := mute.Conns(); n == 0 || n > 20 {
		t.Errorf("%d connections to the mute node proxy", n)
	}
	mute.Stop()
	s.node("echo", 21)
	get(t, client, echo).want(t, 200, "ok")
}

// TestLeastRequest: of two endpoints the one with less under way is taken, so that
// what is held up at one stays with it alone.
func TestLeastRequest(t *testing.T) {
	t.Parallel()
	s, apps, _ := twoStage(t)
	hold := make(chan struct{})
	for _, app := range apps {
		app.Handle(func(x *meshtest.Exchange) {
			<-hold
			ok(x)
		})
	}
	client := s.client.HTTP(s.wp.Addr)
	failed := make(chan error)
	for i := range 20 {
		go func() {
			_, err := try(t.Context(), client, "GET", echo, nil)
			failed <- err
		}()
		s.Eventually("the request is there", func() bool { return len(apps[0].Requests())+len(apps[1].Requests()) == i+1 })
	}
	if a, b := len(apps[0].Requests()), len(apps[1].Requests()); a != 10 || b != 10 {
		t.Errorf("%d and %d requests are under way, expected 10 and 10", a, b)
	}
	close(hold)
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestRequestTimeout: timeouts.request ends the exchange on time, retries and all,
// and the application learns of it.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http")),
		httpRoute("echo", fmt.Sprintf("{timeouts: {request: %v}, backendRefs: [{name: echo, port: 8080}]}", short))))
	s.node("echo", 21)
	app := s.HTTP("echo", s.Addr(21, 8080))
	left := make(chan struct{}, 1)
	app.Handle(func(x *meshtest.Exchange) {
		if x.Target == "/quick" {
			ok(x)
			return
		}
		x.In.ReadByte()
		left <- struct{}{}
		x.Close()
	})
	client := s.client.HTTP(s.wp.Addr)
	get(t, client, echo+"/quick").want(t, 200, "ok")
	start := time.Now()
	r := get(t, client, echo+"/slow")
	took := time.Since(start)
	if r.StatusCode != 504 {
		t.Errorf("status %d, expected 504", r.StatusCode)
	}
	if took < short || took > 2*short {
		t.Errorf("it took %v, expected %v", took, short)
	}
	<-left
	if n := len(app.Requests()); n != 2 {
		t.Errorf("the application had %d requests, expected 2", n)
	}
	logLine{"response_flags": "UT", "response_code_details": "response_timeout", "route_name": "default/echo/0"}.in(t, s.logged(2)[1])
}

// TestAttemptTimeout: timeouts.backendRequest ends one attempt, and retry makes
// the next at another endpoint.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), pod("echo", 22), service("echo", "10.0.0.1", port(8080, "http")),
		httpRoute("echo", fmt.Sprintf("{timeouts: {request: 30s, backendRequest: %v}, retry: {attempts: 1, codes: [503]}, backendRefs: [{name: echo, port: 8080}]}", short))))
	var apps [2]*meshtest.HTTPApp
	for i := range apps {
		host := byte(21 + i)
		s.node("echo", host)
		apps[i] = s.HTTP(fmt.Sprintf("echo-%d", host), s.Addr(host, 8080))
	}
	apps[0].Handle(func(x *meshtest.Exchange) {
		x.In.ReadByte()
		x.Close()
	})
	apps[1].Handle(ok)
	client := s.client.HTTP(s.wp.Addr)
	for range 8 {
		do(t, client, "POST", echo, strings.NewReader("again")).want(t, 200, "ok")
	}
	if len(apps[0].Requests()) == 0 {
		t.Error("the slow endpoint was never tried")
	}
	for _, request := range apps[1].Requests() {
		if string(request.Body) != "again" {
			t.Errorf("the body of an attempt was %q", request.Body)
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

// TestNoHiddenTimeout: without timeouts in the route, a response may take as long
// as it likes.
func TestNoHiddenTimeout(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) {
		time.Sleep(3 * time.Second) //nolint:forbidigo // what is told of here is time
		ok(x)
	})
	get(t, s.client.HTTP(s.wp.Addr), echo).want(t, 200, "ok")
}

// TestManyRequestsAtOnce: as many as it takes ten tunnels for, all under way before
// the first is answered.
func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const requests = 1000
	s, app, _ := echoStage(t)
	release := held(app)
	failed := make(chan error, requests)
	client := s.client.HTTP(s.wp.Addr)
	for range requests {
		go func() { failed <- expect200(t.Context(), client, echo+"/slow") }()
	}
	s.Eventually("all are under way", func() bool { return len(app.Requests()) == requests })
	if n := s.metric("waypoint_tunnels_open"); n != 10 {
		t.Errorf("%v tunnels of 100 streams, expected 10", n)
	}
	release()
	for range requests {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
