package meshtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	reviews = "spiffe://cluster.local/ns/default/sa/reviews"
	product = "spiffe://cluster.local/ns/shop/sa/product"
)

// pair is a client and the node proxy of one pod, with no waypoint between them.
func pair(t *testing.T, settings ...meshtest.Settings) (*meshtest.Mesh, *meshtest.Client, *meshtest.NodeProxy) {
	t.Helper()
	mesh := meshtest.New(t)
	return mesh, mesh.Client(product), mesh.NodeProxy(mesh.IP(21), reviews, settings...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, c *meshtest.Client, n *meshtest.NodeProxy, target string) *meshtest.Stream {
	t.Helper()
	s, err := c.Dial(t.Context(), n.Address(), target)
	must(t, err)
	return s
}

func TestRequestThroughATunnel(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.HTTP("reviews-v1", mesh.Addr(21, 8080))
	client.From = mesh.IP(7)

	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+app.Address()+"/a/../b?x=1", io.MultiReader(strings.NewReader("some "), strings.NewReader("body")))
	must(t, err)
	req.Header["x-lower-Case"] = []string{"1"}
	req.Trailer = http.Header{"X-Sum": {"9"}}
	resp, err := client.HTTP(node.Address()).Do(req)
	must(t, err)
	defer resp.Body.Close()
	var told meshtest.Request
	must(t, json.NewDecoder(resp.Body).Decode(&told))

	requests := app.Requests()
	if len(requests) != 1 {
		t.Fatalf("%d requests recorded, want 1", len(requests))
	}
	got := requests[0]
	if got.Method != "POST" || got.Target != "/a/../b?x=1" || string(got.Body) != "some body" || got.Length != 9 || told.Target != got.Target {
		t.Errorf("recorded %+v, told %+v", got, told)
	}
	if len(got.Trailer) != 1 || got.Trailer[0] != (meshtest.Field{Name: "X-Sum", Value: "9"}) {
		t.Errorf("trailer %v", got.Trailer)
	}
	spelled := false
	for _, f := range got.Header {
		spelled = spelled || f.Name == "x-lower-Case"
	}
	if !spelled {
		t.Errorf("the spelling of a field was lost: %v", got.Header)
	}

	connect := node.Connects()[0]
	if connect.Target != app.Address() || connect.Peer.String() != product || connect.PeerAddr.Addr().String() != mesh.IP(7) {
		t.Errorf("CONNECT recorded as %v from %v at %v", connect.Target, connect.Peer, connect.PeerAddr)
	}
	if !strings.HasPrefix(connect.Get("forwarded"), `for="`+mesh.IP(7)) || len(connect.Get("traceparent")) != 55 {
		t.Errorf("fields of the CONNECT: %v", connect.Header)
	}
	if !bytes.HasPrefix(connect.Sent(), []byte("POST /a/../b?x=1 HTTP/1.1\r\n")) {
		t.Errorf("bytes of the tunnel: %q", connect.Sent())
	}
}

func TestHalfClose(t *testing.T) {
	mesh, client, node := pair(t)
	echo := mesh.TCP("echo", mesh.Addr(21, 9000), meshtest.Echo)
	got := make(chan []byte, 1)
	farewell := mesh.TCP("farewell", mesh.Addr(21, 9001), meshtest.Farewell("so long\n", got))

	t.Run("client first", func(t *testing.T) {
		s := dial(t, client, node, echo.Address())
		defer s.Close()
		sent := bytes.Repeat([]byte("0123456789"), 2e6) // 20 million bytes: many windows
		go func() {
			s.Write(sent)
			s.CloseWrite()
		}()
		back, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(back, sent) {
			t.Errorf("%d bytes came back, %v", len(back), err)
		}
	})
	t.Run("server first", func(t *testing.T) {
		s := dial(t, client, node, farewell.Address())
		defer s.Close()
		said, err := io.ReadAll(s)
		if string(said) != "so long\n" || err != nil {
			t.Errorf("%q, %v", said, err)
		}
		_, err = io.WriteString(s, "and thanks")
		must(t, err)
		must(t, s.CloseWrite())
		if answer := <-got; string(answer) != "and thanks" {
			t.Errorf("the application got %q", answer)
		}
	})
}

func TestServerSpeaksFirst(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.TCP("smtp", mesh.Addr(21, 25), meshtest.Greet("220 hello\n"))
	s := dial(t, client, node, app.Address())
	defer s.Close()
	buf := make([]byte, 100)
	n, err := s.Read(buf)
	must(t, err)
	if string(buf[:n]) != "220 hello\n" {
		t.Errorf("greeting %q", buf[:n])
	}
	must(t, s.SetReadDeadline(time.Now().Add(time.Millisecond)))
	var timeout interface{ Timeout() bool }
	if _, err := s.Read(buf); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read past the deadline: %v", err)
	}
}

