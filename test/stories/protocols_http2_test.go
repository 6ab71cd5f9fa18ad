package stories

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// h2cStage has the HTTP/2 application echo at 10.0.0.1:8080.
func h2cStage(t *testing.T) (*stage, *meshtest.H2CApp, *meshtest.NodeProxy) {
	t.Helper()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "kubernetes.io/h2c"))))
	return s, s.H2C("echo", s.Addr(21, 8080)), s.node("echo", 21)
}

func TestH2CPriorKnowledge(t *testing.T) {
	t.Parallel()
	s, app, node := h2cStage(t)
	client := s.client.H2C(s.wp.Addr)
	for i := range 10 {
		r := get(t, client, fmt.Sprintf("%s/%d", echo, i))
		if r.StatusCode != 200 || r.Proto != "HTTP/2.0" {
			t.Fatalf("status %d in %s", r.StatusCode, r.Proto)
		}
	}
	if seen := app.Requests()[0]; seen.Proto != "HTTP/2.0" || seen.Host != "10.0.0.1:8080" {
		t.Errorf("the application saw %s of host %s", seen.Proto, seen.Host)
	}
	connects := node.Connects()
	if len(connects) != 1 || !bytes.HasPrefix(connects[0].Sent(), []byte(http2.ClientPreface)) {
		t.Errorf("%d CONNECTs, expected one that begins with HTTP/2's preface", len(connects))
	}
	logLine{"protocol": "HTTP/2", "response_code": 200}.in(t, s.logged(10)[0])
}

// TestVersionsFollowThePort: what the endpoint is asked in follows from its port,
// whatever the client speaks, and whatever the tunnel is made of.
func TestVersionsFollowThePort(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1",
		port(8080, "http"), port(8081, "kubernetes.io/h2c"), port(8082, ""))))
	node := s.node("echo", 21)
	for number := 8080; number <= 8082; number++ {
		s.H2C("echo", s.Addr(21, number)) // speaks both
	}
	for _, want := range []struct {
		port     int
		client   string
		endpoint string
	}{
		{8080, "HTTP/1.1", "GET /"},
		{8080, "HTTP/2.0", "GET /"},
		{8081, "HTTP/1.1", http2.ClientPreface},
		{8081, "HTTP/2.0", http2.ClientPreface},
		{8082, "HTTP/1.1", "GET /"},
		{8082, "HTTP/2.0", http2.ClientPreface},
	} {
		client := s.client.HTTP(s.wp.Addr)
		if want.client == "HTTP/2.0" {
			client = s.client.H2C(s.wp.Addr)
		}
		before := len(node.Connects())
		r := get(t, client, fmt.Sprintf("http://10.0.0.1:%d/", want.port))
		if r.StatusCode != 200 || r.Proto != want.client {
			t.Errorf("port %d: the client that speaks %s got %d in %s", want.port, want.client, r.StatusCode, r.Proto)
		}
		connects := node.Connects()
		last := connects[len(connects)-1]
		if got := last.Sent(); !bytes.HasPrefix(got, []byte(want.endpoint)) || last.Target != s.Addr(21, want.port) {
			t.Errorf("port %d and a client that speaks %s: of %d new connections the last, to %s, began with %.30q, expected %q",
				want.port, want.client, len(connects)-before, last.Target, got, want.endpoint)
		}
	}
}

// TestBodiesAcrossVersions: 2 MB and trailers, from each version to each.
func TestBodiesAcrossVersions(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"), port(8081, "kubernetes.io/h2c"))))
	s.node("echo", 21)
	sent := bytes.Repeat([]byte("versions"), 250_000)
	for _, number := range []int{8080, 8081} {
		app := s.H2C("echo", s.Addr(21, number))
		app.Handle(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			sum := sha256.New()
			if _, err := io.Copy(w, io.TeeReader(r.Body, sum)); err != nil {
				return
			}
			w.Header().Set("X-Sum", fmt.Sprintf("%x", sum.Sum(nil)))
		})
		for _, client := range []*http.Client{s.client.HTTP(s.wp.Addr), s.client.H2C(s.wp.Addr)} {
			r := do(t, client, "POST", fmt.Sprintf("http://10.0.0.1:%d/", number), bytes.NewReader(sent))
			if r.StatusCode != 200 || r.text != string(sent) {
				t.Errorf("port %d, %s: status %d, %d bytes back, expected the %d that were sent", number, r.Proto, r.StatusCode, len(r.text), len(sent))
			}
			if want := fmt.Sprintf("%x", sha256.Sum256(sent)); r.Trailer.Get("X-Sum") != want {
				t.Errorf("port %d, %s: trailer X-Sum is %q", number, r.Proto, r.Trailer.Get("X-Sum"))
			}
		}
	}
}

