package l4

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// Dial opens a byte stream to an endpoint, for the connection that f records. If
// it fails, nothing has reached an application.
type Dial func(t *task.Task, ep *mesh.Endpoint, f *flow.Flow) (task.Stream, error)

// Options is what a Forwarder works with.
type Options struct {
	Scheduler *task.Scheduler
	Store     *mesh.Store
	Observer  flow.Observer
	Dial      Dial
	// IdleTimeout ends a connection on which nothing has moved for so long.
	// Zero: never.
	IdleTimeout time.Duration
}

// Forwarder carries connections to endpoints.
type Forwarder struct {
	opts Options
	open registry
}

// New returns a Forwarder.
func New(o Options) *Forwarder {
	fw := &Forwarder{opts: o}
	fw.open.init(o.Scheduler)
	return fw
}

// Inbound is one connection to carry.
type Inbound struct {
	Stream task.Stream
	Dest   decide.Destination
	// Resolve finds the destination again in a later snapshot.
	Resolve func(*mesh.Snapshot) (decide.Destination, error)
	Caller  decide.Caller
	TLS     bool // it begins with a ClientHello, whose server name is in Caller
	// Flow is the record so far: who asks for what.
	Flow *flow.Flow
	// Accept answers the CONNECT with 200, Refuse with another status. Both are
	// nil if it has been answered.
	Accept func(b *task.Batch) error
	Refuse func(b *task.Batch, status int)
}

// maxTries bounds how many endpoints one connection tries.
const maxTries = 3

var (
	errDenied  = errors.New("policy does not allow it any more")
	errRefused = errors.New("not forwarded")
)

// Forward carries one connection to its end.
func (fw *Forwarder) Forward(t *task.Task, in *Inbound) {
	in.Stream.SetWaker(t)
	c := &connection{fw: fw, in: in, f: in.Flow}
	c.f.Service, c.f.Port = in.Dest.Service(), in.Dest.Dialled.Port()
	fw.opts.Observer.Start(c.f)
	defer c.done(t)
	if c.admit(t.Batch()) && c.connect(t) && c.accept(t.Batch()) {
		c.relay(t)
	}
}

// Recheck has every open connection look whether policy still allows it.
func (fw *Forwarder) Recheck(b *task.Batch) { fw.open.Wake(b) }

// Open returns the number of connections being carried.
func (fw *Forwarder) Open() int { return fw.open.len() }

// connection is one connection on its way. It belongs to its task.
type connection struct {
	fw      *Forwarder
	in      *Inbound
	f       *flow.Flow
	snap    *mesh.Snapshot // that policy was asked with last
	round   uint64         // of the registry, when progress was reported last
	up      task.Stream
	load    *mesh.Load
	relayed task.Relay
}

// done lets go of the connection and reports it, whatever happened to it.
func (c *connection) done(t *task.Task) {
	c.in.Stream.Done(t.Batch())
	if c.up != nil {
		c.up.Done(t.Batch())
		c.load.InFlight.Add(-1)
	}
	c.count()
	c.f.Duration = time.Since(c.f.Start)
	c.fw.opts.Observer.Done(c.f)
}

func (c *connection) count() { c.f.Received, c.f.Sent = c.relayed.Received, c.relayed.Sent }

// refuse ends a connection that goes nowhere, and returns false.
func (c *connection) refuse(b *task.Batch, status int, flags flow.Flags, details string) bool {
	c.f.Flags |= flags
	c.f.Details = details
	if c.in.Refuse == nil { // the CONNECT has its 200 already
		c.in.Stream.Abort(b, errRefused)
		return false
	}
	c.f.Status = status
	c.in.Refuse(b, status)
	return false
}

// admit asks policy, as it is now: what the stream carries may have taken a while
// to find out.
func (c *connection) admit(b *task.Batch) bool {
	c.snap = c.fw.opts.Store.Load()
	dest, err := c.in.Resolve(c.snap)
	if err != nil {
		return c.refuse(b, http.StatusNotFound, flow.NoRoute, destinationGone(err))
	}
	c.in.Dest = dest
	d := decide.Connection(&c.in.Dest, &c.in.Caller)
	c.f.Policy = d.Policy
	for _, try := range d.DryRun {
		c.f.DryRun = append(c.f.DryRun, flow.DryRun(try))
	}
	if !d.Allowed {
		return c.refuse(b, http.StatusForbidden, 0, d.Details)
	}
	return true
}

