package l7

import (
	"errors"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// connect chooses an endpoint and gets a connection to it.
func (e *exchange) connect() *failure {
	ep, err := e.pick()
	if err != nil {
		return &failure{reply: &noEndpoint, final: true}
	}
	e.endpoint = ep
	e.tried = append(e.tried, ep)
	e.flow.Destination, e.flow.Endpoint = ep.Workload.Telemetry, ep.Addr
	e.startTry()
	ep.Load.InFlight.Add(1)
	f := e.open(ep)
	if f != nil {
		ep.Load.InFlight.Add(-1)
	}
	return f
}

// pick chooses among the endpoints, one that was not tried yet if there is one.
func (e *exchange) pick() (*mesh.Endpoint, error) {
	if e.verdict.Port == nil {
		return e.dest.Endpoint, nil // a workload's own address
	}
	return upstream.Pick(e.verdict.Port, e.snap.Gateway.Locality, e.tried)
}

// choices is how many endpoints there are to choose from.
func (e *exchange) choices() int {
	if e.verdict.Port == nil {
		return 1
	}
	return len(e.verdict.Port.Endpoints)
}

// open takes an idle connection or makes one, and sets e.up.
func (e *exchange) open(ep *mesh.Endpoint) *failure {
	if e.speaksHTTP2() {
		return e.openH2(ep)
	}
	key := upstream.KeyOf(ep)
	if !e.fresh {
		if c, ok := e.fw.takeIdle(e.t.Batch(), key, e.t); ok {
			e.useH1(c)
			return nil
		}
	}
	era := e.fw.era.Load()
	stream, err := e.fw.opts.Dial(e.t, ep)
	if err != nil {
		return e.dialFailure(err)
	}
	stream.SetWaker(e.t)
	e.armDeadline()
	e.useH1(&h1Conn{fw: e.fw, key: key, stream: stream, era: era})
	return nil
}

// useH1 sends the head of the request on c.
func (e *exchange) useH1(c *h1Conn) {
	e.h1up.reset(c)
	e.h1up.start(&e.req)
	e.up = &e.h1up
}

// dialFailure is an endpoint that could not be reached: nothing of the request
// was sent.
func (e *exchange) dialFailure(err error) *failure {
	if errors.Is(err, task.ErrDeadline) {
		return e.timeout(err)
	}
	e.armDeadline()
	f := &failure{reply: &connectFailure, err: err, unprocessed: true}
	if busy(err) {
		f.reply = &overflow
	}
	return f
}

// busy reports whether the endpoint was not tried for want of room.
func busy(err error) bool {
	if tunnel, ok := errors.AsType[*hbone.OpenError](err); ok {
		return tunnel.Failure == hbone.Busy
	}
	plain, ok := errors.AsType[*upstream.DialError](err)
	return ok && plain.Busy
}

// setTimeouts starts the clocks of the rule and of gRPC.
func (e *exchange) setTimeouts() {
	limit := time.Duration(0)
	if r := e.verdict.Rule; r != nil {
		limit = r.Timeouts.Request
	}
	if v := e.req.Get("grpc-timeout"); v != "" {
		if d, ok := grpcTimeout(v); ok && (limit == 0 || d < limit) {
			limit = d
		}
	}
	if limit > 0 {
		e.deadline = e.flow.Start.Add(limit)
	}
}

// startTry starts the clock of one attempt.
func (e *exchange) startTry() {
	e.tryDeadline = time.Time{}
	if r := e.verdict.Rule; r != nil && r.Timeouts.BackendRequest > 0 {
		e.tryDeadline = time.Now().Add(r.Timeouts.BackendRequest)
	}
	e.armDeadline()
}

// armDeadline sets the task's deadline to the earlier of the two. Without any,
// which is usual, it costs nothing.
func (e *exchange) armDeadline() {
	at := e.deadline
	if !e.tryDeadline.IsZero() && (at.IsZero() || e.tryDeadline.Before(at)) {
		at = e.tryDeadline
	}
	e.t.SetDeadline(at)
}

// timeIsUp reports whether the deadline of the whole exchange has passed.
func (e *exchange) timeIsUp() bool { return !e.deadline.IsZero() && !time.Now().Before(e.deadline) }
