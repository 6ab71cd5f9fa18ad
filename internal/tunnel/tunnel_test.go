package tunnel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/proxy"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// much is enough to fill every window on the way several times.
var much = bytes.Repeat([]byte("0123456789abcdef\n"), 20_000_000/17)

// TestClientEndsFirst sends all and half-closes before the application answers.
func TestClientEndsFirst(t *testing.T) {
	m := meshtest.New(t)
	m.TCP("echo", m.Addr(21, 9000), func(conn *net.TCPConn) {
		hash := sha256.New()
		if _, err := io.Copy(hash, conn); err != nil {
			t.Errorf("the application reads: %v", err)
		}
		conn.Write(hash.Sum(nil))
		conn.Write(much)
	})
	d := openDoor(t, m.Source(clientID), at(t, m.Waypoint(manifests, nil).Addr), echoTarget)
	conn := d.dial(0)
	if _, err := conn.Write(much); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(much)
	if len(got) < len(sum) || !bytes.Equal(got[:len(sum)], sum[:]) {
		t.Error("the application got something else than was sent")
	}
	if !bytes.Equal(got[len(sum):], much) {
		t.Errorf("%d bytes came back, expected %d", len(got)-len(sum), len(much))
	}
}

// TestApplicationEndsFirst goes on sending after the other side has half-closed.
func TestApplicationEndsFirst(t *testing.T) {
	m := meshtest.New(t)
	got := make(chan []byte, 1)
	m.TCP("echo", m.Addr(21, 9000), meshtest.Farewell("that is all", got))
	d := openDoor(t, m.Source(clientID), at(t, m.Waypoint(manifests, nil).Addr), echoTarget)
	conn := d.dial(0)
	greeting, err := io.ReadAll(conn)
	if string(greeting) != "that is all" || err != nil {
		t.Fatalf("read %q, %v", greeting, err)
	}
	if _, err := conn.Write(much); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(<-got, much) {
		t.Error("the application did not get what was sent after its end")
	}
}

func TestSOCKS5(t *testing.T) {
	m := meshtest.New(t)
	m.TCP("echo", m.Addr(21, 9000), meshtest.Echo)
	d := openDoor(t, m.Source(clientID), at(t, m.Waypoint(manifests, nil).Addr))
	tests := []struct {
		name, target string
		refused      string // what the SOCKS client says; empty: carried
		logged       string
	}{
		{"IPv4", echoTarget, "", ""},
		{"IPv6", "[fd00::1]:9000", "", ""},
		{"name", "echo.default.svc.cluster.local:9000", "", ""},
		{"not served", "10.9.9.9:80", "host unreachable", "the waypoint answers 404: it serves no such target"},
		{"denied", "10.0.0.1:9002", "connection not allowed by ruleset", "the waypoint answers 403"},
		{"no endpoint listens", "10.0.0.1:9001", "connection refused", "the waypoint answers 503"},
		{"no such name can be", "not_a_name!:80", "general SOCKS server failure", "a host name of letters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dialer, err := proxy.SOCKS5("tcp", d.socks(), nil, proxy.Direct)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := dialer.Dial("tcp", tt.target)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("error %v, expected %q", err, tt.refused)
				}
				logs(t, m, d, tt.logged)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := exchange(conn, tt.target); err != nil {
				t.Error(err)
			}
		})
	}
}

func logs(t *testing.T, m *meshtest.Mesh, d *door, text string) {
	t.Helper()
	m.Eventually("the log says "+text, func() bool { return strings.Contains(d.log.String(), text) })
}

// wantClosed expects a connection to be closed without a byte.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if p, _ := io.ReadAll(conn); len(p) > 0 {
		t.Errorf("read %q from a connection that goes nowhere", p)
	}
}

func TestRefusedTargetClosesTheLocalConnection(t *testing.T) {
	m := meshtest.New(t)
	d := openDoor(t, m.Source(clientID), at(t, m.Waypoint(manifests, nil).Addr), "10.9.9.9:80")
	wantClosed(t, d.dial(0))
	logs(t, m, d, "target=10.9.9.9:80")
	logs(t, m, d, "not attached by istio.io/use-waypoint?")
}

