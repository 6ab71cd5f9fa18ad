package stories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// drainAfter has a waypoint serve new connections for so long once it is stopped.
func drainAfter(delay, timeout time.Duration) func(*app.Options) {
	return func(o *app.Options) { o.DrainDelay, o.DrainTimeout = delay, timeout }
}

// held is an application whose answers to /slow wait until they are released.
func held(app *meshtest.HTTPApp) (release func()) {
	hold := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		if strings.HasPrefix(x.Target, "/slow") {
			<-hold
		}
		ok(x)
	})
	return sync.OnceFunc(func() { close(hold) })
}

// readiness is what Kubernetes would see.
func (s *stage) readiness() (status int, reason string) {
	s.t.Helper()
	r := page(s.t, s.wp.App.StatusAddr().String(), "/healthz/ready")
	return r.StatusCode, r.text
}

// ended waits for the end of the waypoint.
func (s *stage) ended(within time.Duration) {
	s.t.Helper()
	select {
	case <-s.wp.Done():
	case <-time.After(within):
		s.t.Fatalf("the waypoint has not ended after %v", within)
	}
}

// TestDrain is the whole of it: not ready; two GOAWAYs on open tunnels; what is
// under way is finished; new connections are served until the delay is over, and
// refused then; the end comes with the last request.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), drainAfter(2*short, time.Minute))
	app := s.HTTP("echo", s.Addr(21, 8080))
	release := held(app)
	defer release()
	s.node("echo", 21)

	tunnel, err := s.client.Tunnel(t.Context(), s.wp.Addr)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := tunnel.Connect(t.Context(), "10.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	slow := s.converse(stream)
	slow.say("GET /slow HTTP/1.1\r\nHost: echo\r\n\r\n")
	s.Eventually("the slow request is there", func() bool { return len(app.Requests()) == 1 })

	s.wp.Stop()
	s.Eventually("the first GOAWAY is there", func() bool { return tunnel.GoneAway() != nil })
	if first := tunnel.GoneAway(); first.LastID != 1<<31-1 || first.Code != http2.ErrCodeNo {
		t.Errorf("the first GOAWAY names stream %d with %s, expected 2^31-1 and NO_ERROR", first.LastID, first.Code)
	}
	if status, reason := s.readiness(); status != 503 || !strings.Contains(reason, "draining") {
		t.Errorf("readiness is %d %q, expected a 503 for draining", status, reason)
	}
	// Within the delay somebody who has not heard of it comes.
	late, err := s.client.Tunnel(t.Context(), s.wp.Addr)
	if err != nil {
		t.Fatalf("a new tunnel during the delay: %v", err)
	}
	lateStream, err := late.Connect(t.Context(), "10.0.0.1:8080")
	if err != nil {
		t.Fatalf("a new stream during the delay: %v", err)
	}
	c := s.converse(lateStream)
	c.say("GET /late HTTP/1.1\r\nHost: echo\r\n\r\n")
	r := c.reply("GET")
	r.want(t, 200, "ok")
	if !r.Close {
		t.Error("the answer does not say Connection: close")
	}
	if rest := c.rest(); rest != "" {
		t.Errorf("after it came %q", rest)
	}
	s.Eventually("the second GOAWAY is there", func() bool { return tunnel.GoneAway().LastID == stream.ID() })
	s.Eventually("the late tunnel is told to go as well", func() bool { return late.GoneAway() != nil })
	s.Eventually("new connections are refused", func() bool {
		conn, err := net.Dial("tcp", s.wp.Addr)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	select {
	case <-s.wp.Done():
		t.Fatal("the waypoint has ended before its last request")
	default:
	}
	release()
	slow.reply("GET").want(t, 200, "ok")
	s.ended(patience)
	if log := s.wp.Log.String(); !strings.Contains(log, "drained") || strings.Contains(log, "streams cut") {
		t.Error("its log does not say that it drained without cutting anything")
	}
}

// TestIdleConnectionsEndWithDrain: idle connections inside of tunnels do not hold
// the waypoint up.
func TestIdleConnectionsEndWithDrain(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), drainAfter(0, time.Minute))
	s.H2C("echo", s.Addr(21, 8080))
	s.node("echo", 21)
	h1 := s.open("10.0.0.1:8080")
	h1.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
	if r := h1.reply("GET"); r.StatusCode != 200 || r.Close {
		t.Fatalf("status %d, close %v", r.StatusCode, r.Close)
	}
	conn := s.open("10.0.0.1:8080")
	h2 := h2Client(t, conn)
	h2.request(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "echo")
	h2.head(1)
	unused := s.open("10.0.0.1:8080") // it never says anything

	s.wp.Stop()
	if rest := h1.rest(); rest != "" {
		t.Errorf("on the idle HTTP/1.1 connection came %q, expected the end", rest)
	}
	isGoAway := func(f http2.Frame) bool { _, is := f.(*http2.GoAwayFrame); return is }
	if last := h2.next(isGoAway).(*http2.GoAwayFrame).LastStreamID; last != 1<<31-1 {
		t.Errorf("the first GOAWAY inside names stream %d", last)
	}
	h2.request(3, true, ":method", "GET", ":scheme", "http", ":path", "/crossing", ":authority", "echo")
	if status := h2.head(3).PseudoValue("status"); status != "200" {
		t.Errorf("a request that crossed with the GOAWAY got %s", status)
	}
	if last := h2.next(isGoAway).(*http2.GoAwayFrame).LastStreamID; last != 3 {
		t.Errorf("the second GOAWAY inside names stream %d", last)
	}
	unused.rest()
	for _, c := range []net.Conn{h1, conn, unused} {
		c.Close()
	}
	s.ended(patience)
}

