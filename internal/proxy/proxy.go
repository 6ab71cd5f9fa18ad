package proxy

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/l4"
	"github.com/waypoint-mesh/waypoint/internal/l7"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Options is what a Proxy works with.
type Options struct {
	Scheduler *task.Scheduler
	Store     *mesh.Store
	Observer  flow.Observer
	L4        *l4.Forwarder
	L7        *l7.Forwarder
	// DetectTimeout is how long the first bytes on an undeclared port are
	// waited for.
	DetectTimeout time.Duration
}

// Proxy takes the streams of tunnels to where they belong.
type Proxy struct {
	opts     Options
	sources  sources
	detected [opaque + 1]atomic.Int64 // by guess; undecided: nobody said anything in time
	rejected atomic.Int64
}

// New returns a Proxy.
func New(o Options) *Proxy { return &Proxy{opts: o} }

// Stats are counts since the start.
type Stats struct {
	Rejected                       int64 // streams whose target is not served here
	HTTP1, HTTP2, TLS, TCP, Silent int64 // undeclared streams, by what they turned out to be
}

// Stats returns the counts.
func (p *Proxy) Stats() Stats {
	return Stats{
		Rejected: p.rejected.Load(),
		HTTP1:    p.detected[http1].Load(), HTTP2: p.detected[http2].Load(), TLS: p.detected[tlsHello].Load(),
		TCP: p.detected[opaque].Load(), Silent: p.detected[undecided].Load(),
	}
}

// Accept implements hbone.Handler. HTTP ports are served without a task: one is
// started when a request comes.
func (p *Proxy) Accept(b *task.Batch, s *hbone.Stream) {
	snap := p.opts.Store.Load()
	dest, err := resolve(snap, s.Target)
	if err != nil {
		p.notServed(b, s, err)
		return
	}
	c := &connection{p: p, s: s, dest: dest, source: p.sources.of(snap, s)}
	if dest.Protocol().IsHTTP() {
		if s.Accept(b) == nil {
			c.serveHTTP(b)
		}
		return
	}
	p.opts.Scheduler.Start(b, c)
}

// resolve finds the destination of a target.
func resolve(snap *mesh.Snapshot, t hbone.Target) (decide.Destination, error) {
	if t.Host != "" {
		return decide.Host(snap, t.Host, t.Port)
	}
	return decide.Address(snap, t.AddrPort())
}

// notServed answers 404 and reports it: we are no open proxy.
func (p *Proxy) notServed(b *task.Batch, s *hbone.Stream, cause error) {
	p.rejected.Add(1)
	f := p.newFlow(s)
	f.Status, f.Flags, f.Details = http.StatusNotFound, flow.NoRoute, "target_not_served: "+cause.Error()
	p.opts.Observer.Start(f)
	s.Reject(b, http.StatusNotFound)
	f.Duration = time.Since(f.Start)
	p.opts.Observer.Done(f)
}

// newFlow returns the record of a connection, as far as its tunnel tells.
func (p *Proxy) newFlow(s *hbone.Stream) *flow.Flow {
	return &flow.Flow{
		Kind: flow.TCP, Start: time.Now(),
		Peer: s.Peer, PeerAddr: s.PeerAddr, Target: s.Target.String(), MutualTLS: true,
	}
}
