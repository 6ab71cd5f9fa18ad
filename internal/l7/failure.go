package l7

import (
	"errors"
	"io"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// failure is why an attempt has failed, and whether another may be made.
type failure struct {
	*answer
	err error
	// unprocessed: nothing of the request has reached an application.
	unprocessed bool
	// stale: the connection had been used before and ended without a byte of a
	// response.
	stale bool
	// code is the status that the endpoint answered with, if that is why.
	code int
	// timeout: the attempt took too long, not the exchange.
	timeout bool
	// ours: the client is the cause, or nobody is left to answer; no retry.
	final bool
}

// errDownstream: the client has gone.
var errDownstream = errors.New("the client has gone")

// clientGone ends an exchange that nobody waits for any more.
func (e *exchange) clientGone(err error) *failure {
	e.flow.Flags |= flow.DownstreamClosed
	e.flow.Details = "downstream_remote_disconnect"
	if !e.responded {
		e.responded = true // there is nobody to answer
	}
	e.down.abort(e.t.Batch(), err)
	return &failure{answer: &answer{details: e.flow.Details}, err: errDownstream, final: true}
}

// badBody is a request body that is malformed or broken off.
func (e *exchange) badBody(err error) *failure {
	var fault *h1.Error
	if errors.As(err, &fault) || errors.Is(err, errBodyTooLong) || errors.Is(err, errBodyTooShort) {
		return &failure{answer: &answerBadBody, err: err, final: true}
	}
	return e.clientGone(err)
}

// badResponseBody is a response body that downstream did not take: the client is
// gone, or the body contradicts its length.
func (e *exchange) badResponseBody(err error) *failure {
	if errors.Is(err, errBodyTooLong) || errors.Is(err, errBodyTooShort) {
		return &failure{answer: &answerProtocol, err: err}
	}
	return e.clientGone(err)
}

// timeout tells whose deadline has passed.
func (e *exchange) timeout(err error) *failure {
	switch {
	case !errors.Is(err, task.ErrDeadline):
		return &failure{answer: &answerClosed, err: err, final: true}
	case e.timeIsUp():
		return &failure{answer: &answerTimeout, err: err, final: true}
	}
	return &failure{answer: &answerTryTimeout, err: err, timeout: true}
}

// upFailure is an endpoint that broke off, or sent what is not HTTP.
func (e *exchange) upFailure(err error) *failure {
	f := &failure{answer: &answerClosed, err: err, stale: e.up.stale()}
	var fault *h1.Error
	var stream *h2.StreamError
	switch {
	case errors.As(err, &fault):
		f.answer = &answerProtocol
		if fault == h1.ErrTooLarge || fault == h1.ErrTooMany {
			f.answer = &answerResponseLarge
		}
		f.stale = false
	case errors.As(err, &stream):
		f.unprocessed = stream.Unprocessed
		f.answer = &answerReset
		if !stream.Remote {
			f.answer = &answerProtocol
		}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
	}
	return f
}