// TestDrainTimeout: what does not end is cut, and the log says how much that was.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"), port(3306, "tcp"))), drainAfter(0, time.Second))
	app := s.HTTP("echo", s.Addr(21, 8080))
	defer held(app)()
	s.TCP("echo", s.Addr(21, 3306), meshtest.Greet("hi\n"))
	s.node("echo", 21)
	tcp := s.open("10.0.0.1:3306")
	tcp.hear("hi\n")
	slow := s.open("10.0.0.1:8080")
	slow.say("GET /slow HTTP/1.1\r\nHost: echo\r\n\r\n")
	s.Eventually("the slow request is there", func() bool { return len(app.Requests()) == 1 })
	start := time.Now()
	s.wp.Stop()
	s.ended(patience)
	if took := time.Since(start); took < time.Second {
		t.Errorf("it has ended after %v, before the timeout", took)
	}
	if _, err := slow.in.ReadByte(); err == nil {
		t.Error("the slow request was answered")
	}
	if log := s.wp.Log.String(); !strings.Contains(log, `"streams cut"=2`) {
		t.Error("the log does not say that 2 streams were cut")
	}
	for _, line := range s.logged(2) {
		if line["response_flags"] == nil {
			t.Errorf("what was cut has no flag: %v", line)
		}
	}
}

// TestHandshakesDoNotHoldADrainUp: somebody who connected and says nothing.
func TestHandshakesDoNotHoldADrainUp(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(service("echo", "10.0.0.1", port(8080, "http"))), drainAfter(0, time.Minute), func(o *app.Options) { o.HandshakeTimeout = time.Minute })
	conn, err := net.Dial("tcp", s.wp.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	get(t, s.client.HTTP(s.wp.Addr), echo) // when it is through, conn has been accepted too
	s.wp.Stop()
	s.ended(patience)
}

