package l7

import (
	"errors"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// exchange is one request and its response. It is run by one task from head to
// end, and owns all buffers that the exchange needs; exchanges are pooled.
type exchange struct {
	fw *Forwarder
	t  *task.Task
	in *Inbound

	down   downstream // &h1down or &h2down
	h1down h1Down
	h2down h2Down

	up   upstreamSide // &h1up or &h2up; nil between attempts
	h1up h1Up
	h2up h2Up

	req   request // what the client asks for; once filtered, what is sent upstream
	res   response
	flow  flow.Flow
	arena arena

	snap     *mesh.Snapshot
	dest     decide.Destination
	asked    decide.Request
	verdict  decide.Verdict
	endpoint *mesh.Endpoint // of this attempt

	path      string // normalised; once filtered, what is sent upstream
	query     string
	responded bool      // the head of the final response went downstream
	requested bool      // nothing of the request is left to be sent
	cutShort  bool      // and that is because the endpoint took no more
	fresh     bool      // an idle connection is not to be trusted
	server    *h2Server // of an exchange on an HTTP/2 stream

	deadline    time.Time // of the whole exchange; zero: none
	tryDeadline time.Time // of the attempt; zero: none
	tried       []*mesh.Endpoint
	attempts    int
	interims    int       // 1xx responses of this attempt
	progressed  time.Time // when the observer last heard of it
	unobserved  bool      // a copy, of which nobody hears
	replay      replay
	mirrors     mirrors
	sent        grpcCounter // messages downstream
	received    grpcCounter // messages from downstream
}

var exchanges = sync.Pool{New: func() any {
	e := new(exchange)
	e.reset()
	return e
}}

func newExchange(fw *Forwarder, t *task.Task, in *Inbound) *exchange {
	e := exchanges.Get().(*exchange)
	e.fw, e.t, e.in = fw, t, in
	return e
}

// free gives e back. A panic on its way may have left anything in e.
func (e *exchange) free() {
	e.reset()
	e.fw, e.t, e.in, e.server = nil, nil, nil, nil
	e.h2down = h2Down{}
	e.h2up.reset()
	e.h1down.reset(nil)
	e.h1up.reset(nil)
	exchanges.Put(e)
}

// reset makes e ready for another request of the same client.
func (e *exchange) reset() {
	e.down, e.up = nil, nil
	e.req.reset()
	e.res.reset()
	e.flow = flow.Flow{}
	e.arena.reset()
	e.snap, e.endpoint = nil, nil
	e.dest, e.asked, e.verdict = decide.Destination{}, decide.Request{}, decide.Verdict{}
	e.path, e.query = "", ""
	e.responded, e.requested, e.cutShort, e.fresh = false, false, false, false
	e.deadline, e.tryDeadline = time.Time{}, time.Time{}
	clear(e.tried)
	e.tried = e.tried[:0]
	e.attempts, e.unobserved = 0, false
	e.replay.release()
	e.mirrors.reset()
	e.sent, e.received = grpcCounter{}, grpcCounter{}
}

// serveH1 serves one request of an HTTP/1 connection, and reports whether the
// connection can carry another.
func (e *exchange) serveH1() bool {
	d := &e.h1down
	d.reset(e.in.Stream)
	e.reset()
	if err := d.readHead(e.t, e.fw.limits); err != nil {
		return e.refuseHead(err)
	}
	e.down = d
	d.request(&e.req)
	e.flow.Protocol = "HTTP/1.1"
	if d.req.Minor == 0 {
		e.flow.Protocol = "HTTP/1.0"
	}
	e.run()
	return d.reusable(e.t.Batch())
}

// refuseHead deals with what is not a request: the end of the connection, or
// something that is not HTTP.
func (e *exchange) refuseHead(err error) bool {
	var fault *h1.Error
	switch {
	case errors.As(err, &fault):
		e.h1down.close = true
		e.down = &e.h1down
		e.req.method, e.req.authority, e.req.path = e.h1down.req.Method, e.h1down.req.Authority, e.h1down.req.Path
		e.flow.Protocol = "HTTP/1.1"
		e.refuse(badRequest(fault))
	case errors.Is(err, task.ErrDeadline):
		e.h1down.close = true
		e.down = &e.h1down
		e.flow.Protocol = "HTTP/1.1"
		e.refuse(&headTimeout)
	}
	return false
}

// refuse records and answers a request that was not understood.
func (e *exchange) refuse(a *decide.Reply) {
	e.begin()
	e.fw.opts.Observer.Start(&e.flow)
	defer e.end()
	e.answer(a)
}

// run is the exchange: decide, filter, forward, answer.
func (e *exchange) run() {
	e.begin()
	defer e.end()
	if a := e.admit(); a != nil {
		e.answer(a)
		return
	}
	if e.filterRequest() {
		return // a filter has answered
	}
	e.setTimeouts()
	e.forward()
}

// begin opens the record.
func (e *exchange) begin() {
	f, r := &e.flow, &e.req
	if r.authority == "" { // HTTP/1.0 and HTTP/2 may leave it out
		r.authority = e.in.Target
	}
	f.Kind, f.Start = flow.HTTP, time.Now()
	e.progressed = f.Start
	if isGRPC(r) {
		f.Kind = flow.GRPC
	}
	f.Peer, f.PeerAddr, f.Source, f.Target = e.in.Peer, e.in.PeerAddr, e.in.Source, e.in.Target
	f.MutualTLS, f.ConnectionID = true, e.in.ConnectionID
	f.Method, f.Path, f.Authority = r.method, r.path, r.authority
	for i := range r.Fields {
		switch r.Fields[i].Name {
		case "user-agent":
			f.UserAgent = r.Fields[i].Value
		case "x-forwarded-for":
			f.ForwardedFor = r.Fields[i].Value
		case "x-request-id":
			f.RequestID = r.Fields[i].Value
		}
	}
	f.Trace.Extract(r.Fields)
	f.Service, f.Port = e.in.Dest.Service(), e.in.Dest.Dialled.Port()
}

// progressEvery is how often the observer hears of an exchange that goes on.
const progressEvery = 5 * time.Second

// progress tells the observer how far a long exchange has come, if it is time.
func (e *exchange) progress() {
	now := time.Now()
	if e.unobserved || now.Sub(e.progressed) < progressEvery {
		return
	}
	e.progressed = now
	f := &e.flow
	f.Duration = now.Sub(f.Start)
	f.RequestMessages, f.ResponseMessages = e.received.messages, e.sent.messages
	e.fw.opts.Observer.Progress(f)
}

// end closes the record, and whatever a panic has left open.
func (e *exchange) end() {
	if e.up != nil {
		e.finishAttempt(false)
	}
	if !e.responded && e.down != nil {
		e.down.abort(e.t.Batch())
	}
	e.t.SetDeadline(time.Time{})
	f := &e.flow
	f.Duration = time.Since(f.Start)
	f.RequestMessages, f.ResponseMessages = e.received.messages, e.sent.messages
	e.fw.opts.Observer.Done(f)
}
