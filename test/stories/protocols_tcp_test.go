package stories

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// tcpStage has an application at 10.0.0.1: port 3306 is declared to be TCP, port
// 7000 declares nothing.
func tcpStage(t *testing.T, serve func(*net.TCPConn), change ...func(*app.Options)) (*stage, *meshtest.NodeProxy) {
	t.Helper()
	s := newStage(t, world(pod("db", 21), service("db", "10.0.0.1", port(3306, "tcp"), port(7000, ""))), change...)
	s.TCP("db", s.Addr(21, 3306), serve)
	s.TCP("db", s.Addr(21, 7000), serve)
	return s, s.node("db", 21)
}

// TestServerFirstDeclared: on a declared port nothing waits for the client, or
// for the wait that undeclared ports have.
func TestServerFirstDeclared(t *testing.T) {
	t.Parallel()
	never := func(o *app.Options) { o.DetectTimeout = time.Hour }
	s, node := tcpStage(t, meshtest.Greet("220 hi\r\n"), never)
	c := s.open("10.0.0.1:3306")
	c.hear("220 hi\r\n")
	c.say("EHLO me\n")
	c.hear("you said EHLO me\n")
	c.closeWrite()
	if rest := c.rest(); rest != "" {
		t.Errorf("after the end came %q", rest)
	}
	connect := node.Connects()[0]
	if forwarded := connect.Get("forwarded"); !strings.Contains(forwarded, `for="127.0.0.1:`) || !strings.Contains(forwarded, "host=db.default.svc.cluster.local") {
		t.Errorf("the node proxy was told forwarded: %s", forwarded)
	}
	logLine{
		"method": nil, "bytes_received": len("EHLO me\n"), "bytes_sent": len("220 hi\r\nyou said EHLO me\n"), "response_flags": nil,
		"upstream_host": s.Addr(21, 3306), "source_principal": clientID, "destination_service": "db.default.svc.cluster.local",
		"upstream_cluster": "inbound-vip|3306|tcp|db.default.svc.cluster.local",
	}.in(t, s.logged(1)[0])
	if opened, closed := s.metric("istio_tcp_connections_opened_total"), s.metric("istio_tcp_connections_closed_total"); opened != 1 || closed != 1 {
		t.Errorf("%v connections opened and %v closed", opened, closed)
	}
	if unknown := s.metric("istio_tcp_connections_opened_total", `="unknown"`); unknown != 0 {
		t.Errorf("labels are unknown in\n%s", s.wp.Metrics())
	}
}

// TestServerFirstUndeclared: a silent client does not stall a server that speaks
// first for longer than the detect timeout.
func TestServerFirstUndeclared(t *testing.T) {
	t.Parallel()
	s, _ := tcpStage(t, meshtest.Greet("220 hi\r\n"), func(o *app.Options) { o.DetectTimeout = 30 * time.Millisecond })
	c := s.open("10.0.0.1:7000")
	c.hear("220 hi\r\n")
	c.say("QUIT\n")
	c.hear("you said QUIT\n")
	if n := s.metric("waypoint_protocol_detected_total", `protocol="silent"`); n != 1 {
		t.Errorf("waypoint_protocol_detected_total of silent connections is %v", n)
	}
}

// TestSpokenBytesAreEnough: what a client says first decides at once. The detect
// timeout is one that the story would not live to see.
func TestSpokenBytesAreEnough(t *testing.T) {
	t.Parallel()
	never := func(o *app.Options) { o.DetectTimeout = time.Hour }
	for name, first := range map[string]string{
		"lower case":   "hello\n",
		"binary":       "\x00\x01\x02\x03\n",
		"redis":        "*1\r\n$4\r\nPING\r\n",
		"nearly HTTP":  "GET / HTTX/1.1\r\n\r\n",
		"nearly HTTP2": "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
		"SMTP":         "EHLO there\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := tcpStage(t, meshtest.Echo, never)
			for _, send := range []func(*conversation){
				func(c *conversation) { c.say(first) },
				func(c *conversation) {
					for i := range len(first) { // each byte in a DATA frame
						c.say(first[i : i+1])
					}
				},
			} {
				c := s.open("10.0.0.1:7000")
				send(c)
				c.hear(first)
			}
		})
	}
}

