package l7

import (
	"errors"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// failure is why an attempt has failed, and whether another may be made.
type failure struct {
	reply *decide.Reply // to the client, if this is the end; nil: there is nobody
	err   error         // what went wrong on the endpoint's side, for the record
	// unprocessed: nothing of the request has reached an application.
	unprocessed bool
	// stale: the connection had been used before and ended without a byte of a
	// response.
	stale bool
	// answered: the endpoint has answered, with a status to be retried.
	answered bool
	// final: another attempt would not help, or there is nobody to answer.
	final bool
}

// clientGone ends an exchange that nobody waits for any more. What went wrong
// before stays the reason.
func (e *exchange) clientGone() *failure {
	if e.flow.Flags == 0 {
		e.flow.Flags = flow.DownstreamClosed
		e.flow.Details = "downstream_remote_disconnect"
	}
	e.responded = true // there is nobody to answer
	e.down.abort(e.t.Batch())
	return &failure{final: true}
}

// badBody is a request body that is malformed or broken off.
func (e *exchange) badBody(err error) *failure {
	var fault *h1.Error
	if errors.As(err, &fault) || errors.Is(err, errBodyTooLong) || errors.Is(err, errBodyTooShort) {
		return &failure{reply: &badBody, final: true}
	}
	return e.clientGone()
}

// badResponseBody is a response body that downstream did not take: the client is
// gone, or the body contradicts its length.
func (e *exchange) badResponseBody(err error) *failure {
	if errors.Is(err, errBodyTooLong) || errors.Is(err, errBodyTooShort) {
		return &failure{reply: &upstreamInvalid, err: err}
	}
	return e.clientGone()
}

// timeout tells whose deadline has passed.
func (e *exchange) timeout(err error) *failure {
	switch {
	case !errors.Is(err, task.ErrDeadline):
		return &failure{reply: &upstreamClosed, err: err, final: true}
	case e.timeIsUp():
		return &failure{reply: &tooLate, final: true}
	}
	return &failure{reply: &attemptTooLate}
}

// errResponseTooLarge is what the codec says of requests in other words.
var errResponseTooLarge = errors.New("the response's header or trailers are over a limit")

// upFailure is an endpoint that broke off, or sent what is not HTTP.
func (e *exchange) upFailure(err error) *failure {
	f := &failure{reply: &upstreamClosed, err: err, stale: e.up.stale()}
	var fault *h1.Error
	var stream *h2.StreamError
	var conn *h2.ConnError
	switch {
	case errors.As(err, &fault):
		f.reply = &upstreamInvalid
		if fault == h1.ErrTooLarge || fault == h1.ErrTooMany {
			f.reply, f.err = &responseTooLarge, errResponseTooLarge
		}
		f.stale = false
	case errors.As(err, &stream):
		f.unprocessed = stream.Unprocessed
		f.reply = &upstreamReset
		if !stream.Remote {
			f.reply = &upstreamInvalid
		}
	case errors.As(err, &conn) && !conn.Remote && breaksProtocol(conn.Code):
		f.reply = &upstreamInvalid
	}
	return f
}

// breaksProtocol reports whether a connection that we ended with the code had
// brought what is not HTTP/2.
func breaksProtocol(code h2.ErrCode) bool {
	switch code {
	case h2.ProtocolError, h2.FrameSizeError, h2.FlowControlError, h2.CompressionError:
		return true
	}
	return false
}

// recordFailure puts what ended the exchange on record.
func (e *exchange) recordFailure(f *failure) {
	e.flow.Flags |= f.reply.Flags
	e.flow.Details = f.reply.Details
	if f.err != nil {
		e.flow.UpstreamFailure = f.err.Error()
	}
}
