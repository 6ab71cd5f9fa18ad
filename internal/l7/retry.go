package l7

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

const (
	// safeAttempts is how often a request is sent that provably reached no
	// application: Istio's two retries, and one for a connection that had gone
	// stale in the pool.
	safeAttempts = 4
	// maxReplay bounds the body that is kept to be sent again.
	maxReplay = 64 << 10
	// The pause before another try at an endpoint that may have failed just now.
	minBackoff, maxBackoff = 25 * time.Millisecond, 250 * time.Millisecond
)

// replay keeps the beginning of a request's body while the request may have to
// be sent again.
type replay struct {
	on   bool // body bytes that go upstream are kept
	lost bool // they were more than may be kept
	body []byte
	done int // bytes of body that this attempt has sent
}

// keep stores bytes that went upstream.
func (r *replay) keep(p []byte) {
	switch {
	case !r.on:
		r.lost = true
	case len(r.body)+len(p) > maxReplay:
		r.on, r.lost, r.body = false, true, nil
	default:
		r.body = append(r.body, p...)
		r.done = len(r.body)
	}
}

// release ends the keeping: the request will not be sent again.
func (r *replay) release() {
	if cap(r.body) > 4<<10 {
		r.body = nil
	}
	*r = replay{body: r.body[:0]}
}

// pumpReplay sends again what an earlier attempt has sent, and reports whether
// that is done.
func (e *exchange) pumpReplay(b *task.Batch) bool {
	r := &e.replay
	for r.done < len(r.body) {
		n, err := e.up.send(b, r.body[r.done:])
		r.done += n
		if err != nil {
			e.requested, e.cutShort = true, true
			return false
		}
		if n == 0 {
			return false
		}
	}
	return true
}

// retry decides whether another attempt is made, and waits until it is time.
func (e *exchange) retry(f *failure) bool {
	if f.final || e.replay.lost || !e.mayRetry(f) {
		return false
	}
	e.flow.Retries++
	e.replay.done = 0
	e.requested, e.cutShort = false, false
	return e.pause(f)
}

func (e *exchange) mayRetry(f *failure) bool {
	switch {
	case f.answered:
		return true // wantsRetry has decided that
	case f.unprocessed:
		return e.attempts < safeAttempts
	case f.stale && !e.req.hasBody && (e.req.method == "GET" || e.req.method == "HEAD"):
		e.fresh = true
		return e.attempts < safeAttempts
	}
	p := e.retryPolicy()
	// GEP-1731: besides the listed codes these are connection errors and
	// attempts that took too long.
	return p != nil && e.attempts <= p.Attempts && f.reply.Status != http.StatusBadGateway
}

// fail answers for an attempt that is not repeated.
func (e *exchange) fail(f *failure) {
	if f.reply == nil {
		return
	}
	if e.attempts > 1 && !f.final {
		e.flow.Flags |= flow.RetryLimit
	}
	if e.timeIsUp() { // in the pause before another attempt
		f.reply = &tooLate
	}
	e.recordFailure(f)
	e.answer(f.reply)
}

// retryPolicy returns what the rule says of retries, nil if nothing.
func (e *exchange) retryPolicy() *route.Retry {
	if r := e.verdict.Rule; r != nil {
		return r.Retry
	}
	return nil
}

// wantsRetry reports whether the response is not passed on but asked for again.
func (e *exchange) wantsRetry() bool {
	attempts := grpcAttempts
	if p := e.retryPolicy(); p != nil {
		attempts = p.Attempts
	}
	if attempts == 0 || e.replay.lost || !e.retriable() {
		return false
	}
	if e.attempts > attempts {
		e.flow.Flags |= flow.RetryLimit
		return false
	}
	return true
}

// grpcAttempts is how often a gRPC call is repeated that its server did not take,
// as Istio does by default.
const grpcAttempts = 2

// retriable reports whether the rule names the response's status, or a gRPC
// server says that it did not take the call: UNAVAILABLE or CANCELLED instead of
// a response, not behind one. A server that has begun to answer has acted.
func (e *exchange) retriable() bool {
	if p := e.retryPolicy(); p != nil && slices.Contains(p.Codes, e.res.status) {
		return true
	}
	if e.flow.Kind != flow.GRPC {
		return false
	}
	code, _ := e.res.Lookup("grpc-status")
	return code == "14" || code == "1"
}

// pause waits before the next attempt: not at all for another endpoint or a stale
// connection, else the backoff, doubled each time, with jitter.
func (e *exchange) pause(f *failure) bool {
	least, most := minBackoff, maxBackoff
	if p := e.retryPolicy(); p != nil && p.Backoff > 0 {
		least, most = p.Backoff, 10*p.Backoff
	} else if f.stale || len(e.tried) < e.choices() {
		return true
	}
	d := min(least<<min(e.attempts-1, 6), most)
	d += rand.N(d/4 + 1)
	return e.sleep(d)
}

// sleep parks for d. False: the client has gone, or there is no time left for
// another attempt.
func (e *exchange) sleep(d time.Duration) bool {
	until := time.Now().Add(d)
	if !e.deadline.IsZero() && until.After(e.deadline) {
		until = e.deadline
	}
	e.t.SetDeadline(until)
	for e.t.Park() == nil {
		if e.down.broken() != nil {
			return false
		}
	}
	return !e.timeIsUp()
}