// grpcStage has the gRPC application echo at 10.0.0.1:9000.
func grpcStage(t *testing.T) (*stage, *meshtest.GRPCApp, *grpc.ClientConn) {
	t.Helper()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(9000, "grpc"))))
	app := s.GRPC("echo", s.Addr(21, 9000))
	s.node("echo", 21)
	conn := s.client.GRPC(s.wp.Addr, "10.0.0.1:9000")
	t.Cleanup(func() { conn.Close() })
	return s, app, conn
}

func TestGRPCUnary(t *testing.T) {
	t.Parallel()
	s, app, conn := grpcStage(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-colour", "blue")
	in, out := []byte("hello"), []byte(nil)
	var trailer metadata.MD
	if err := conn.Invoke(ctx, "/shop.Cart/Add", &in, &out, meshtest.Raw(), grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if string(out) != "hello" || strings.Join(trailer.Get("x-app"), ",") != "echo" {
		t.Errorf("answer %q with trailer %v", out, trailer)
	}
	call := app.Calls()[0]
	if call.Method != "/shop.Cart/Add" || strings.Join(call.Metadata.Get("x-colour"), ",") != "blue" {
		t.Errorf("the application saw %s with %v", call.Method, call.Metadata)
	}
	logLine{"grpc_status": "0", "response_code": 200, "path": "/shop.Cart/Add", "protocol": "HTTP/2"}.in(t, s.logged(1)[0])
	if n := s.metric("istio_requests_total", `request_protocol="grpc"`, `grpc_response_status="0"`); n != 1 {
		t.Errorf("istio_requests_total of gRPC is %v", n)
	}
	if n := s.metric("istio_request_messages_total", `destination_service_name="echo"`); n != 1 {
		t.Errorf("istio_request_messages_total is %v", n)
	}
}

func TestGRPCHealth(t *testing.T) {
	t.Parallel()
	_, _, conn := grpcStage(t)
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", resp, err)
	}
}

func TestGRPCFailureTravelsInTrailers(t *testing.T) {
	t.Parallel()
	s, _, conn := grpcStage(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "fail", "NOT_FOUND")
	in, out := []byte("hello"), []byte(nil)
	err := conn.Invoke(ctx, "/shop.Cart/Get", &in, &out, meshtest.Raw())
	if status.Code(err) != codes.NotFound || status.Convert(err).Message() != "as asked" {
		t.Fatalf("error %v, expected NotFound: as asked", err)
	}
	logLine{"grpc_status": "5", "response_code": 200}.in(t, s.logged(1)[0])
}

// TestGRPCTrailersOnly: an application that answers with nothing but a status.
func TestGRPCTrailersOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(9000, "grpc"))))
	s.node("echo", 21)
	s.H2C("echo", s.Addr(21, 9000)).Handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "8")
		w.Header().Set("Grpc-Message", "sold out")
	})
	conn := s.client.GRPC(s.wp.Addr, "10.0.0.1:9000")
	t.Cleanup(func() { conn.Close() })
	in, out := []byte("x"), []byte(nil)
	err := conn.Invoke(t.Context(), "/shop.Cart/Get", &in, &out, meshtest.Raw())
	if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "sold out" {
		t.Fatalf("error %v, expected ResourceExhausted: sold out", err)
	}
	logLine{"grpc_status": "8", "response_code": 200}.in(t, s.logged(1)[0])
}