// connect finds an endpoint that can be reached.
func (c *connection) connect(t *task.Task) bool {
	if ep := c.in.Dest.Endpoint; ep != nil {
		err := c.dial(t, ep)
		return err == nil || c.unreachable(t.Batch())
	}
	v := c.choose()
	if v.Reply != nil {
		return c.refuse(t.Batch(), http.StatusServiceUnavailable, v.Reply.Flags, v.Reply.Details)
	}
	if v.Rule != nil {
		c.f.RouteName = v.Rule.Route
	}
	var tried []*mesh.Endpoint
	for range min(maxTries, max(1, len(v.Port.Endpoints))) {
		ep, err := upstream.Pick(v.Port, c.snap.Gateway.Locality, tried)
		if err != nil {
			return c.refuse(t.Batch(), http.StatusServiceUnavailable, flow.NoHealthyUpstream, "no_healthy_upstream")
		}
		if c.dial(t, ep) == nil {
			return true
		}
		c.f.Retries++
		tried = append(tried, ep)
	}
	c.f.Retries--
	return c.unreachable(t.Batch())
}

func (c *connection) choose() decide.Verdict {
	if c.in.TLS {
		return decide.TLS(c.snap, &c.in.Dest, &c.in.Caller, rand.Uint32())
	}
	return decide.TCP(c.snap, &c.in.Dest, &c.in.Caller, rand.Uint32())
}

func (c *connection) unreachable(b *task.Batch) bool {
	return c.refuse(b, http.StatusServiceUnavailable, flow.UpstreamFailure, "upstream_connection_failure")
}

func (c *connection) dial(t *task.Task, ep *mesh.Endpoint) error {
	c.f.Destination, c.f.Endpoint = ep.Workload.Telemetry, ep.Addr
	ep.Load.InFlight.Add(1)
	up, err := c.fw.opts.Dial(t, ep, c.f)
	if err != nil {
		ep.Load.InFlight.Add(-1)
		c.f.UpstreamFailure = err.Error()
		return err
	}
	c.f.UpstreamFailure = ""
	c.up, c.load = up, ep.Load
	return nil
}

func (c *connection) accept(b *task.Batch) bool {
	if c.in.Accept == nil {
		return true
	}
	if err := c.in.Accept(b); err != nil {
		c.f.Flags |= flow.DownstreamClosed
		c.f.Details = "downstream_remote_disconnect"
		c.up.Abort(b, err)
		return false
	}
	return true
}

// relay copies until both sides have ended.
func (c *connection) relay(t *task.Task) {
	c.round = c.fw.open.add(t)
	defer c.fw.open.remove(t)
	c.relayed = task.Relay{Down: c.in.Stream, Up: c.up, Idle: c.fw.opts.IdleTimeout, Check: c.check}
	err := c.relayed.Run(t)
	if err == nil {
		return
	}
	c.classify(err)
	b := t.Batch()
	c.in.Stream.Abort(b, err)
	c.up.Abort(b, err)
}

// check is asked on every wake: it reports progress now and then, and asks policy
// again when the configuration has changed.
func (c *connection) check() error {
	if round := c.fw.open.round.Load(); round != c.round {
		c.round = round
		c.count()
		c.f.Duration = time.Since(c.f.Start)
		c.fw.opts.Observer.Progress(c.f)
	}
	snap := c.fw.opts.Store.Load()
	if snap == c.snap {
		return nil
	}
	c.snap = snap
	dest, err := c.in.Resolve(snap)
	if err != nil {
		return err
	}
	if d := decide.Connection(&dest, &c.in.Caller); !d.Allowed {
		c.f.Policy = d.Policy
		return errDenied
	}
	return nil
}

func destinationGone(err error) string { return "destination_gone: " + err.Error() }

// classify says in the record how a relay broke.
func (c *connection) classify(err error) {
	var broke *task.RelayError
	switch {
	case errors.Is(err, errDenied):
		c.f.Details = "rbac_access_denied_late"
	case errors.Is(err, task.ErrIdle):
		c.f.Flags |= flow.StreamIdleTimeout
		c.f.Details = "idle_timeout"
	case !errors.As(err, &broke):
		c.f.Details = destinationGone(err)
	case broke.Upstream:
		c.f.Flags |= flow.UpstreamClosed
		c.f.Details = "upstream_reset"
		c.f.UpstreamFailure = broke.Err.Error()
	default:
		c.f.Flags |= flow.DownstreamClosed
		c.f.Details = "downstream_remote_disconnect"
	}
}
