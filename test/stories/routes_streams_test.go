package stories

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"
)

// toPort is a backendRefs entry of any port.
func toPort(name, port string, more ...string) string {
	ref := "{name: " + name + ", namespace: prod, port: " + port
	for _, m := range more {
		ref += ", " + m
	}
	return ref + "}"
}

// firstLine dials and returns the first line that comes back, or why not.
func (w *town) firstLine(from, to string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := w.as(from).Dial(ctx, w.wp.Addr, vipOf(to))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return readFirstLine(conn)
}

func readFirstLine(conn net.Conn) string {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// TCPRoute: weights, missing backends, consumer routes.
func TestTCPRoute(t *testing.T) {
	w := newTown(t, meshRoute("TCPRoute", "weights", "prod", "name: echo, port: 9090",
		"{backendRefs: ["+toPort("echo-v1", "9090", "weight: 80")+", "+toPort("echo-v2", "9090", "weight: 20")+"]}")+
		meshRoute("TCPRoute", "missing", "prod", "name: echo-v1, port: 9090",
			"{backendRefs: ["+toPort("echo-v1", "9090")+", "+toPort("nowhere", "9090")+"]}")+
		meshRoute("TCPRoute", "consumer", "consumer", "name: echo, port: 9090", "{backendRefs: ["+toPort("echo-v2", "9090")+"]}"), nil)
	ask := func(from, to string) func() string { return func() string { return w.firstLine(from, to) } }
	checkShares(t, 300, ask("prod/client", "echo:9090"), map[string]float64{"echo-v1": 0.8, "echo-v2": 0.2})
	checkShares(t, 200, ask("prod/client", "echo-v1:9090"), map[string]float64{"echo-v1": 0.5, "CONNECT 10.0.0.2:9090 was answered 503": 0.5})
	checkShares(t, 20, ask("consumer/client", "echo:9090"), map[string]float64{"echo-v2": 1})
	checkShares(t, 20, ask("prod/client", "echo-v2:9090"), map[string]float64{"echo-v2": 1})
	entry := w.logLine(func(line map[string]any) bool {
		return line["destination_workload"] == "echo-v1" && line["route_name"] != nil
	})
	if entry["upstream_host"] != w.Addr(21, 9090) || entry["source_principal"] != "spiffe://cluster.local/ns/prod/sa/client" || entry["method"] != nil {
		t.Errorf("access log: %v", entry)
	}
}

// hello speaks TLS to a target and returns the line that the application greets
// with: its name and the server name it was asked for.
func (w *town) hello(from, to, serverName string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	raw, err := w.as(from).Dial(ctx, w.wp.Addr, vipOf(to))
	if err != nil {
		return err.Error()
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{ServerName: serverName, InsecureSkipVerify: true}) // what it is shown is not the point
	if err := conn.HandshakeContext(ctx); err != nil {
		return "no handshake"
	}
	return readFirstLine(conn)
}

// TLSRoute by server name; what is inside stays sealed.
func TestTLSRoute(t *testing.T) {
	byName := func(name, hosts, pod string) string {
		return withHostnames(meshRoute("TLSRoute", name, "prod", "name: echo, port: 443", "{backendRefs: ["+toPort(pod, "443")+"]}"), hosts)
	}
	w := newTown(t, byName("a", "a.example", "echo-v1")+byName("b", `"*.b.example", b.example`, "echo-v2"), nil)
	for _, tt := range []struct{ to, name, want string }{
		{"echo:443", "a.example", "echo-v1 a.example"},
		{"echo:443", "A.EXAMPLE", "echo-v1 A.EXAMPLE"},
		{"echo:443", "b.example", "echo-v2 b.example"},
		{"echo:443", "x.b.example", "echo-v2 x.b.example"},
		{"echo:443", "c.example", "no handshake"},
		{"echo-v1:443", "c.example", "echo-v1 c.example"},
	} {
		if got := w.hello("prod/client", tt.to, tt.name); got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.name, tt.to, got, tt.want)
		}
	}
	entry := w.logLine(func(line map[string]any) bool { return line["requested_server_name"] == "c.example" })
	if entry["response_flags"] != "NR" || entry["upstream_host"] != nil {
		t.Errorf("access log of a name without a route: %v", entry)
	}
}

// A route kind that is weaker on a port loses it, and says so; GRPCRoutes and
// HTTPRoutes share theirs.
func TestRouteKindsOnOnePort(t *testing.T) {
	w := newTown(t, meshRoute("TCPRoute", "tcp", "prod", "name: echo, port: 80", "{backendRefs: ["+toPort("echo-v2", "8080")+"]}")+
		meshRoute("HTTPRoute", "http", "prod", "name: echo, port: 80", leadsTo("/", "echo-v1")), nil)
	for range 10 {
		w.check(call{}, w.send(call{to: "echo/"}), want{app: "echo-v1"})
	}
	if log := w.wp.Log.String(); !containsAll(log, []string{"TCPRoute prod/tcp", "port 80 is routed by"}) {
		t.Errorf("the log does not say that the TCPRoute has lost its port:\n%s", log)
	}
}

// An HTTPRoute on a port that is declared TCP cannot be followed; opaque bytes
// pass as before, or not at all if a TCPRoute says so.
func TestHTTPRouteOnATCPPort(t *testing.T) {
	w := newTown(t, meshRoute("HTTPRoute", "http", "prod", "name: echo, port: 9090", leadsTo("/", "echo-v1")), nil)
	checkShares(t, 60, func() string { return w.firstLine("prod/client", "echo:9090") }, map[string]float64{"echo-v1": 0.5, "echo-v2": 0.5})
}