// TestSniffedHTTPByteByByte: HTTP on a port that declares nothing, however it is
// cut.
func TestSniffedHTTPByteByByte(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(7000, ""))), func(o *app.Options) { o.DetectTimeout = time.Hour })
	s.node("echo", 21)
	app := s.HTTP("echo", s.Addr(21, 7000))
	app.Handle(ok)
	c := s.open("10.0.0.1:7000")
	for _, b := range []byte("GET /cut HTTP/1.1\r\nHost: echo\r\n\r\n") {
		c.say(string(b))
	}
	c.reply("GET").want(t, 200, "ok")
	logLine{"path": "/cut", "response_code": 200}.in(t, s.logged(1)[0])
}

// TestSniffedHTTP2ByteByByte is the same for HTTP/2.
func TestSniffedHTTP2ByteByByte(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(7000, ""))), func(o *app.Options) { o.DetectTimeout = time.Hour })
	s.node("echo", 21)
	app := s.H2C("echo", s.Addr(21, 7000))
	c := h2Client(t, bytewise{s.open("10.0.0.1:7000")})
	c.request(1, true, ":method", "GET", ":scheme", "http", ":path", "/cut", ":authority", "echo")
	if got := c.head(1).PseudoValue("status"); got != "200" {
		t.Fatalf("status %s", got)
	}
	if seen := app.Requests()[0]; seen.Proto != "HTTP/2.0" || seen.Target != "/cut" {
		t.Errorf("the application saw %s in %s", seen.Target, seen.Proto)
	}
}

// bytewise sends each byte in a DATA frame of its own.
type bytewise struct{ net.Conn }

func (b bytewise) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := b.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// TestHalfCloseWithTwentyMegabytes: both ends close their direction first, in
// turn, and the other direction still carries everything.
func TestHalfCloseWithTwentyMegabytes(t *testing.T) {
	t.Parallel()
	const size = 20_000_000
	payload := bytes.Repeat([]byte("half-closed "), size/12)
	t.Run("the client first", func(t *testing.T) {
		t.Parallel()
		s, _ := tcpStage(t, func(conn *net.TCPConn) {
			if got, err := io.ReadAll(conn); err != nil || string(got) != "send it" {
				t.Errorf("the application read %q: %v", got, err)
			}
			conn.Write(payload)
		})
		c := s.open("10.0.0.1:3306")
		c.say("send it")
		c.closeWrite()
		if got := c.rest(); sha256.Sum256([]byte(got)) != sha256.Sum256(payload) {
			t.Errorf("%d bytes came, expected the %d that were sent", len(got), len(payload))
		}
		logLine{"bytes_sent": len(payload), "response_flags": nil}.in(t, s.logged(1)[0])
	})
	t.Run("the server first", func(t *testing.T) {
		t.Parallel()
		got := make(chan []byte, 1)
		s, _ := tcpStage(t, meshtest.Farewell("bye", got))
		c := s.open("10.0.0.1:3306")
		if rest := c.rest(); rest != "bye" {
			t.Fatalf("heard %q", rest)
		}
		if _, err := c.Write(payload); err != nil {
			t.Fatal(err)
		}
		c.closeWrite()
		if read := <-got; sha256.Sum256(read) != sha256.Sum256(payload) {
			t.Errorf("the application read %d bytes, expected the %d that were sent", len(read), len(payload))
		}
		logLine{"bytes_received": len(payload), "response_flags": nil}.in(t, s.logged(1)[0])
	})
}

// TestVanishedClientFreesTheApplication: the half-closed connection of a client
// that is gone does not stay open for the other side's sake.
func TestVanishedClientFreesTheApplication(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s, _ := tcpStage(t, func(conn *net.TCPConn) {
		if err := conn.CloseWrite(); err != nil {
			ended <- err
			return
		}
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	})
	tunnel, err := s.client.Tunnel(t.Context(), s.wp.Addr)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := tunnel.Connect(t.Context(), "10.0.0.1:3306")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("read %v, expected the application's end", err)
	}
	tunnel.Close() // the node is gone, without a word
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the application's connection lives on")
	}
	logLine{"response_flags": "DC"}.in(t, s.logged(1)[0])
}

