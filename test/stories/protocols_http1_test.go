package stories

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// echoStage has the HTTP/1.1 application echo at 10.0.0.1:8080.
func echoStage(t *testing.T) (*stage, *meshtest.HTTPApp, *meshtest.NodeProxy) {
	t.Helper()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	return s, s.HTTP("echo", s.Addr(21, 8080)), s.node("echo", 21)
}

const echo = "http://10.0.0.1:8080"

// ok answers 200 "ok" once the body of the request was read.
func ok(x *meshtest.Exchange) {
	if _, err := io.Copy(io.Discard, x); err != nil {
		x.Close()
		return
	}
	x.Reply(200, "ok")
}

func TestRequestSeenFromAllSides(t *testing.T) {
	t.Parallel()
	s, app, node := echoStage(t)
	app.Handle(ok)
	get(t, s.client.HTTP(s.wp.Addr), echo+"/hello?x=1").want(t, 200, "ok")

	seen := app.Requests()[0]
	if seen.Method != "GET" || seen.Target != "/hello?x=1" || seen.Proto != "HTTP/1.1" || seen.Host != "10.0.0.1:8080" {
		t.Errorf("the application saw %s %s %s of host %s", seen.Method, seen.Target, seen.Proto, seen.Host)
	}
	connect := node.Connects()[0]
	if connect.Target != s.Addr(21, 8080) || connect.Peer.String() != meshtest.WaypointID {
		t.Errorf("the node proxy saw CONNECT %s by %s", connect.Target, connect.Peer)
	}
	logLine{
		"method": "GET", "path": "/hello?x=1", "protocol": "HTTP/1.1", "response_code": 200, "response_flags": nil,
		"bytes_sent": 2, "upstream_host": s.Addr(21, 8080), "source_principal": clientID, "downstream_local_address": "10.0.0.1:8080",
		"destination_service": "echo.default.svc.cluster.local", "destination_workload": "echo-21", "retries": 0,
	}.in(t, s.logged(1)[0])
	if n := s.metric("istio_requests_total", `reporter="waypoint"`, `response_code="200"`, `destination_service_name="echo"`,
		`source_principal="`+clientID+`"`, `connection_security_policy="mutual_tls"`); n != 1 {
		t.Errorf("istio_requests_total is %v", n)
	}
}

func TestHTTP10(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) {
		x.Reply(200, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", meshtest.Field{Name: "Transfer-Encoding", Value: "chunked"})
	})
	c := s.open("10.0.0.1:8080")
	c.say("GET / HTTP/1.0\r\nHost: echo\r\n\r\n")
	r := c.reply("GET")
	r.want(t, 200, "onetwo")
	if len(r.TransferEncoding) > 0 {
		t.Error("the answer to HTTP/1.0 is chunked")
	}
	if rest := c.rest(); rest != "" {
		t.Errorf("after the answer came %q, expected the end", rest)
	}
	if got := app.Requests()[0].Proto; got != "HTTP/1.1" {
		t.Errorf("the application was asked in %s", got)
	}
	logLine{"protocol": "HTTP/1.0", "response_code": 200}.in(t, s.logged(1)[0])
}