func TestWaypointGoneAndBack(t *testing.T) {
	m := meshtest.New(t)
	m.TCP("echo", m.Addr(21, 9000), meshtest.Echo)
	fixed := func(o *app.Options) { o.Listen = m.Addr(200, 15008) }
	wp := m.Waypoint(manifests, fixed)
	d := openDoor(t, m.Source(clientID), at(t, wp.Addr), echoTarget)
	before := d.dial(0)
	if err := exchange(before, "before"); err != nil {
		t.Fatal(err)
	}

	before.Close()
	wp.Stop()
	<-wp.Done()
	wantClosed(t, d.dial(0))
	logs(t, m, d, "no waypoint at "+wp.Addr)

	m.Waypoint(manifests, fixed)
	if err := exchange(d.dial(0), "after"); err != nil {
		t.Error(err)
	}
}

func TestWrongWaypointIsRefused(t *testing.T) {
	m := meshtest.New(t)
	wp := m.Waypoint(manifests, nil)
	other := m.ID("spiffe://cluster.local/ns/default/sa/other")
	d := openDoor(t, m.Source(clientID), hbone.NewDestination(netip.MustParseAddrPort(wp.Addr), other), echoTarget)
	wantClosed(t, d.dial(0))
	logs(t, m, d, "another --waypoint-id")
	logs(t, m, d, meshtest.WaypointID)
}

func TestStrangeWaypointIsRefused(t *testing.T) {
	m, strangers := meshtest.New(t), meshtest.New(t)
	wp := m.Waypoint(manifests, nil)
	d := openDoor(t, strangers.Source(clientID), at(t, wp.Addr), echoTarget)
	wantClosed(t, d.dial(0))
	logs(t, m, d, "not signed by any of the mesh roots")
}

func TestWaypointRefusesAStranger(t *testing.T) {
	m, strangers := meshtest.New(t), meshtest.New(t)
	wp := m.Waypoint(manifests, nil)
	source := new(certs.Current)
	source.Store(strangers.Certificate(clientID), []*x509.Certificate{m.CA.Root})
	d := openDoor(t, source, at(t, wp.Addr), echoTarget)
	wantClosed(t, d.dial(0))
	logs(t, m, d, "do not accept each other")
}

// TestParallelConnections needs several tunnels, which hold a hundred streams each.
func TestParallelConnections(t *testing.T) {
	const connections = 350
	m := meshtest.New(t)
	m.TCP("echo", m.Addr(21, 9000), meshtest.Echo)
	d := openDoor(t, m.Source(clientID), at(t, m.Waypoint(manifests, nil).Addr), echoTarget)
	conns := make([]*net.TCPConn, connections)
	for i := range conns {
		conns[i] = d.dial(0)
	}
	ended := make(chan error, connections)
	for i, conn := range conns {
		go func() { ended <- threeRounds(conn, i) }()
	}
	for range conns {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if s := d.tunnels.Stats(); s.Streams != connections || s.Tunnels < 4 {
		t.Errorf("%d streams in %d tunnels, expected %d in 4", s.Streams, s.Tunnels, connections)
	}
	for _, conn := range conns {
		conn.Close()
	}
	m.Eventually("all streams have ended", func() bool { return d.tunnels.Stats().Streams == 0 })
}

func threeRounds(conn net.Conn, number int) error {
	for round := range 3 {
		if err := exchange(conn, strings.Repeat(fmt.Sprintf("%d in round %d\n", number, round), 500)); err != nil {
			return err
		}
	}
	return nil
}

// TestRunEndsWhatIsOpen stops the client while a connection talks, another waits,
// and a third has not said where to.
func TestRunEndsWhatIsOpen(t *testing.T) {
	m := meshtest.New(t)
	m.TCP("echo", m.Addr(21, 9000), meshtest.Echo)
	d := openDoor(t, m.Source(clientID), at(t, m.Waypoint(manifests, nil).Addr), echoTarget)
	talks := d.dial(0)
	if err := exchange(talks, "hello"); err != nil {
		t.Fatal(err)
	}
	silent, greets := d.dial(1), d.dial(1)
	if _, err := greets.Write([]byte{socksVersion, 1, noAuth}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(greets, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	d.stop()
	for _, conn := range []net.Conn{talks, silent, greets} {
		wantClosed(t, conn)
	}
}

func TestListenNamesTheAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Listen(context.Background(), Options{Forwards: []Forward{{Local: taken.Addr().String()}}})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("error %v does not name %s", err, taken.Addr())
	}
}