// TestMaxConnectionAge: a tunnel of that age is told to go, what is on it finishes,
// and what is idle inside of it ends, so that load can move to new replicas.
func TestMaxConnectionAge(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), func(o *app.Options) { o.MaxConnectionAge = short })
	app := s.HTTP("echo", s.Addr(21, 8080))
	release := held(app)
	defer release()
	s.node("echo", 21)
	start := time.Now()
	tunnel, err := s.client.Tunnel(t.Context(), s.wp.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var conns [3]*conversation
	for i := range conns {
		stream, err := tunnel.Connect(t.Context(), "10.0.0.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = s.converse(stream)
	}
	slow, idle, busy := conns[0], conns[1], conns[2]
	slow.say("GET /slow HTTP/1.1\r\nHost: echo\r\n\r\n")
	idle.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
	idle.reply("GET").want(t, 200, "ok")
	s.Eventually("the GOAWAY is there", func() bool { return tunnel.GoneAway() != nil })
	if age := time.Since(start); age < short*9/10 || age > 5*short {
		t.Errorf("it came at an age of %v, expected %v give or take a tenth", age, short)
	}
	if rest := idle.rest(); rest != "" {
		t.Errorf("on the idle connection came %q", rest)
	}
	busy.say("GET /after HTTP/1.1\r\nHost: echo\r\n\r\n")
	if r := busy.reply("GET"); r.StatusCode != 200 || !r.Close {
		t.Errorf("a request after the GOAWAY got %d, close %v", r.StatusCode, r.Close)
	}
	release()
	if r := slow.reply("GET"); r.StatusCode != 200 || !r.Close {
		t.Errorf("the slow request got %d, close %v", r.StatusCode, r.Close)
	}
	for _, c := range conns {
		c.Close()
	}
	s.Eventually("the tunnel has ended", func() bool { return tunnel.Err() != nil })
}

// TestRollingUpdate: while one waypoint takes over from another, no request fails,
// as clients go where GOAWAY and their endpoints tell them to.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	manifests := world(pod("echo", 21), pod("grpc", 22),
		service("echo", "10.0.0.1", port(8080, "http")), service("grpc", "10.0.0.2", port(9000, "grpc")))
	s := newStage(t, manifests, drainAfter(time.Second, time.Minute))
	s.HTTP("echo", s.Addr(21, 8080)).Handle(ok)
	s.node("echo", 21)
	s.GRPC("grpc", s.Addr(22, 9000))
	s.node("grpc", 22)
	var current atomic.Pointer[meshtest.Waypoint] // as the endpoints of the waypoint's Service say
	current.Store(s.wp)

	load := s.startLoad(func() string { return current.Load().Addr })
	for range 3 {
		old := current.Load()
		next := s.Waypoint(manifests, drainAfter(time.Second, time.Minute))
		current.Store(next)
		load.another(200)
		old.Stop()
		select {
		case <-old.Done():
		case <-time.After(patience):
			t.Fatal("the old waypoint does not end")
		}
		load.another(200)
	}
	load.stop()
}

// TestDestinationRolls: pods are replaced one after the other, as a Deployment does
// it: the new one is ready, the old one leaves, and its node proxy says goodbye and
// cuts what is left. No request fails.
func TestDestinationRolls(t *testing.T) {
	t.Parallel()
	s := newStage(t, rolled(21))
	hosts := []byte{21, 22, 23, 24}
	nodes := map[byte]*meshtest.NodeProxy{}
	grpcNodes := s.node("grpc", 31)
	s.GRPC("grpc", s.Addr(31, 9000))
	for _, host := range hosts {
		s.HTTP("echo", s.Addr(host, 8080)).Handle(ok)
		nodes[host] = s.node("echo", host)
	}
	load := s.startLoad(func() string { return s.wp.Addr })
	for i, host := range hosts[:3] {
		next := hosts[i+1]
		load.another(200)
		s.wp.Write("mesh.yaml", rolled(host, next))
		s.Eventually("the new pod has requests", func() bool { return nodes[next].Accepted() > 0 })
		s.wp.Write("mesh.yaml", rolled(next))
		nodes[host].Drain()
		grpcNodes.Drain() // it restarts alone, without a change of endpoints
		s.Eventually("nothing goes through the old pod's node proxy", func() bool { return len(nodes[host].Tunnels()) == 0 })
		nodes[host].Stop()
		load.another(200)
	}
	load.stop()
}

