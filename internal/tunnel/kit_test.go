package tunnel

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const clientID = "spiffe://cluster.local/ns/default/sa/client"

// manifests are of one TCP service, echo, that has an address of each family and
// a pod outside of the mesh. Port 9001 has no endpoint that listens, port 9002 is
// forbidden.
const manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {istio.io/use-waypoint: waypoint}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default, labels: {istio.io/waypoint-for: service}}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
---
apiVersion: v1
kind: Pod
metadata: {name: echo-1, namespace: default, labels: {app: echo}}
spec: {serviceAccountName: echo, nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: 127.66.0.21, podIPs: [{ip: 127.66.0.21}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec:
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1, "fd00::1"]
  ipFamilies: [IPv4, IPv6]
  selector: {app: echo}
  ports:
  - {name: echo, port: 9000, targetPort: 9000, appProtocol: tcp}
  - {name: dead, port: 9001, targetPort: 9001, appProtocol: tcp}
  - {name: denied, port: 9002, targetPort: 9000, appProtocol: tcp}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: no-9002, namespace: default}
spec:
  targetRefs: [{group: "", kind: Service, name: echo}]
  action: DENY
  rules: [{to: [{operation: {ports: ["9002"]}}]}]
`

const echoTarget = "10.0.0.1:9000"

// door is a tunnel client in this process.
type door struct {
	t       *testing.T
	client  *Client
	tunnels *hbone.Dialer
	log     *meshtest.Buffer
	stop    func() // ends it, and waits
}

// openDoor starts a tunnel client to the waypoint at addr, with a forward to each
// target and SOCKS.
func openDoor(t *testing.T, source identity.Source, waypoint hbone.Destination, targets ...string) *door {
	t.Helper()
	log := new(meshtest.Buffer)
	sched := task.NewScheduler(task.Coroutines)
	o := Options{
		Scheduler: sched, Waypoint: waypoint, SOCKS5: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(log, nil)),
		Tunnels: hbone.NewDialer(hbone.DialerConfig{Scheduler: sched, Source: source, ConnectTimeout: 5 * time.Second}),
	}
	for _, target := range targets {
		parsed, err := hbone.ParseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		o.Forwards = append(o.Forwards, Forward{Local: "127.0.0.1:0", Target: parsed})
	}
	client, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	d := &door{t: t, client: client, tunnels: o.Tunnels, log: log}
	stopped := false
	d.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
		sched.Close()
	}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("the log:\n%s", log)
		}
	})
	return d
}

// socks is the address of the SOCKS listener.
func (d *door) socks() string {
	addrs := d.client.Addrs()
	return addrs[len(addrs)-1].String()
}

// dial connects to the forward with the given number.
func (d *door) dial(forward int) *net.TCPConn {
	d.t.Helper()
	conn, err := net.Dial("tcp", d.client.Addrs()[forward].String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		d.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// exchange sends text on conn and expects it back.
func exchange(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(conn, back); err != nil {
		return err
	}
	if string(back) != text {
		return errUnlike(back)
	}
	return nil
}

type errUnlike []byte

func (e errUnlike) Error() string { return "something else came back: " + string(e) }

// at is any waypoint at an address.
func at(t *testing.T, addr string) hbone.Destination {
	t.Helper()
	parsed, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return hbone.AnyPeer(parsed)
}