func TestTLSByServerName(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.TLS("secure", mesh.Addr(21, 8443), "a.example", "b.example")
	s := dial(t, client, node, app.Address())
	defer s.Close()
	secured := tls.Client(s, &tls.Config{ServerName: "b.example", InsecureSkipVerify: true})
	buf := make([]byte, 100)
	n, err := secured.Read(buf)
	must(t, err)
	if string(buf[:n]) != "secure b.example\n" {
		t.Errorf("%q", buf[:n])
	}
}

func TestGRPC(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.GRPC("ratings", mesh.Addr(21, 7070))
	conn := client.GRPC(node.Address(), app.Address())

	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-test", "1")
	in, out := []byte("any bytes"), []byte(nil)
	must(t, conn.Invoke(ctx, "/pkg.Svc/Unary", &in, &out, meshtest.Raw()))
	if !bytes.Equal(in, out) {
		t.Errorf("%q came back", out)
	}
	calls := app.Calls()
	if len(calls) != 1 || calls[0].Method != "/pkg.Svc/Unary" || calls[0].Metadata.Get("x-test")[0] != "1" {
		t.Errorf("calls %+v", calls)
	}

	err := conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), "fail", "unavailable"), "/pkg.Svc/Unary", &in, &out, meshtest.Raw())
	if status.Code(err) != codes.Unavailable {
		t.Errorf("asked for UNAVAILABLE, got %v", err)
	}

	health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must(t, err)
	if health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health %v", health.Status)
	}
}

func TestH2CAndWebSocket(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.H2C("web", mesh.Addr(21, 8081))
	url := "http://" + app.Address() + "/path"

	resp, err := client.H2C(node.Address()).Post(url, "text/plain", strings.NewReader("hi"))
	must(t, err)
	resp.Body.Close()
	if got := app.Requests()[0]; got.Proto != "HTTP/2.0" || string(got.Body) != "hi" {
		t.Errorf("recorded %+v", got)
	}

	app.Handle(meshtest.EchoWebSocket)
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client.HTTP(node.Address())})
	must(t, err)
	defer ws.CloseNow()
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte("over and out")))
	if _, message, err := ws.Read(t.Context()); string(message) != "over and out" || err != nil {
		t.Errorf("%q, %v", message, err)
	}
	must(t, ws.Close(websocket.StatusNormalClosure, ""))
}

