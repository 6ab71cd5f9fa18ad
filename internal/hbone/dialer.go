package hbone

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

const (
	// DefaultConnectTimeout bounds a dial with its handshake, and the wait for
	// the answer to a CONNECT.
	DefaultConnectTimeout = 10 * time.Second
	// DefaultIdleTimeout is how long a tunnel without a stream is kept.
	DefaultIdleTimeout = 5 * time.Minute
	// maxTunnelStreams is how many streams we put on one tunnel, as ztunnel
	// does: more of them share the fate of one connection, and one core.
	maxTunnelStreams = 100
	// DefaultMaxTunnels is how many tunnels lead to one destination.
	DefaultMaxTunnels = 64
	// DefaultMaxWaiting is how many streams may wait for one of them.
	DefaultMaxWaiting = 1024
)

// DialerConfig is how a Dialer treats its tunnels.
type DialerConfig struct {
	Scheduler *task.Scheduler
	// Source is our certificate and the roots of the mesh, read at each dial.
	Source identity.Source
	// Trust says which trust domains are one when identities are compared.
	Trust identity.Trust
	// Handshakes limits how many compute at a time; nil: a limit of its own.
	Handshakes *wire.Handshakes
	// ConnectTimeout: zero is DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// IdleTimeout: zero is DefaultIdleTimeout.
	IdleTimeout time.Duration
	// MaxTunnels and MaxWaiting bound the tunnels to one destination, and the
	// streams that wait for one. Zero: the defaults.
	MaxTunnels, MaxWaiting int
	// Budget bounds the growth of all streams' windows together; see
	// ServerConfig.
	Budget *Budget
	// Wire is for the sockets.
	Wire wire.Options
}

func (c DialerConfig) withDefaults() DialerConfig {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.MaxTunnels == 0 {
		c.MaxTunnels = DefaultMaxTunnels
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = DefaultMaxWaiting
	}
	if c.Handshakes == nil {
		c.Handshakes = wire.NewHandshakes(0)
	}
	return c
}

// Destination is whom a tunnel leads to: an address and the identities of which
// the peer there has to prove one.
type Destination struct {
	Addr       netip.AddrPort
	identities []identity.ID
	any        bool
	key        poolKey
}

// poolKey is what tunnels are shared by. One identity, which is the rule, costs no
// string to be made.
type poolKey struct {
	addr netip.AddrPort
	one  identity.ID
	more string // all, sorted, if there are several; "*" for any
}

// NewDestination returns a destination, which keeps accepted. Without an identity
// no peer is accepted.
func NewDestination(addr netip.AddrPort, accepted ...identity.ID) Destination {
	key := poolKey{addr: addr}
	if len(accepted) == 1 {
		key.one = accepted[0]
	} else {
		ids := make([]string, len(accepted))
		for i, id := range accepted {
			ids[i] = id.String()
		}
		slices.Sort(ids)
		key.more = strings.Join(slices.Compact(ids), " ")
	}
	return Destination{Addr: addr, identities: accepted, key: key}
}

// AnyPeer returns a destination at which every identity of the mesh is accepted.
func AnyPeer(addr netip.AddrPort) Destination {
	return Destination{Addr: addr, any: true, key: poolKey{addr: addr, more: "*"}}
}

// Dialer opens streams, on tunnels that it keeps. It is safe for concurrent use.
type Dialer struct {
	config DialerConfig
	stats  dialerStats
	ctx    context.Context // of dials; ended by Close
	cancel context.CancelFunc
	live   sync.WaitGroup // goroutines of dials and tunnels

	mu      sync.Mutex           // taken before that of a pool
	pools   map[poolKey]*pool    // guarded by mu
	tunnels map[*tunnel]struct{} // guarded by mu; all, also those that drain
	sweep   *task.Timer          // guarded by mu; nil while there is no pool
	closed  bool                 // guarded by mu
}