func TestGRPCDialogue(t *testing.T) {
	t.Parallel()
	s, _, conn := grpcStage(t)
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/shop.Cart/Chat", meshtest.Raw())
	if err != nil {
		t.Fatal(err)
	}
	// A dialogue: each message is answered before the next is sent.
	for i := range 100 {
		sent, got := fmt.Appendf(nil, "message %d", i), []byte(nil)
		if err := stream.SendMsg(&sent); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&got); err != nil || !bytes.Equal(sent, got) {
			t.Fatalf("%q came back as %q: %v", sent, got, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var nothing []byte
	if err := stream.RecvMsg(&nothing); !errors.Is(err, io.EOF) {
		t.Fatalf("the end of the stream is %v", err)
	}
	logLine{"grpc_status": "0"}.in(t, s.logged(1)[0])
	if n := s.metric("istio_response_messages_total", `destination_service_name="echo"`); n != 100 {
		t.Errorf("istio_response_messages_total is %v", n)
	}
}

// TestGRPCDeadline: the application waits for a message that does not come; the
// deadline ends the call on both sides.
func TestGRPCDeadline(t *testing.T) {
	t.Parallel()
	s, app, conn := grpcStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*short)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/shop.Cart/Wait", meshtest.Raw())
	if err != nil {
		t.Fatal(err)
	}
	s.Eventually("the call is there", func() bool { return len(app.Calls()) == 1 })
	var got []byte
	if err := stream.RecvMsg(&got); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("error %v, expected DeadlineExceeded", err)
	}
	line := s.logged(1)[0]
	if flags := fmt.Sprint(line["response_flags"]); flags != "DC" && flags != "UT" {
		t.Errorf("response flags %s, expected DC or UT: the client and the waypoint see the deadline at the same time", flags)
	}
}

func TestGRPCManyCallsOnOneConnection(t *testing.T) {
	t.Parallel()
	_, app, conn := grpcStage(t)
	failed := make(chan error)
	const calls = 200
	for i := range calls {
		go func() {
			in, out := bytes.Repeat([]byte{byte(i)}, 1000+i), []byte(nil)
			err := conn.Invoke(t.Context(), "/shop.Cart/Add", &in, &out, meshtest.Raw())
			if err == nil && !bytes.Equal(in, out) {
				err = errors.New("another message came back")
			}
			failed <- err
		}()
	}
	for range calls {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := len(app.Calls()); n != calls {
		t.Errorf("the application had %d calls", n)
	}
}

// TestExtendedConnect: a WebSocket over HTTP/2 (RFC 8441), to an application that
// knows HTTP/1.1 only, and to one that takes extended CONNECT itself.
func TestExtendedConnect(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	s.node("echo", 21)
	app := s.H2C("echo", s.Addr(21, 8080))
	app.Handle(meshtest.EchoWebSocket)
	c := h2Client(t, s.open("10.0.0.1:8080"))
	c.request(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/ws", ":authority", "echo",
		"sec-websocket-version", "13")
	if got := c.head(1).PseudoValue("status"); got != "200" {
		t.Fatalf("status %s, expected 200", got)
	}
	frame := []byte{0x82, 0x85, 0, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'} // binary, masked with zeros
	c.data(1, false, frame)
	if got := c.body(1, 7); !bytes.Equal(got, append([]byte{0x82, 5}, "hello"...)) {
		t.Errorf("the application answered % x", got)
	}
	if seen := app.Requests()[0]; seen.Method != "GET" || seen.Proto != "HTTP/1.1" || seen.Get("upgrade") != "websocket" || seen.Get("sec-websocket-key") == "" {
		t.Errorf("the application saw %s in %s with %v", seen.Method, seen.Proto, seen.Header)
	}
	c.data(1, false, []byte{0x88, 0x80, 0, 0, 0, 0}) // close
	c.body(1, 2)
	c.data(1, true, nil)
	line := s.logged(1)[0]
	logLine{"method": "GET", "path": "/ws", "protocol": "HTTP/2", "response_flags": nil}.in(t, line)
}

// TestExtendedConnectToHTTP2: the same to an application that takes extended CONNECT
// itself, from clients of both versions.
func TestExtendedConnectToHTTP2(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "kubernetes.io/h2c"))))
	s.node("echo", 21)
	asked := make(chan *http2.MetaHeadersFrame, 2)
	h2App(s, s.Addr(21, 8080), func(_ int, f *http2.Framer, head *http2.MetaHeadersFrame) {
		if head != nil {
			asked <- head
			answer200(f, head.StreamID, false)
			f.WriteData(head.StreamID, false, []byte("hello"))
		}
	}, http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: 1})
	wantAsked := func() {
		t.Helper()
		head := <-asked
		if m, p := head.PseudoValue("method"), head.PseudoValue("protocol"); m != "CONNECT" || p != "websocket" || head.PseudoValue("path") != "/ws" {
			t.Errorf("the application was asked %s %s for %s", m, p, head.PseudoValue("path"))
		}
	}

	h2 := h2Client(t, s.open("10.0.0.1:8080"))
	h2.request(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/ws", ":authority", "echo",
		"sec-websocket-version", "13")
	if got := h2.head(1).PseudoValue("status"); got != "200" {
		t.Fatalf("status %s", got)
	}
	if got := h2.body(1, 5); string(got) != "hello" {
		t.Errorf("heard %q", got)
	}
	wantAsked()

	h1 := s.open("10.0.0.1:8080")
	h1.say("GET /ws HTTP/1.1\r\nHost: echo\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	resp, err := http.ReadResponse(h1.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if accept := resp.Header.Get("Sec-WebSocket-Accept"); resp.StatusCode != 101 || accept != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("status %d, Sec-WebSocket-Accept %q, expected 101 and what RFC 6455 has for this key", resp.StatusCode, accept)
	}
	h1.hear("hello")
	wantAsked()
}

