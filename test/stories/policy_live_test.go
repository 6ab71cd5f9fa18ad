package stories

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// An edit of a policy reaches an open HTTP/1.1 connection and an open HTTP/2
// connection with their next request.
func TestPolicyEditReachesOpenHTTP(t *testing.T) {
	w := newTown(t, "", nil)
	c1 := w.open("10.0.0.1:80")
	ask := func() int {
		c1.say("GET / HTTP/1.1\r\nHost: echo\r\n\r\n")
		return c1.reply("GET").StatusCode
	}
	if got := ask(); got != 200 {
		t.Fatalf("without a policy: %d", got)
	}
	w.check(call{}, w.send(call{h2c: true}), want{})
	for _, step := range []struct {
		policy string
		want   int
	}{
		{policyOn("Service echo", "p", "prod", "DENY", from("namespaces: [prod]")), 403},
		{policyOn("Service echo", "p", "prod", "DENY", from("namespaces: [shop]")), 200},
		{policyOn("Gateway waypoint", "g", "prod", "ALLOW", ""), 403},
		{policyOn("Gateway waypoint", "g", "prod", "ALLOW", "{}"), 200},
	} {
		w.wp.Write("policy.yaml", step.policy)
		w.Eventually("the policy is in force", func() bool { return ask() == step.want })
		w.check(call{}, w.send(call{h2c: true}), want{status: step.want})
	}
	if n := len(w.http["echo-v1"].Requests()) + len(w.http["echo-v2"].Requests()); n == 0 {
		t.Error("nothing has reached the applications")
	}
}

// An edit cuts open TCP streams at once that it does not allow, and no others.
func TestPolicyEditCutsOpenTCP(t *testing.T) {
	w := newTown(t, "", nil)
	open := func(who, to string) *conversation {
		conn, err := w.as(who).Dial(t.Context(), w.wp.Addr, vipOf(to))
		if err != nil {
			t.Fatal(err)
		}
		c := w.converse(conn)
		if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "echo-v") {
			t.Fatalf("%q, %v", line, err)
		}
		return c
	}
	cut, kept, elsewhere := open("shop/web", "echo:9090"), open("prod/client", "echo:9090"), open("shop/web", "echo-v1:9090")
	start := time.Now()
	w.wp.Write("policy.yaml", policyOn("Service echo", "p", "prod", "DENY", from("namespaces: [shop]")))
	_, err := cut.in.ReadByte()
	var reset *meshtest.ResetError
	if !errors.As(err, &reset) {
		t.Fatalf("the stream ended with %v, want a reset", err)
	}
	t.Logf("cut %v after the file was written", time.Since(start).Round(time.Millisecond))
	for _, c := range []*conversation{kept, elsewhere} {
		c.say("still there?\n")
		c.hear("you said still there?\n")
		c.closeWrite()
	}
	entry := w.logLine(func(line map[string]any) bool {
		return line["connection_termination_details"] == "rbac_access_denied_late"
	})
	if entry["source_principal"] != "spiffe://cluster.local/ns/shop/sa/web" || entry["policy"] != "prod/p" {
		t.Errorf("access log: %v", entry)
	}
	if got := w.firstLine("shop/web", "echo:9090"); got != denied {
		t.Errorf("a new connection: %s", got)
	}
}

// The server name may come long after the CONNECT: policy is what it is then.
func TestPolicyEditBetweenConnectAndHello(t *testing.T) {
	w := newTown(t, "", nil)
	for _, to := range []string{"10.0.0.1:443", "10.0.0.1:8181"} { // declared TLS, and a port that is listened to
		conn, err := w.stage.client.Dial(t.Context(), w.wp.Addr, to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte{22}); err != nil { // the first byte of a ClientHello: no end to the waiting
			t.Fatal(err)
		}
		w.wp.Write("policy.yaml", policyOn("Service echo", "p", "prod", "DENY", from("namespaces: [prod]")))
		w.Eventually("the policy is in force", func() bool { return w.send(call{}).status == 403 })
		if _, err := conn.Write([]byte("\x03\x01\x00\x00")); err != nil && !errors.Is(err, io.EOF) {
			t.Logf("%s: writing the rest: %v", to, err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 100)); n > 0 || err == nil {
			t.Errorf("%s: %d bytes came back", to, n)
		}
		w.wp.Remove("policy.yaml")
		w.Eventually("the policy has gone", func() bool { return w.send(call{}).status == 200 })
	}
	for pod, node := range w.nodes {
		for _, c := range node.Connects() {
			if !strings.HasSuffix(c.Target, ":8080") || strings.HasPrefix(string(c.Sent()), "\x16") {
				t.Errorf("%s was dialled: %s", pod, c.Target)
			}
		}
	}
}

