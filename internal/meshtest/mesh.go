package meshtest

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// TB is what a mesh needs of the test, or the program, that it lives in.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf does not return.
	Fatalf(format string, args ...any)
}

// hbonePort is where node proxies and waypoints take tunnels.
const hbonePort = 15008

// Mesh is one mesh. What it hands out ends with the test.
type Mesh struct {
	CA *certs.CA

	t      TB
	net    [3]byte // of the /24 that is ours
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // what is to be closed at the end; nil when that has come
}

// New makes a mesh with a CA and a loopback network of its own.
func New(t TB) *Mesh {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatalf("meshtest: %v", err)
	}
	m := &Mesh{CA: ca, t: t, conns: make(map[net.Conn]bool)}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	claim, err := claimNetwork(&m.net)
	if err != nil {
		t.Fatalf("meshtest: %v", err)
	}
	t.Cleanup(func() {
		m.close()
		claim.Close()
	})
	return m
}

// claimNetwork finds a /24 that no other mesh on this machine uses. Holding a
// port in it is the claim; it goes with the process, whatever happens to it.
func claimNetwork(network *[3]byte) (net.Listener, error) {
	var err error
	for range 100 {
		*network = [3]byte{127, byte(66 + rand.N(128)), byte(rand.N(256))}
		var claim net.Listener
		claim, err = net.Listen("tcp", fmt.Sprintf("%s:15999", ip(*network, 254)))
		if err == nil {
			return claim, nil
		}
	}
	return nil, fmt.Errorf("no free network in 127.0.0.0/8 (is this Linux?): %w", err)
}

func ip(network [3]byte, host byte) net.IP {
	return net.IPv4(network[0], network[1], network[2], host)
}

// IP is an address of the mesh's own network; host is 1 to 253.
func (m *Mesh) IP(host byte) string { return ip(m.net, host).String() }

// Addr is the same with a port.
func (m *Mesh) Addr(host byte, port int) string { return fmt.Sprintf("%s:%d", m.IP(host), port) }

// close ends all that runs and waits for it.
func (m *Mesh) close() {
	m.cancel()
	m.mu.Lock()
	conns := m.conns
	m.conns = nil
	m.mu.Unlock()
	for conn := range conns {
		conn.Close()
	}
	ended := make(chan struct{})
	go func() {
		m.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		m.t.Errorf("meshtest: something that the mesh started does not end; a goroutine dump will show it")
	}
}

// Go runs fn until the mesh ends: its context ends then, and the mesh waits.
func (m *Mesh) Go(fn func(ctx context.Context)) {
	m.tasks.Go(func() { fn(m.ctx) })
}

// track has conn closed at the end of the mesh; the returned function forgets it.
func (m *Mesh) track(conn net.Conn) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns == nil {
		conn.Close()
		return func() {}
	}
	m.conns[conn] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.conns, conn)
	}
}

// ID reads a SPIFFE URI.
func (m *Mesh) ID(uri string) identity.ID {
	m.t.Helper()
	id, err := identity.Parse(uri)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	return id
}

// Certificate issues one for an identity, good for an hour.
func (m *Mesh) Certificate(uri string) *tls.Certificate {
	m.t.Helper()
	cert, err := m.CA.Issue(m.ID(uri), time.Hour)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	return cert
}

// Eventually waits until condition holds: looked at often, for ten seconds.
func (m *Mesh) Eventually(what string, condition func() bool) {
	m.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			m.t.Fatalf("still not so after ten seconds: %s", what)
		}
		<-tick.C
	}
}
