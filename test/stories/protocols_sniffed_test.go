package stories

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

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