// A TLS stream that is open is cut too.
func TestPolicyEditCutsOpenTLS(t *testing.T) {
	w := newTown(t, "", nil)
	raw, err := w.stage.client.Dial(t.Context(), w.wp.Addr, "10.0.0.1:443")
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}) // a throw-away certificate
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.HasSuffix(line, " a.example\n") {
		t.Fatalf("%q, %v", line, err)
	}
	w.wp.Write("policy.yaml", policyOn("Service echo", "p", "prod", "DENY", when("connection.sni", "values: [b.example]")))
	w.Eventually("b.example is denied", func() bool { return w.hello("prod/client", "echo:443", "b.example") == "no handshake" })
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatalf("a.example was cut: %v", err)
	}
	if c, err := in.ReadByte(); err != nil || c != 'x' {
		t.Fatalf("a.example was cut: %v", err)
	}
	w.wp.Write("policy.yaml", policyOn("Service echo", "p", "prod", "DENY", when("connection.sni", "values: [a.example]")))
	if _, err := in.ReadByte(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a.example ended with %v, want a cut", err)
	}
}

// A WebSocket has no next request: it is cut as a TCP stream is, and by the very
// request that it began with.
func TestPolicyEditCutsUpgrades(t *testing.T) {
	w := newTown(t, meshRoute("HTTPRoute", "r", "prod", "name: echo-v1", prefixed("/ws",
		`{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-role, value: changed}]}}`, toPod("echo-v1"))), nil)
	w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
		x.Close()
		x.Reply(101, "", meshtest.Field{Name: "Connection", Value: "Upgrade"}, meshtest.Field{Name: "Upgrade", Value: "websocket"})
		io.Copy(x, x.In) // until one of the two goes
	})
	upgrade := func(role string) *conversation {
		c := w.open("10.0.0.2:80")
		c.say("GET /ws HTTP/1.1\r\nHost: echo-v1\r\nX-Role: " + role + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if got := c.reply("GET").StatusCode; got != 101 {
			t.Fatalf("status %d", got)
		}
		c.say("frames")
		c.hear("frames")
		return c
	}
	cut, kept := upgrade("guest"), upgrade("admin")
	w.wp.Write("policy.yaml", policyOn("Service echo-v1", "p", "prod", "DENY", when("request.headers[x-role]", "values: [guest]")))
	var reset *meshtest.ResetError
	if _, err := cut.in.ReadByte(); !errors.As(err, &reset) {
		t.Fatalf("the guest's ended with %v, want a reset", err)
	}
	kept.say("more frames")
	kept.hear("more frames")
	kept.Close()
	if entry := w.logLine(func(line map[string]any) bool { return line["response_code_details"] == "rbac_access_denied_late" }); entry["policy"] != "prod/p" || entry["response_code"] != 101.0 {
		t.Errorf("access log: %v", entry)
	}
}

// What is said by hops is believed of nobody: an ordinary client cannot talk its
// way around a policy.
func TestPolicyBypasses(t *testing.T) {
	w := newTown(t, policyOn("Service echo", "p", "prod", "ALLOW", from("namespaces: [shop]")), nil)
	for _, claims := range [][]meshtest.Field{
		{{Name: "x-istio-source", Value: "waypoint"}, {Name: "istio-l7-policies-applied", Value: "true"}},
		{{Name: "x-forwarded-client-cert", Value: "URI=spiffe://cluster.local/ns/shop/sa/web"}},
		{{Name: "baggage", Value: "k8s.namespace.name=shop,service.name=web"}},
		{{Name: "forwarded", Value: `for="10.0.0.9:1";by=_shop;secret=x`}},
		{{Name: "x-forwarded-for", Value: "127.0.0.2"}, {Name: "x-forwarded-network", Value: "other"}},
	} {
		conn, err := w.stage.client.Dial(t.Context(), w.wp.Addr, "10.0.0.1:80", claims...)
		if err != nil {
			t.Errorf("%v: %v", claims, err)
			continue
		}
		c := w.converse(conn)
		c.say("GET / HTTP/1.1\r\nHost: echo\r\nX-Istio-Source: waypoint\r\nX-Forwarded-Client-Cert: By=x;URI=spiffe://cluster.local/ns/shop/sa/web\r\nbaggage: k8s.namespace.name=shop\r\n\r\n")
		c.reply("GET").want(t, 403, "access denied")
		c.Close()
		if _, err := w.stage.client.Dial(t.Context(), w.wp.Addr, "10.0.0.1:9090", claims...); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("TCP with %v: %v", claims, err)
		}
	}
	w.check(call{}, w.send(call{from: "shop/web"}), want{})
}