func TestHTTP10KeepAlive(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(ok)
	c := s.open("10.0.0.1:8080")
	for range 3 {
		c.say("GET / HTTP/1.0\r\nHost: echo\r\nConnection: keep-alive\r\n\r\n")
		r := c.reply("GET")
		r.want(t, 200, "ok")
		if got := r.Header.Get("Connection"); !strings.EqualFold(got, "keep-alive") {
			t.Fatalf("Connection: %q, expected keep-alive", got)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	s, app, node := echoStage(t)
	app.Handle(ok)
	c := s.open("10.0.0.1:8080")
	for i := range 20 {
		c.say(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: echo\r\n\r\n", i))
		c.reply("GET").want(t, 200, "ok")
	}
	c.say("GET /last HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n")
	c.reply("GET").want(t, 200, "ok")
	if rest := c.rest(); rest != "" {
		t.Errorf("after Connection: close came %q", rest)
	}
	if n := len(node.Connects()); n != 1 {
		t.Errorf("%d CONNECTs for 21 requests in a row, expected 1", n)
	}
	if n := app.Conns(); n != 1 {
		t.Errorf("the application had %d connections, expected 1", n)
	}
}

func TestPipelining(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) { x.Reply(200, x.Target) })
	var requests strings.Builder
	for i := range 50 {
		fmt.Fprintf(&requests, "GET /%d HTTP/1.1\r\nHost: echo\r\n\r\n", i)
	}
	c := s.open("10.0.0.1:8080")
	c.say(requests.String())
	for i := range 50 {
		c.reply("GET").want(t, 200, fmt.Sprintf("/%d", i))
	}
}

func TestChunkedBothWaysWithTrailers(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) {
		body, err := io.ReadAll(x)
		if err != nil {
			x.Close()
			return
		}
		x.Reply(200, fmt.Sprintf("%x\r\n%s\r\n0\r\nX-Late: yes\r\n\r\n", len(body), body),
			meshtest.Field{Name: "Transfer-Encoding", Value: "chunked"}, meshtest.Field{Name: "Trailer", Value: "X-Late"})
	})
	c := s.open("10.0.0.1:8080")
	c.say("POST / HTTP/1.1\r\nHost: echo\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
	for _, piece := range []string{"5\r\nhello\r\n", "1;ext=1\r\n \r\n", "5\r\nw", "orld\r\n", "0\r\nX-Sum: 7\r\n\r\n"} {
		c.say(piece)
	}
	r := c.reply("POST")
	r.want(t, 200, "hello world")
	if got := r.Trailer.Get("X-Late"); got != "yes" {
		t.Errorf("trailer X-Late of the response is %q", got)
	}
	seen := app.Requests()[0]
	if string(seen.Body) != "hello world" || !slices.Equal(seen.Trailer, []meshtest.Field{{Name: "x-sum", Value: "7"}}) {
		t.Errorf("the application saw %q with trailers %v", seen.Body, seen.Trailer)
	}
	c.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
	c.reply("GET").want(t, 200, "")
}

// TestLargeBodies moves more than any window or buffer holds, up and down at once.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 20_000_000
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) {
		x.Reply(200, "", meshtest.Field{Name: "Content-Length", Value: fmt.Sprint(size)})
		if _, err := io.Copy(x, x); err != nil {
			x.Close()
		}
	})
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	r := do(t, s.client.HTTP(s.wp.Addr), "POST", echo, bytes.NewReader(sent))
	if sha256.Sum256([]byte(r.text)) != sha256.Sum256(sent) {
		t.Errorf("the %d bytes that came back are not those sent", len(r.text))
	}
	if seen := app.Requests()[0]; seen.Length != size || seen.SHA256 != sha256.Sum256(sent) {
		t.Errorf("the application read %d bytes, not those sent", seen.Length)
	}
	logLine{"bytes_received": size, "bytes_sent": size}.in(t, s.logged(1)[0])
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	const head = "POST / HTTP/1.1\r\nHost: echo\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
	t.Run("the application asks for the body", func(t *testing.T) {
		t.Parallel()
		s, app, _ := echoStage(t)
		app.Handle(func(x *meshtest.Exchange) {
			x.Reply(100, "")
			ok(x)
		})
		c := s.open("10.0.0.1:8080")
		c.say(head)
		c.reply("POST").want(t, 100, "")
		c.say("body")
		c.reply("POST").want(t, 200, "ok")
		if got := string(app.Requests()[0].Body); got != "body" {
			t.Errorf("the application read %q", got)
		}
	})
	t.Run("the application refuses at once", func(t *testing.T) {
		t.Parallel()
		s, app, node := echoStage(t)
		app.Handle(func(x *meshtest.Exchange) {
			x.Reply(401, "who are you?")
			x.Conn.Close()
		})
		c := s.open("10.0.0.1:8080")
		c.say(head)
		c.reply("POST").want(t, 401, "who are you?")
		if sent := node.Connects()[0].Sent(); bytes.Contains(sent, []byte("body")) || !bytes.Contains(sent, []byte("100-continue")) {
			t.Errorf("the application was sent %q, expected the head with Expect and no body", sent)
		}
	})
	t.Run("the application waits in silence", func(t *testing.T) {
		t.Parallel()
		s, app, _ := echoStage(t)
		app.Handle(ok)
		c := s.open("10.0.0.1:8080")
		c.say(head + "body") // the client has had enough of waiting
		c.reply("POST").want(t, 200, "ok")
		if got := string(app.Requests()[0].Body); got != "body" {
			t.Errorf("the application read %q", got)
		}
	})
}