// rolled has the application echo at the given pods, and grpc.
func rolled(hosts ...byte) string {
	manifests := []string{
		pod("grpc", 31),
		service("echo", "10.0.0.1", port(8080, "http")), service("grpc", "10.0.0.2", port(9000, "grpc")),
	}
	for _, host := range hosts {
		manifests = append(manifests, pod("echo", host))
	}
	return world(manifests...)
}

// traffic is what keeps coming while something happens.
type traffic struct {
	s       *stage
	cancel  context.CancelFunc
	workers sync.WaitGroup
	done    atomic.Int64 // requests answered
	failed  atomic.Int64
}

// startLoad has clients of all kinds call echo at 10.0.0.1:8080 and grpc at
// 10.0.0.2:9000, through the waypoint that is at addr when they connect.
func (s *stage) startLoad(addr func() string) *traffic {
	s.t.Helper()
	l := &traffic{s: s}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(s.t.Context())
	s.t.Cleanup(l.cancel)
	for range 2 {
		l.worker(ctx, "HTTP/1.1 keep-alive", s.httpVia(addr, false, true), http.MethodGet)
		l.worker(ctx, "HTTP/2", s.httpVia(addr, true, true), http.MethodPost)
		l.worker(ctx, "a connection a request", s.httpVia(addr, false, false), http.MethodPost)
		l.grpcWorker(ctx, addr)
	}
	return l
}

// httpVia is an HTTP client that asks for the address of the waypoint at each dial.
func (s *stage) httpVia(addr func() string, h2c, keepAlive bool) *http.Client {
	transport := &http.Transport{
		Protocols: new(http.Protocols), DisableKeepAlives: !keepAlive,
		DialContext: func(ctx context.Context, _, target string) (net.Conn, error) {
			return s.client.Dial(ctx, addr(), target)
		},
	}
	transport.Protocols.SetHTTP1(!h2c)
	transport.Protocols.SetUnencryptedHTTP2(h2c)
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (l *traffic) worker(ctx context.Context, name string, client *http.Client, method string) {
	l.workers.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var body io.Reader
			if method == http.MethodPost {
				body = strings.NewReader("some body")
			}
			r, err := try(context.WithoutCancel(ctx), client, method, echo, body)
			if err == nil && r.StatusCode != 200 {
				err = fmt.Errorf("status %d: %s", r.StatusCode, r.text)
			}
			l.count(name, i, err)
		}
	})
}

func (l *traffic) grpcWorker(ctx context.Context, addr func() string) {
	conn := l.s.grpcVia(addr, "10.0.0.2:9000")
	l.workers.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			in, out := []byte("message"), []byte(nil)
			l.count("gRPC", i, conn.Invoke(context.WithoutCancel(ctx), "/shop.Cart/Add", &in, &out, meshtest.Raw()))
		}
	})
}

func (l *traffic) count(name string, i int, err error) {
	if err == nil {
		l.done.Add(1)
		return
	}
	if l.failed.Add(1) <= 5 {
		l.s.t.Errorf("%s, request %d: %v", name, i, err)
	}
}

// another waits for n more answers.
func (l *traffic) another(n int64) {
	l.s.t.Helper()
	until := l.done.Load() + n
	l.s.Eventually(fmt.Sprintf("the load has had %d more answers", n), func() bool { return l.done.Load() >= until })
}

// stop ends the load. None of it may have failed.
func (l *traffic) stop() {
	l.s.t.Helper()
	l.cancel()
	l.workers.Wait()
	if failed := l.failed.Load(); failed > 0 {
		l.s.t.Errorf("%d of %d requests failed", failed, failed+l.done.Load())
	}
	l.s.t.Logf("%d requests", l.done.Load())
}