const tlsRoutes = `
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: a, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: front}]
  hostnames: [a.example.test]
  rules: [{backendRefs: [{name: a, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: b, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: front}]
  hostnames: ["*.b.example.test"]
  rules: [{backendRefs: [{name: b, port: 443}]}]
`

// TestTLSPassthrough: the application terminates TLS, the server name chooses it.
func TestTLSPassthrough(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(
		pod("a", 21), service("a", "10.0.1.1", port(443, "tls")),
		pod("b", 22), service("b", "10.0.1.2", port(443, "tls")),
		service("front", "10.0.0.1", port(443, "tls"), port(8443, "")), tlsRoutes))
	s.TLS("a", s.Addr(21, 443), "a.example.test")
	s.TLS("b", s.Addr(22, 443), "x.b.example.test")
	nodes := []*meshtest.NodeProxy{s.node("a", 21), s.node("b", 22)}
	for _, target := range []string{"10.0.0.1:443", "10.0.0.1:8443"} { // declared, and sniffed
		for name, app := range map[string]string{"a.example.test": "a", "x.b.example.test": "b"} {
			for _, cut := range []bool{false, true} {
				raw := s.open(target)
				var under net.Conn = raw
				if cut {
					under = bytewise{raw}
				}
				secured := tls.Client(under, &tls.Config{ServerName: name, InsecureSkipVerify: true})
				c := s.converse(secured)
				c.hear(app + " " + name + "\n")
				c.say("through")
				c.hear("through")
				c.Close()
			}
		}
	}
	before := len(nodes[0].Connects()) + len(nodes[1].Connects())
	stranger := s.open("10.0.0.1:443")
	err := tls.Client(stranger, &tls.Config{ServerName: "c.example.test", InsecureSkipVerify: true}).HandshakeContext(t.Context())
	if err == nil {
		t.Error("a server name without a route was served")
	}
	if after := len(nodes[0].Connects()) + len(nodes[1].Connects()); after != before {
		t.Error("a server name without a route was dialled")
	}
	s.Eventually("the stranger is logged", func() bool { return strings.Contains(s.wp.AccessLog.String(), `"c.example.test"`) })
	var named int
	for _, line := range s.logged(9) {
		if line["requested_server_name"] == "c.example.test" {
			named++
			logLine{"response_flags": "NR", "upstream_host": nil}.in(t, line)
		}
	}
	if named != 1 {
		t.Errorf("the stranger is in %d lines of the access log", named)
	}
}

// TestUnknownTargets: what the waypoint does not front gets a 404, and nothing is
// dialled for it: not what does not exist, nor what every process on the machine
// may reach, nor the addresses from which clouds hand out credentials.
func TestUnknownTargets(t *testing.T) {
	t.Parallel()
	s, node := tcpStage(t, meshtest.Echo)
	loopback := s.TCP("loopback", "127.0.0.1:0", meshtest.Echo)
	for _, target := range []string{
		"10.0.0.9:3306",      // no service
		"10.0.0.1:3307",      // no such port
		"169.254.169.254:80", // metadata of a cloud
		"127.0.0.1:15000",    // our own admin port
		loopback.Address(),
		"[::1]:80",
		"[::ffff:127.0.0.1]:80",
		"0.0.0.0:80",
		s.Addr(21, 3306), // the pod itself: this waypoint is for services
		"istiod.istio-system.svc:15012",
		"example.com:443",
		"db.default.svc.cluster.local:3307",
	} {
		if status := s.refused(target); status != 404 {
			t.Errorf("CONNECT %s was answered %d, expected 404", target, status)
		}
	}
	for _, target := range []string{"10.0.0.1", "10.0.0.1:", "10.0.0.1:http", "10.0.0.1:0", "[::1:80", ":80"} {
		if status := s.refused(target); status != 400 && status != 404 {
			t.Errorf("CONNECT %s was answered %d, expected 400 or 404", target, status)
		}
	}
	if node.Accepted() != 0 || loopback.Conns() != 0 {
		t.Errorf("%d node proxy tunnels and %d loopback connections were opened", node.Accepted(), loopback.Conns())
	}
}