// TestEarlyAnswer: the application answers before it has the body, and the
// client has not sent it yet.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) { x.Reply(413, "too much") })
	c := s.open("10.0.0.1:8080")
	c.say("POST / HTTP/1.1\r\nHost: echo\r\nContent-Length: 1000000\r\n\r\nfirst")
	c.reply("POST").want(t, 413, "too much")
}

func TestHalfClosedRequestIsAnswered(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	proceed := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		<-proceed
		ok(x)
	})
	c := s.open("10.0.0.1:8080")
	c.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
	c.closeWrite()
	s.Eventually("the request has arrived", func() bool { return len(app.Requests()) == 1 })
	close(proceed)
	c.reply("GET").want(t, 200, "ok")
	if rest := c.rest(); rest != "" {
		t.Errorf("after the answer came %q", rest)
	}
	logLine{"response_code": 200, "response_flags": nil}.in(t, s.logged(1)[0])
}

func TestBodyUntilTheEnd(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) {
		io.WriteString(x, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nas long as it takes")
		x.Close()
	})
	get(t, s.client.HTTP(s.wp.Addr), echo).want(t, 200, "as long as it takes")
}

// TestTruncatedAnswer: a response that breaks off must not look complete.
func TestTruncatedAnswer(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"fixed":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\npart",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, app, _ := echoStage(t)
			app.Handle(func(x *meshtest.Exchange) {
				io.WriteString(x, head)
				x.Close()
			})
			c := s.open("10.0.0.1:8080")
			c.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
			if resp, err := http.ReadResponse(c.in, nil); err == nil { // the head may be lost with the rest
				if body, err := io.ReadAll(resp.Body); err == nil {
					t.Errorf("the client took %q for complete", body)
				}
			}
			logLine{"response_code": 200, "response_flags": "UC"}.in(t, s.logged(1)[0])
		})
	}
}

func TestHeaderCaseIsKept(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) { x.Reply(200, "", meshtest.Field{Name: "X-rAtE", Value: "7"}) })
	c := s.open("10.0.0.1:8080")
	c.say("GET / HTTP/1.1\r\nhOsT: echo\r\nX-ReQ-Name: 1\r\nSOAPAction: x\r\nx-ReQ-Name: 2\r\n\r\n")
	c.hear("HTTP/1.1 200 Said-So\r\n")
	if head, err := c.in.Peek(c.in.Buffered()); err != nil || !bytes.Contains(head, []byte("\r\nX-rAtE: 7\r\n")) && !bytes.HasPrefix(head, []byte("X-rAtE: 7\r\n")) {
		t.Errorf("the client saw %q (%v), expected X-rAtE in its spelling", head, err)
	}
	var names []string
	for _, f := range app.Requests()[0].Header {
		if strings.HasPrefix(strings.ToLower(f.Name), "x-req-n") || strings.EqualFold(f.Name, "soapaction") {
			names = append(names, f.Name)
		}
	}
	if want := []string{"X-ReQ-Name", "SOAPAction", "x-ReQ-Name"}; !slices.Equal(names, want) {
		t.Errorf("the application saw the fields %v, expected %v", names, want)
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	app := s.H2C("echo", s.Addr(21, 8080)) // it speaks HTTP/1.1 as well
	app.Handle(meshtest.EchoWebSocket)
	s.node("echo", 21)
	ws, resp, err := websocket.Dial(t.Context(), "ws://10.0.0.1:8080/ws", &websocket.DialOptions{HTTPClient: s.client.HTTP(s.wp.Addr)})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", resp.StatusCode)
	}
	echoMessages(t, ws)
	if proto := app.Requests()[0].Proto; proto != "HTTP/1.1" {
		t.Errorf("the application was asked in %s", proto)
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("closing: %v", err)
	}
	logLine{"response_code": 101, "response_flags": nil, "path": "/ws"}.in(t, s.logged(1)[0])
}