type dialerStats struct{ tunnels, streams, dials, failed atomic.Int64 }

// DialerStats are counts for metrics.
type DialerStats struct {
	Tunnels     int64 // open
	Streams     int64 // open
	Dials       int64 // ever begun
	DialsFailed int64 // ever
}

// NewDialer returns a dialer without tunnels.
func NewDialer(config DialerConfig) *Dialer {
	ctx, cancel := context.WithCancel(context.Background())
	return &Dialer{
		config: config.withDefaults(), ctx: ctx, cancel: cancel,
		pools: make(map[poolKey]*pool), tunnels: make(map[*tunnel]struct{}),
	}
}

// Stats returns the counts of this moment.
func (d *Dialer) Stats() DialerStats {
	return DialerStats{
		Tunnels: d.stats.tunnels.Load(), Streams: d.stats.streams.Load(),
		Dials: d.stats.dials.Load(), DialsFailed: d.stats.failed.Load(),
	}
}

// pool returns the tunnels to dst, nil after Close.
func (d *Dialer) pool(dst Destination) *pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	p := d.pools[dst.key]
	if p == nil {
		p = &pool{d: d, dst: dst, limit: maxTunnelStreams}
		d.pools[dst.key] = p
		if d.sweep == nil {
			d.sweep = d.config.Scheduler.After(d.config.IdleTimeout/2, wakerFunc(d.closeIdle))
		}
	}
	return p
}

// closeIdle ends tunnels without streams, and forgets pools without tunnels.
func (d *Dialer) closeIdle(b *task.Batch) {
	before := time.Now().Add(-d.config.IdleTimeout)
	var idle []*tunnel
	d.mu.Lock()
	for key, p := range d.pools {
		tunnels, empty := p.takeIdle(before)
		idle = append(idle, tunnels...)
		if empty {
			delete(d.pools, key)
		}
	}
	switch {
	case d.closed:
	case len(d.pools) == 0:
		d.sweep = nil
	default:
		d.sweep.Reset(d.config.IdleTimeout / 2)
	}
	d.mu.Unlock()
	for _, t := range idle {
		t.h2.Drain(b)
	}
}

// Retain forgets the tunnels to addresses that keep says no to: they take no new
// stream and end with their last. It is for endpoints that have left.
func (d *Dialer) Retain(keep func(netip.AddrPort) bool) {
	d.mu.Lock()
	var gone []*pool
	for key, p := range d.pools {
		if !keep(key.addr) {
			gone = append(gone, p)
			delete(d.pools, key)
		}
	}
	d.mu.Unlock()
	for _, p := range gone {
		d.config.Scheduler.Turn(p.retire)
	}
}

// Forget is Retain for all addresses but addr.
func (d *Dialer) Forget(addr netip.AddrPort) {
	d.Retain(func(a netip.AddrPort) bool { return a != addr })
}

// Close cuts all tunnels and waits for their end. No stream can be opened after
// it.
func (d *Dialer) Close() {
	d.cancel()
	d.mu.Lock()
	d.closed = true
	tunnels, pools := d.tunnels, d.pools
	d.tunnels, d.pools = nil, nil
	if d.sweep != nil {
		d.sweep.Stop()
	}
	d.mu.Unlock()
	for _, p := range pools {
		d.config.Scheduler.Turn(p.retire)
	}
	for t := range tunnels {
		d.config.Scheduler.Turn(t.cut)
	}
	d.live.Wait()
}

// enter counts a goroutine, unless the dialer is closed.
func (d *Dialer) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.live.Add(1)
	}
	return !d.closed
}

// track remembers a tunnel for Close, unless that has been called.
func (d *Dialer) track(t *tunnel) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.tunnels[t] = struct{}{}
	d.stats.tunnels.Add(1)
	return true
}

func (d *Dialer) untrack(t *tunnel) {
	d.stats.tunnels.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tunnels, t)
}
