package l7

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// Dial opens a byte stream to an endpoint, parking t meanwhile: it is
// [upstream.Dialer.Open] without fields for the CONNECT, since what it opens
// serves the requests of many clients. If it fails, nothing has reached an
// application.
type Dial func(t *task.Task, ep *mesh.Endpoint) (task.Stream, error)

// Options is what a Forwarder works with.
type Options struct {
	Scheduler *task.Scheduler
	Store     *mesh.Store
	Observer  flow.Observer
	Dial      Dial
	Limits    Limits
	// ClientHeaders has x-forwarded-for appended and x-forwarded-client-cert
	// replaced. Without it the one is left as it is and the other removed.
	ClientHeaders bool
	// TrustedHop reports whether what a peer has appended to x-forwarded-for is
	// believed, for the policy field remoteIpBlocks. Nil: nobody's.
	TrustedHop func(identity.ID) bool
	// Budget bounds how far the windows of HTTP/2 streams inside tunnels grow
	// beyond their beginnings. Nil: 64 MiB.
	Budget *h2.Budget
	// Identity returns our own SPIFFE URI, for x-forwarded-client-cert.
	Identity func() string
}

// Inbound is a stream that carries HTTP, and what is known of who opened it.
type Inbound struct {
	Stream       task.Stream
	Dest         decide.Destination
	Peer         identity.ID
	PeerAddr     netip.AddrPort
	Target       string // of the CONNECT
	Source       *flow.Workload
	ConnectionID uint64 // of the tunnel
	peerURI      string // Peer, written out once
}

// Forwarder serves HTTP on streams and forwards it to endpoints.
type Forwarder struct {
	opts     Options
	sched    *task.Scheduler
	limits   Limits
	draining atomic.Bool
	era      atomic.Uint64           // how often endpoints have left
	idle     *upstream.Idle[*h1Conn] // HTTP/1 connections to endpoints
	mirrors  atomic.Int64            // mirrored requests under way
	upgraded upgrades

	h2     h2Pool     // and the HTTP/2 ones
	budget *h2.Budget // for the windows of all HTTP/2 connections inside tunnels

	mu    sync.Mutex
	conns map[downConn]struct{} // guarded by mu: the open connections from clients
	sweep bool                  // guarded by mu: a look at the idle ones is scheduled
}

// downConn is a connection from a client.
type downConn interface {
	// drain has it end once its requests are served.
	drain(b *task.Batch)
	// endIfIdle ends it if it has had no request since then, in nanoseconds.
	endIfIdle(b *task.Batch, then int64)
}

// windowBudget is the default budget, in bytes.
const windowBudget = 64 << 20

// New returns a Forwarder.
func New(o Options) *Forwarder {
	fw := &Forwarder{
		opts: o, sched: o.Scheduler, limits: o.Limits.withDefaults(),
		conns: make(map[downConn]struct{}), budget: o.Budget,
	}
	if fw.budget == nil {
		fw.budget = h2.NewBudget(windowBudget)
	}
	fw.h2 = h2Pool{fw: fw, to: make(map[upstream.Key]*h2Endpoint)}
	fw.idle = upstream.NewIdle(o.Scheduler, max(fw.limits.IdleTimeout, 0), fw.limits.IdlePerEndpoint, closeIdle)
	return fw
}

// Serve takes over a stream. It does not block: it makes itself the stream's
// waker, and runs a task only while a request is in flight.
func (fw *Forwarder) Serve(b *task.Batch, in Inbound) {
	in.peerURI = in.Peer.String()
	c := &conn{fw: fw, in: in}
	c.idleSince.Store(time.Now().UnixNano())
	fw.remember(c)
	in.Stream.SetWaker(c)
	if c.readable() {
		c.Wake(b)
	}
	if fw.draining.Load() {
		fw.sched.After(finalAfter, (*drainEnd)(fw))
	}
}

// Drain has every connection end when its requests are served: HTTP/1 answers
// say so, HTTP/2 connections send GOAWAY, and idle connections end. One that was
// opened and has not carried a request yet is given a second for it. No request
// is lost.
func (fw *Forwarder) Drain(b *task.Batch) {
	fw.draining.Store(true)
	for _, c := range fw.all() {
		c.drain(b)
	}
	fw.sched.After(finalAfter, (*drainEnd)(fw))
}

// drainEnd is the timer's view of a Forwarder that drains.
type drainEnd Forwarder

// Wake ends the connections that were idle all the time since.
func (d *drainEnd) Wake(b *task.Batch) {
	fw := (*Forwarder)(d)
	for _, c := range fw.all() {
		c.endIfIdle(b, time.Now().Add(-finalAfter/2).UnixNano())
	}
}

// Close gives up the idle connections to endpoints.
func (fw *Forwarder) Close(b *task.Batch) {
	fw.idle.Close(b)
	fw.h2.close(b)
}

// Retain closes the connections to endpoints that keep does not know, once no
// request is on them.
func (fw *Forwarder) Retain(b *task.Batch, keep func(upstream.Key) bool) {
	fw.era.Add(1) // first: what is busy now is looked at when it comes back
	fw.idle.Retain(b, keep)
	fw.h2.retain(b, func(c *h2Shared) bool { return keep(c.key) })
}

// Idle reports whether no connection from a client is open.
func (fw *Forwarder) Idle() bool {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	return len(fw.conns) == 0
}

// IdleUpstream returns how many HTTP/1 connections to endpoints wait for a
// request.
func (fw *Forwarder) IdleUpstream() int { return fw.idle.Len() }

func (fw *Forwarder) remember(c downConn) {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	fw.conns[c] = struct{}{}
	fw.scheduleSweep()
}

func (fw *Forwarder) forget(c downConn) {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	delete(fw.conns, c)
}

func (fw *Forwarder) all() []downConn {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	return slices.Collect(maps.Keys(fw.conns))
}

// scheduleSweep has the idle connections looked at when half the timeout has
// passed: one timer for all of them. The caller holds mu.
func (fw *Forwarder) scheduleSweep() {
	if !fw.sweep && fw.limits.IdleTimeout > 0 {
		fw.sweep = true
		fw.sched.After(fw.limits.IdleTimeout/2, (*idleSweep)(fw))
	}
}

// idleSweep is the timer's view of the Forwarder.
type idleSweep Forwarder

// Wake ends the connections that were idle for too long.
func (s *idleSweep) Wake(b *task.Batch) {
	fw := (*Forwarder)(s)
	old := time.Now().Add(-fw.limits.IdleTimeout).UnixNano()
	for _, c := range fw.all() {
		c.endIfIdle(b, old)
	}
	fw.mu.Lock()
	defer fw.mu.Unlock()
	fw.sweep = false
	if len(fw.conns) > 0 {
		fw.scheduleSweep()
	}
}