func TestHostNameTarget(t *testing.T) {
	t.Parallel()
	s, node := tcpStage(t, meshtest.Greet("hi\n"))
	for _, target := range []string{"db.default.svc.cluster.local:3306", "DB.default.svc.cluster.local.:3306"} {
		c := s.open(target)
		c.hear("hi\n")
	}
	for _, connect := range node.Connects() {
		if connect.Target != s.Addr(21, 3306) {
			t.Errorf("CONNECT %s to the node proxy, expected the pod's address", connect.Target)
		}
	}
}

func TestTCPApplicationThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("db", 21), service("db", "10.0.0.1", port(3306, "tcp"), port(7000, ""))))
	s.node("db", 21)
	if status := s.refused("10.0.0.1:3306"); status != 503 {
		t.Errorf("the CONNECT was answered %d, expected 503", status)
	}
	logLine{"response_flags": "UF", "response_code": 503}.in(t, s.logged(1)[0])

	c := s.open("10.0.0.1:7000") // answered 200 before anything can be known
	c.say("hello\n")
	_, err := c.in.ReadByte()
	var reset *meshtest.ResetError
	if !errors.As(err, &reset) {
		t.Errorf("the connection ended with %v, expected a reset", err)
	}
}

// TestPlainEndpoint: a workload without a node proxy is reached over plain TCP.
func TestPlainEndpoint(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(plainPod("old", 31), service("old", "10.0.0.1", port(8080, "http"), port(3306, "tcp"))))
	app := s.HTTP("old", s.Addr(31, 8080))
	app.Handle(ok)
	s.TCP("old", s.Addr(31, 3306), meshtest.Echo)
	get(t, s.client.HTTP(s.wp.Addr), echo).want(t, 200, "ok")
	c := s.open("10.0.0.1:3306")
	c.say("plain")
	c.closeWrite()
	if got := c.rest(); got != "plain" {
		t.Errorf("heard %q", got)
	}
	logLine{"upstream_host": s.Addr(31, 8080), "response_code": 200}.in(t, s.logged(2)[0])
}

const external = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: legacy, namespace: default}
spec:
  hosts: [legacy.example.test]
  addresses: [240.0.0.9]
  resolution: STATIC
  location: MESH_INTERNAL
  ports: [{number: 8080, name: http, protocol: HTTP}, {number: 3306, name: tcp, protocol: TCP}]
  workloadSelector: {labels: {app: legacy}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: legacy-vm, namespace: default}
spec:
  address: 127.66.0.41
  labels: {app: legacy}
  serviceAccount: legacy
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: legacy-mesh, namespace: default, labels: {networking.istio.io/tunnel: http}}
spec:
  address: 127.66.0.42
  labels: {app: legacy}
  serviceAccount: legacy
