package stories

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

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
