package proxy

import (
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/l4"
	"github.com/waypoint-mesh/waypoint/internal/l7"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// connection is one stream on its way to a forwarder.
type connection struct {
	p      *Proxy
	s      *hbone.Stream
	dest   decide.Destination
	source *flow.Workload
}

// Run takes a stream that may not be HTTP to where it belongs.
func (c *connection) Run(t *task.Task) {
	c.s.SetWaker(t)
	switch c.dest.Protocol() {
	case mesh.TCP:
		c.forward(t, true, false, "")
	case mesh.TLS:
		if c.s.Accept(t.Batch()) == nil {
			c.forwardTLS(t)
		}
	default:
		if c.s.Accept(t.Batch()) == nil {
			c.detect(t)
		}
	}
}

// detect looks at the first bytes of a stream whose port declares nothing.
func (c *connection) detect(t *task.Task) {
	g := c.sniff(t)
	c.p.detected[g].Add(1)
	switch g {
	case http1, http2:
		c.serveHTTP(t.Batch())
	case tlsHello:
		c.forwardTLS(t)
	default:
		c.forward(t, false, false, "")
	}
}

// sniff waits for enough bytes to tell what a stream carries, but not for long:
// undecided means that the server has to speak first.
func (c *connection) sniff(t *task.Task) guess {
	t.SetDeadline(time.Now().Add(c.p.opts.DetectTimeout))
	defer t.SetDeadline(time.Time{})
	for {
		p := c.s.Peek()
		if g := classify(p); g != undecided {
			return g
		}
		if err := task.ReadMore(t, c.s, len(p)); err != nil {
			if len(p) > 0 {
				return opaque
			}
			return undecided
		}
	}
}

// serveHTTP hands the stream over to l7, which is its waker from then on.
func (c *connection) serveHTTP(b *task.Batch) {
	c.p.opts.L7.Serve(b, l7.Inbound{
		Stream: c.s, Dest: c.dest, Peer: c.s.Peer, PeerAddr: c.s.PeerAddr,
		Target: c.s.Target.String(), Source: c.source,
	})
}

// helloTimeout is how long a client may take for the rest of its ClientHello.
const helloTimeout = 10 * time.Second

// forwardTLS reads the server name and forwards the stream as it is. What turns
// out to be no TLS is forwarded without a name: the destination may know it.
func (c *connection) forwardTLS(t *task.Task) {
	t.SetDeadline(time.Now().Add(helloTimeout))
	name, err := l4.ReadServerName(t, c.s)
	t.SetDeadline(time.Time{})
	c.forward(t, false, err == nil, name)
}

// forward hands the stream to l4, on this task.
func (c *connection) forward(t *task.Task, pending, isTLS bool, sni string) {
	f := c.p.newFlow(c.s)
	f.Source, f.SNI = c.source, sni
	in := &l4.Inbound{
		Stream: c.s, Dest: c.dest, TLS: isTLS, Flow: f,
		Caller:  decide.Caller{Peer: c.s.Peer, Addr: c.s.PeerAddr.Addr(), SNI: sni},
		Resolve: func(snap *mesh.Snapshot) (decide.Destination, error) { return resolve(snap, c.s.Target) },
	}
	if pending {
		in.Accept, in.Refuse = c.s.Accept, c.s.Reject
	}
	c.p.opts.L4.Forward(t, in)
}