func TestBehaviours(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.HTTP("app", mesh.Addr(21, 8080))
	connect := func(target string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s, err := client.Dial(ctx, node.Address(), target)
		if err == nil {
			_, err = s.Read(make([]byte, 1))
			s.Close()
		}
		return err
	}
	refused := func(status int) func(error) bool {
		return func(err error) bool {
			var refused *meshtest.RefusedError
			return errors.As(err, &refused) && refused.Status == status
		}
	}
	reset := func(code http2.ErrCode) func(error) bool {
		return func(err error) bool {
			var reset *meshtest.ResetError
			return errors.As(err, &reset) && reset.Code == code
		}
	}
	for _, c := range []struct {
		name   string
		meets  meshtest.Behaviour
		target string
		want   func(error) bool
	}{
		{"no such application", nil, mesh.Addr(21, 81), refused(503)},
		{"another pod", nil, mesh.Addr(22, 8080), refused(400)},
		{"denied", meshtest.Refuse(401), app.Address(), refused(401)},
		{"stalled", meshtest.Stall(), app.Address(), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{"reset", meshtest.Reset(http2.ErrCodeRefusedStream), app.Address(), reset(http2.ErrCodeRefusedStream)},
		{"reset later", meshtest.ResetAfter(0, http2.ErrCodeInternal), app.Address(), reset(http2.ErrCodeInternal)},
	} {
		t.Run(c.name, func(t *testing.T) {
			node.Behave(c.meets)
			if err := connect(c.target); !c.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestGoAwayMovesTheClient(t *testing.T) {
	mesh, client, node := pair(t)
	echo := mesh.TCP("echo", mesh.Addr(21, 9000), meshtest.Echo)
	before := dial(t, client, node, echo.Address())
	defer before.Close()
	node.Drain()
	mesh.Eventually("GOAWAY has come", func() bool { return before.Conn().GoneAway() != nil })

	after := dial(t, client, node, echo.Address())
	defer after.Close()
	if before.Conn() == after.Conn() || node.Accepted() != 2 {
		t.Errorf("%d tunnels, the second stream on the first one: %t", node.Accepted(), before.Conn() == after.Conn())
	}
	if _, err := io.WriteString(before, "still here"); err != nil {
		t.Errorf("the stream before the GOAWAY: %v", err)
	}
}

func TestStreamsPerTunnel(t *testing.T) {
	mesh, client, node := pair(t, meshtest.Settings{MaxStreams: 3})
	echo := mesh.TCP("echo", mesh.Addr(21, 9000), meshtest.Echo)
	first := dial(t, client, node, echo.Address())
	mesh.Eventually("the limit is known", func() bool { return first.Conn().PeerSettings().MaxStreams == 3 })
	for range 5 {
		defer dial(t, client, node, echo.Address()).Close()
	}
	if got := len(node.Tunnels()); got != 2 {
		t.Errorf("6 streams, 3 a tunnel: %d tunnels", got)
	}

	var refused *meshtest.ResetError
	if _, err := first.Conn().Connect(t.Context(), echo.Address()); !errors.As(err, &refused) || refused.Code != http2.ErrCodeRefusedStream {
		t.Errorf("one stream too many: %v", err)
	}
}

func TestIdentities(t *testing.T) {
	mesh, client, node := pair(t)
	ctx := t.Context()
	client.Expect = append(client.Expect, client.ID)
	if _, err := client.Tunnel(ctx, node.Address()); err == nil || !strings.Contains(err.Error(), reviews) {
		t.Errorf("a node proxy that is somebody else: %v", err)
	}

	for name, edit := range map[string]func(*x509.Certificate){
		"no URI":       func(c *x509.Certificate) { c.URIs = nil },
		"two URIs":     func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) },
		"expired":      func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
		"for a server": func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
	} {
		t.Run(name, func(t *testing.T) {
			odd := mesh.Client(product)
			odd.Cert = mesh.OddCertificate(product, edit)
			tunnel, err := odd.Tunnel(ctx, node.Address())
			if err != nil {
				return
			}
			// TLS 1.3 clients learn of a refusal by their first read.
			if _, err := tunnel.Connect(ctx, mesh.Addr(21, 80)); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestStalledReaderHoldsTheSender(t *testing.T) {
	mesh, client, node := pair(t, meshtest.Settings{StreamWindow: 1 << 20})
	got := make(chan []byte, 1)
	app := mesh.TCP("sink", mesh.Addr(21, 9000), meshtest.Farewell("", got))
	node.Behave(func(ctx context.Context, s *meshtest.Stream) {
		if s.Respond(200) == nil {
			<-ctx.Done() // reads nothing
		}
	})
	s := dial(t, client, node, app.Address())
	defer s.Close()
	_, err := s.Write(make([]byte, 1<<20)) // the window
	must(t, err)
	must(t, s.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
	if n, err := s.Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d bytes beyond the window, then %v", n, err)
	}
	must(t, s.Conn().Ping(t.Context())) // the connection is well
}

// A client that leaves in the middle of an answer ends its direction, and resets
// when more comes.
func TestCloseWhileTheOtherSends(t *testing.T) {
	mesh, client, node := pair(t)
	app := mesh.TCP("app", mesh.Addr(21, 9000), meshtest.Echo)
	left, reset := make(chan struct{}), make(chan error, 1)
	node.Behave(func(_ context.Context, s *meshtest.Stream) {
		if s.Respond(200) != nil {
			return
		}
		_, err := io.ReadAll(s)
		if err != nil {
			reset <- err
			return
		}
		close(left)
		for err == nil {
			_, err = io.WriteString(s, "more")
		}
		reset <- err
	})
	s := dial(t, client, node, app.Address())
	s.Close()
	<-left
	var broken *meshtest.ResetError
	if err := <-reset; !errors.As(err, &broken) || broken.Code != http2.ErrCodeCancel {
		t.Errorf("the sender saw %v", err)
	}
}

func TestManifestsMoveIntoTheMesh(t *testing.T) {
	mesh := meshtest.New(t)
	if got := mesh.Manifests("podIP: 127.66.0.21"); got != "podIP: "+mesh.IP(21) {
		t.Error(got)
	}
}

func TestCertificatesForAWaypoint(t *testing.T) {
	mesh := meshtest.New(t)
	dir := t.TempDir()
	mesh.WriteCertificate(dir, reviews)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certs.CertFile), filepath.Join(dir, certs.KeyFile))
	must(t, err)
	must(t, certs.Check(&pair, []*x509.Certificate{mesh.CA.Root}))
	id, _, err := mesh.Source(reviews).Identity()
	must(t, err)
	if id.String() != reviews {
		t.Errorf("identity %s", id)
	}
}

func BenchmarkTunnel(b *testing.B) {
	mesh := meshtest.New(b)
	node := mesh.NodeProxy(mesh.IP(21), reviews)
	client := mesh.Client(product)
	echo := mesh.TCP("echo", mesh.Addr(21, 9000), meshtest.Echo)
	s, err := client.Dial(b.Context(), node.Address(), echo.Address())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	block := make([]byte, 64<<10)
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		go s.Write(block)
		if _, err := io.ReadFull(s, block); err != nil {
			b.Fatal(err)
		}
	}
}