`

// TestServiceEntry: a service of the mesh that Kubernetes has no Service for, with
// one workload on a plain machine and one behind a node proxy.
func TestServiceEntry(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(external))
	node := s.node("legacy", 42)
	for _, host := range []byte{41, 42} {
		name := fmt.Sprintf("legacy-%d", host)
		s.HTTP(name, s.Addr(host, 8080)).Handle(func(x *meshtest.Exchange) { x.Reply(200, name) })
		s.TCP(name, s.Addr(host, 3306), meshtest.Greet(name+"\n"))
	}
	client := s.client.HTTP(s.wp.Addr)
	seen := map[string]int{}
	for range 40 {
		for _, host := range []string{"240.0.0.9:8080", "legacy.example.test:8080"} {
			r := get(t, client, "http://"+host)
			if r.StatusCode != 200 {
				t.Fatalf("status %d %s", r.StatusCode, r.text)
			}
			seen[r.text]++
		}
	}
	if seen["legacy-41"] == 0 || seen["legacy-42"] == 0 {
		t.Errorf("answers by workload: %v, expected both", seen)
	}
	if len(node.Connects()) == 0 {
		t.Error("the workload behind a node proxy was not reached through it")
	}
	c := s.open("240.0.0.9:3306")
	c.hear("legacy-4")
}

// TestIPv6: service addresses, endpoints and the waypoint itself in IPv6.
func TestIPv6(t *testing.T) {
	t.Parallel()
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	addr := probe.Addr().String()
	_, number, _ := net.SplitHostPort(addr)
	probe.Close()
	s := newStage(t, world(
		podManifest("six", "six-1", "::1", "{}"),
		strings.ReplaceAll(service("six", "fd00::1", "{name: http, port: 80, targetPort: "+number+", appProtocol: http}"),
			`clusterIPs: ["fd00::1"]`, `clusterIPs: ["fd00::1", "10.0.0.6"]`)),
		func(o *app.Options) { o.Listen = "[::1]:0" })
	app := s.HTTP("six", addr)
	app.Handle(ok)
	client := s.client.HTTP(s.wp.Addr)
	get(t, client, "http://[fd00::1]:80/").want(t, 200, "ok")
	get(t, client, "http://10.0.0.6:80/").want(t, 200, "ok")
	logLine{"upstream_host": "[::1]:" + number, "downstream_local_address": "[fd00::1]:80"}.in(t, s.logged(2)[0])
	if got := app.Requests()[0].Get("x-forwarded-for"); got != "::1" {
		t.Errorf("x-forwarded-for is %q", got)
	}
}

// TestIdleTCPConnections: with an idle timeout a connection lives while something
// moves, and
// ends when nothing has moved, in either direction, for so long.
func TestIdleTCPConnections(t *testing.T) {
	t.Parallel()
	s, _ := tcpStage(t, meshtest.Echo, func(o *app.Options) { o.TCPIdleTimeout = short })
	c := s.open("10.0.0.1:3306")
	for range 5 { // in all longer than the timeout
		c.say("x")
		c.hear("x")
		time.Sleep(short / 4) //nolint:forbidigo // what is told of here is time
	}
	start := time.Now()
	if _, err := c.in.ReadByte(); err == nil {
		t.Fatal("an idle connection goes on")
	}
	if took := time.Since(start); took > 5*short {
		t.Errorf("it was idle for %v", took)
	}
	logLine{"response_flags": "SI"}.in(t, s.logged(1)[0])
}

// TestApplicationResets: a reset behind the node proxy is a clean end to us, and so
// it is to the client.
func TestApplicationResets(t *testing.T) {
	t.Parallel()
	s, _ := tcpStage(t, func(conn *net.TCPConn) {
		io.WriteString(conn, "last words")
		io.ReadFull(conn, make([]byte, 1))
		conn.SetLinger(0)
	})
	c := s.open("10.0.0.1:3306")
	c.hear("last words")
	c.say("!")
	if rest := c.rest(); rest != "" {
		t.Errorf("after the reset came %q", rest)
	}
}

// TestPlainApplicationResets: over plain TCP a reset is seen as one, and passed on.
func TestPlainApplicationResets(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(plainPod("old", 31), service("old", "10.0.0.1", port(3306, "tcp"))))
	s.TCP("old", s.Addr(31, 3306), func(conn *net.TCPConn) {
		io.ReadFull(conn, make([]byte, 1))
		conn.SetLinger(0)
	})
	c := s.open("10.0.0.1:3306")
	c.say("!")
	_, err := c.in.ReadByte()
	var reset *meshtest.ResetError
	if !errors.As(err, &reset) {
		t.Errorf("the connection ended with %v, expected a reset", err)
	}
	logLine{"response_flags": "UC"}.in(t, s.logged(1)[0])
}

// TestManyTCPConnections: many at once, each with what is its own.
func TestManyTCPConnections(t *testing.T) {
	t.Parallel()
	s, node := tcpStage(t, meshtest.Echo)
	const conns = 300
	failed := make(chan error)
	for i := range conns {
		go func() { failed <- echoTCP(t.Context(), s, fmt.Sprintf("connection %d", i)) }()
	}
	for range conns {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := len(node.Connects()); n != conns {
		t.Errorf("%d CONNECTs, expected %d", n, conns)
	}
}

func echoTCP(ctx context.Context, s *stage, text string) error {
	stream, err := s.client.Dial(ctx, s.wp.Addr, "10.0.0.1:3306")
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := io.WriteString(stream, text); err != nil {
		return err
	}
	if err := stream.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(stream)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%q came back as %q", text, got)
	}
	return err
}
