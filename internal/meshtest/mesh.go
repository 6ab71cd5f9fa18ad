package meshtest

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
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
	CA *certs.CA // issues certificates from now on

	t      TB
	net    network
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	trusted []*certs.CA       // guarded by mu
	conns   map[net.Conn]bool // what is to be closed at the end; nil when that has come
}

// New makes a mesh with a CA and a loopback network of its own.
func New(t TB) *Mesh {
	t.Helper()
	return newMesh(t, randomNetworks)
}

// NewForExamples makes a mesh on the network that the manifests under examples/
// are written for. There can be one at a time on a machine.
func NewForExamples(t TB) *Mesh {
	t.Helper()
	return newMesh(t, func(yield func(network) bool) { yield(exampleNetwork) })
}

func newMesh(t TB, networks iter.Seq[network]) *Mesh {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatalf("meshtest: %v", err)
	}
	m := &Mesh{CA: ca, trusted: []*certs.CA{ca}, t: t, conns: make(map[net.Conn]bool)}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	var claim net.Listener
	m.net, claim, err = claimNetwork(networks)
	if err != nil {
		t.Fatalf("meshtest: %v", err)
	}
	t.Cleanup(func() {
		m.close()
		claim.Close()
	})
	return m
}

// network is the first three bytes of a /24.
type network [3]byte

var exampleNetwork = network{127, 66, 0}

func (n network) String() string { return fmt.Sprintf("%d.%d.%d.", n[0], n[1], n[2]) }

// randomNetworks stays away from 127.66, where the examples live, and 127.88, where
// benchmarks do.
func randomNetworks(yield func(network) bool) {
	for range 100 {
		if !yield(network{127, byte(100 + rand.N(100)), byte(rand.N(256))}) {
			return
		}
	}
}

// claimNetwork takes the first network that no other mesh on this machine uses.
// Holding a port in it is the claim; it goes with the process, whatever happens
// to that.
func claimNetwork(networks iter.Seq[network]) (found network, claim net.Listener, err error) {
	for n := range networks {
		claim, err = net.Listen("tcp", fmt.Sprintf("%s254:15999", n))
		if err == nil {
			return n, claim, nil
		}
	}
	return found, nil, fmt.Errorf("no free network in 127.0.0.0/8 (another mesh that runs? not Linux?): %w", err)
}

// IP is an address of the mesh's own network; host is 1 to 253.
func (m *Mesh) IP(host byte) string { return fmt.Sprintf("%s%d", m.net, host) }

// Addr is the same with a port.
func (m *Mesh) Addr(host byte, port int) string { return fmt.Sprintf("%s:%d", m.IP(host), port) }

// Manifests moves manifests that are written for the network of the examples,
// 127.66.0.0/24, to the one of this mesh.
func (m *Mesh) Manifests(text string) string {
	return strings.ReplaceAll(text, exampleNetwork.String(), m.net.String())
}

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

// Eventually waits until condition holds: looked at often, for half a minute:
// there are busy machines, and the race detector.
func (m *Mesh) Eventually(what string, condition func() bool) {
	m.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			m.t.Fatalf("still not so after half a minute: %s", what)
		}
		<-tick.C
	}
}
