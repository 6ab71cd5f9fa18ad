package app_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default, labels: {istio.io/waypoint-for: service}}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
`

// TestTunnelsAboveTheLimit: what is over the limit is turned away before any
// handshake, is counted, and has its place as soon as another has left.
func TestTunnelsAboveTheLimit(t *testing.T) {
	m := meshtest.New(t)
	wp := m.Waypoint(gateway, func(o *app.Options) { o.MaxConnections = 2 })
	client := m.Client("spiffe://cluster.local/ns/default/sa/client")
	open := func() (*meshtest.Conn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return client.Tunnel(ctx, wp.Addr)
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err != nil {
		t.Fatal(err)
	}

	turnedAway(t, wp.Addr)
	if _, err := open(); err == nil {
		t.Error("a third tunnel was opened")
	}
	// A client is done with its handshake before the waypoint has counted it.
	for _, want := range []string{
		`waypoint_tunnels_total{result="refused"} 2`, `waypoint_tunnels_total{result="accepted"} 2`,
		`waypoint_handshakes_total{result="failed"} 0`, "waypoint_tunnels_open 2",
	} {
		m.Eventually("the metrics say "+want, func() bool { return strings.Contains(wp.Metrics(), want) })
	}

	first.Close()
	m.Eventually("there is place for another", func() bool {
		_, err := open()
		return err == nil
	})
}

// turnedAway connects and says nothing: the other end closes at once.
func turnedAway(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return // the reset was faster
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := io.ReadFull(conn, make([]byte, 1))
	if timeout, ok := err.(net.Error); n > 0 || ok && timeout.Timeout() {
		t.Errorf("read %d bytes, %v: expected to be turned away", n, err)
	}
}