// echoMessages sends small and large messages and expects them back.
func echoMessages(t *testing.T, ws *websocket.Conn) {
	t.Helper()
	ws.SetReadLimit(-1)
	for _, size := range []int{0, 1, 125, 126, 70_000, 1_000_000} {
		message := bytes.Repeat([]byte("w"), size)
		if err := ws.Write(t.Context(), websocket.MessageBinary, message); err != nil {
			t.Fatal(err)
		}
		_, got, err := ws.Read(t.Context())
		if err != nil || !bytes.Equal(got, message) {
			t.Fatalf("a message of %d bytes came back with %d: %v", size, len(got), err)
		}
	}
}

// TestServerSentEvents: what an application writes arrives when it is written.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	next := make(chan string)
	app.Handle(func(x *meshtest.Exchange) {
		io.WriteString(x, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for event := range next {
			fmt.Fprintf(x, "%x\r\n%s\r\n", len(event), event)
		}
		io.WriteString(x, "0\r\n\r\n")
	})
	resp, err := s.client.HTTP(s.wp.Addr).Get(echo)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 10 {
		event := fmt.Sprintf("data: %d\n\n", i)
		next <- event
		got := make([]byte, len(event))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != event {
			t.Fatalf("event %q (%v), expected %q", got, err, event)
		}
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Fatalf("after the events: %q, %v", rest, err)
	}
}

// TestSlowHead: a request arrives however small its pieces are.
func TestSlowHead(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(ok)
	c := s.open("10.0.0.1:8080")
	for _, b := range []byte("POST /bytes HTTP/1.1\r\nHost: echo\r\nContent-Length: 3\r\n\r\nabc") {
		c.say(string(b)) // each in a DATA frame of its own
	}
	c.reply("POST").want(t, 200, "ok")
	if seen := app.Requests()[0]; seen.Target != "/bytes" || string(seen.Body) != "abc" {
		t.Errorf("the application saw %s %q", seen.Target, seen.Body)
	}
}

// TestClientLeavesInTheMiddle: an application does not work on for a client that
// has gone.
func TestClientLeavesInTheMiddle(t *testing.T) {
	t.Parallel()
	s, app, node := echoStage(t)
	left := make(chan error, 1)
	app.Handle(func(x *meshtest.Exchange) {
		one := make([]byte, 1)
		x.Conn.SetReadDeadline(time.Now().Add(patience))
		_, err := x.In.Read(one) // until the waypoint lets go
		left <- err
		x.Close()
	})
	c := s.open("10.0.0.1:8080")
	c.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
	s.Eventually("the request has arrived", func() bool { return len(app.Requests()) == 1 })
	c.Conn.(*meshtest.Stream).Reset(8)
	select {
	case err := <-left:
		if err == nil {
			t.Error("the application got more bytes, expected the end")
		}
	case <-time.After(patience):
		t.Fatal("the application was not told that its client has gone")
	}
	logLine{"response_flags": "DC"}.in(t, s.logged(1)[0])
	if tunnels := len(node.Tunnels()); tunnels != 1 {
		t.Errorf("%d tunnels, expected the one to live on", tunnels)
	}
}