// rawH2 is an HTTP/2 client spoken frame by frame.
type rawH2 struct {
	t      *testing.T
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
}

func h2Client(t *testing.T, conn net.Conn) *rawH2 {
	t.Helper()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &rawH2{t: t, framer: http2.NewFramer(conn, conn)}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.block)
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// request sends a head; the fields are names and values in turn.
func (c *rawH2) request(id uint32, end bool, fields ...string) {
	c.t.Helper()
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndStream: end, EndHeaders: true})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawH2) data(id uint32, end bool, p []byte) {
	c.t.Helper()
	if err := c.framer.WriteData(id, end, p); err != nil {
		c.t.Fatal(err)
	}
}

// next reads frames until one is wanted, and acknowledges settings meanwhile.
func (c *rawH2) next(wanted func(http2.Frame) bool) http2.Frame {
	c.t.Helper()
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatalf("expected another frame: %v", err)
		}
		if s, isSettings := f.(*http2.SettingsFrame); isSettings && !s.IsAck() {
			if err := c.framer.WriteSettingsAck(); err != nil {
				c.t.Fatal(err)
			}
		}
		if wanted(f) {
			return f
		}
		if reset, isReset := f.(*http2.RSTStreamFrame); isReset {
			c.t.Fatalf("stream %d was reset: %s", reset.StreamID, reset.ErrCode)
		}
	}
}

// head waits for the head of a response.
func (c *rawH2) head(id uint32) *http2.MetaHeadersFrame {
	c.t.Helper()
	f := c.next(func(f http2.Frame) bool {
		_, ok := f.(*http2.MetaHeadersFrame)
		return ok && f.Header().StreamID == id
	})
	return f.(*http2.MetaHeadersFrame)
}

// body waits for n bytes of a stream.
func (c *rawH2) body(id uint32, n int) (got []byte) {
	c.t.Helper()
	for len(got) < n {
		f := c.next(func(f http2.Frame) bool {
			_, ok := f.(*http2.DataFrame)
			return ok && f.Header().StreamID == id
		})
		got = append(got, f.(*http2.DataFrame).Data()...)
	}
	return got
}
