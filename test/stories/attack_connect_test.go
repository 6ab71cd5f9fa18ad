package stories

import (
	"strconv"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// We are no open proxy: nothing but what we front is ever dialled, and no spelling
// of an authority stands for something else than it says.
func TestAttackOpenProxy(t *testing.T) {
	w := newTown(t, "", nil)
	listening := w.TCP("internal", w.Addr(40, 8080), meshtest.Echo)
	for target, want := range map[string]string{
		"169.254.169.254:80": "404", "127.0.0.1:15000": "404", w.wp.App.AdminAddr().String(): "404", w.wp.App.StatusAddr().String(): "404", w.wp.Addr: "404",
		w.Addr(40, 8080): "404", w.Addr(21, 8080): "404", w.Addr(21, 15008): "404", "[::1]:80": "404", "[fe80::1]:80": "404", "0.0.0.0:80": "404", "[::]:80": "404",
		"istiod.istio-system.svc.cluster.local:15012": "404", "kubernetes.default.svc.cluster.local:443": "404", "localhost:80": "404", "example.com:443": "404",
		"echo:80": "404", "echo.prod:80": "404", "echo.prod.svc:80": "404", "echo.other.svc.cluster.local:80": "404", "waypoint.prod.svc.cluster.local:15008": "404",
		"10.0.0.1:81": "404", "10.0.0.1:15008": "404", "10.0.0.1:0": "400", "10.0.0.1:65536": "400", "10.0.0.1": "400", "10.0.0.1:": "400", ":80": "400", "10.0.0.1:080": "400", "10.0.0.1:80 ": "RST PROTOCOL_ERROR|400", "10.0.0.1:+80": "400",
		"10.0.0.1:80:80": "400", "10.0.0.01:80": "400", "012.0.0.1:80": "400", "0xa000001:80": "404", "167772161:80": "400", "10.1:80": "400",
		"user@10.0.0.1:80": "400|RST PROTOCOL_ERROR", "http://10.0.0.1:80": "400|RST PROTOCOL_ERROR", "10.0.0.1:80/": "400|RST PROTOCOL_ERROR", "[10.0.0.1]:80": "400", "[::1%25lo]:80": "400|RST PROTOCOL_ERROR", "*.prod.svc.cluster.local:80": "400|RST PROTOCOL_ERROR",
		"echo.prod.svc.cluster.local\x00:80": "400|RST PROTOCOL_ERROR", "ech\u043e.prod.svc.cluster.local:80": "400|RST PROTOCOL_ERROR", strings.Repeat("a.", 200) + "b:80": "400",
		"[::ffff:10.0.0.1]:80": "200", "10.0.0.1:80": "200", "ECHO.prod.svc.cluster.LOCAL:80": "200",
	} {
		c := w.rawTunnel("prod/attacker")
		got := c.answered(c.open(connectTo(target), false))
		if !containsWord(want, got) {
			t.Errorf("CONNECT %.60q: %s, want %s", target, got, want)
		}
		c.Close()
	}
	if n := listening.Conns(); n != 0 {
		t.Errorf("what we do not front was dialled %d times", n)
	}
	for pod, node := range w.nodes {
		if n := len(node.Connects()); n != 0 {
			t.Errorf("%s was dialled %d times", pod, n)
		}
	}
	w.check(call{}, w.send(call{}), want{})
}

// What a CONNECT says of its client is for telemetry at most: identity and address
// are those of the tunnel.
func TestAttackClaims(t *testing.T) {
	w := newTown(t, "", nil)
	liar := w.as("shop/liar")
	conn, err := liar.Dial(t.Context(), w.wp.Addr, "10.0.0.1:80",
		meshtest.Field{Name: "baggage", Value: "k8s.namespace.name=kube-system,k8s.deployment.name=apiserver,service.name=root"},
		meshtest.Field{Name: "forwarded", Value: `for="203.0.113.7:443"`},
		meshtest.Field{Name: "x-forwarded-for", Value: "203.0.113.7"},
		meshtest.Field{Name: "x-forwarded-client-cert", Value: "URI=spiffe://cluster.local/ns/kube-system/sa/root"},
		meshtest.Field{Name: "traceparent", Value: "not a trace"})
	if err != nil {
		t.Fatal(err)
	}
	c := w.converse(conn)
	c.say("GET /claims HTTP/1.1\r\nHost: echo\r\nx-request-id: claims\r\nbaggage: k8s.namespace.name=kube-system\r\n\r\n")
	if got := c.reply("GET").StatusCode; got != 200 {
		t.Fatal(got)
	}
	c.Close()
	entry := w.entry(answer{id: "claims"})
	const id = "spiffe://cluster.local/ns/shop/sa/liar"
	if from, _ := entry["downstream_remote_address"].(string); entry["source_principal"] != id || !strings.HasPrefix(from, "127.0.0.1:") {
		t.Errorf("the log believes it: %v, %v", entry["source_principal"], from)
	}
	metrics := w.wp.Metrics()
	if !strings.Contains(metrics, `source_principal="`+id+`"`) || strings.Contains(metrics, `source_workload_namespace="kube-system"`) {
		t.Error("the metrics believe the namespace of the baggage")
	}
	for _, app := range w.http {
		for _, r := range app.Requests() {
			if xfcc := r.Get("x-forwarded-client-cert"); !strings.HasSuffix(xfcc, ";URI="+id) || r.Get("x-forwarded-for") != "127.0.0.1" {
				t.Errorf("the application is told %q, %q", xfcc, r.Get("x-forwarded-for"))
			}
		}
	}
	for _, node := range w.nodes {
		for _, connect := range node.Connects() {
			for _, f := range connect.Header {
				if strings.Contains(f.Value, "kube-system") || strings.Contains(f.Value, "203.0.113.7") {
					t.Errorf("the next node proxy is told %s: %s", f.Name, f.Value)
				}
			}
		}
	}
}

// Hostile baggage cannot make series of metrics without end.
func TestAttackBaggageCardinality(t *testing.T) {
	w := newTown(t, "", nil)
	liar := w.as("shop/liar")
	const clients = 200
	for i := range clients {
		conn, err := liar.Dial(t.Context(), w.wp.Addr, "10.0.0.1:80", meshtest.Field{Name: "baggage", Value: "k8s.deployment.name=w" + strconv.Itoa(i)})
		if err != nil {
			t.Fatal(err)
		}
		c := w.converse(conn)
		c.say("GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n")
		if got := c.reply("GET").StatusCode; got != 200 {
			t.Fatal(got)
		}
		c.Close()
	}
	series := strings.Count(w.wp.Metrics(), "\nistio_requests_total{")
	t.Logf("%d series for %d names", series, clients)
	if series > 2*(64+1) { // of two destination workloads
		t.Errorf("%d series of istio_requests_total for %d names that one client made up", series, clients)
	}
}
