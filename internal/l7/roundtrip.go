package l7

import (
	"errors"
	"io"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// forward sends the request to an endpoint, again if that is safe or asked for,
// and passes the response on.
func (e *exchange) forward() {
	e.replay.on = e.retryPolicy() != nil || e.speaksHTTP2() || e.flow.Kind == flow.GRPC
	for {
		f := e.attempt()
		if f == nil {
			return
		}
		if !e.retry(f) {
			e.fail(f)
			return
		}
	}
}

// attempt makes one try. A failure is returned as long as nothing of a response
// has gone downstream; after that the exchange is over either way.
func (e *exchange) attempt() *failure {
	e.attempts++
	e.interims = 0
	if f := e.connect(); f != nil {
		return f
	}
	e.requested = e.req.upgrade != "" // what follows is the endpoint's to ask for
	f := e.pump()
	switch {
	case f != nil && e.responded:
		e.breakOff(f)
		return nil
	case f != nil:
		e.finishAttempt(e.requested && !e.cutShort && f.answered && e.skipResponse())
		return f
	case e.res.status == 101:
		e.relay()
		return nil
	}
	e.finishAttempt(e.requested && !e.cutShort)
	return nil
}

// skipResponse drops what has arrived of a response that is not passed on, and
// reports whether that was all of it.
func (e *exchange) skipResponse() bool {
	b := e.t.Batch()
	for {
		p, err := e.up.next(b)
		if len(p) == 0 {
			return errors.Is(err, io.EOF)
		}
		e.up.consume(b, len(p))
	}
}

// finishAttempt gives the endpoint's side back.
func (e *exchange) finishAttempt(whole bool) {
	e.up.release(e.t.Batch(), whole)
	e.up = nil
	e.endpoint.Load.InFlight.Add(-1)
}

// breakOff ends an exchange whose response has begun: the client must not take
// for complete what is not.
func (e *exchange) breakOff(f *failure) {
	if f.reply != nil {
		e.recordFailure(f)
		e.down.abort(e.t.Batch())
	}
	e.finishAttempt(false)
}

// pump moves both bodies, each as it arrives, until the response is complete: a
// response may come before the end of the request, and the two may be a dialogue.
func (e *exchange) pump() *failure {
	for {
		b := e.t.Batch()
		if err := e.down.broken(); err != nil {
			return e.clientGone()
		}
		if f := e.pumpRequest(b); f != nil {
			return f
		}
		done, f := e.pumpResponse(b)
		if done || f != nil {
			return f
		}
		if err := e.flush(b); err != nil {
			return e.clientGone()
		}
		if err := e.t.Park(); err != nil {
			return e.timeout(err)
		}
		e.progress()
	}
}

// flush hands on what the two writers hold. An endpoint that takes nothing any
// more is heard of by reading: its response may be there.
func (e *exchange) flush(b *task.Batch) error {
	if _, err := e.up.flush(b); err != nil {
		e.requested, e.cutShort = true, true
	}
	_, err := e.down.flush(b)
	return err
}

// pumpRequest moves what there is of the request's body.
func (e *exchange) pumpRequest(b *task.Batch) *failure {
	if !e.requested && !e.pumpReplay(b) {
		return nil
	}
	for !e.requested {
		p, err := e.down.next(b)
		switch {
		case len(p) > 0:
			n, err := e.up.send(b, p)
			e.took(b, p[:n])
			if err != nil {
				return e.stopSending(err)
			}
			if n < len(p) {
				return nil
			}
		case err == nil:
			return nil
		case errors.Is(err, io.EOF):
			done, err := e.up.finish(b, e.down.trailers())
			if err != nil {
				return e.stopSending(err)
			}
			if !done {
				return nil
			}
			e.requested = true
			e.startMirrors()
		default:
			return e.badBody(err)
		}
	}
	return nil
}

// took accounts for body bytes that went upstream, and drops them.
func (e *exchange) took(b *task.Batch, p []byte) {
	e.replay.keep(p)
	e.mirrors.tee(p)
	e.flow.Received += int64(len(p))
	if e.flow.Kind == flow.GRPC {
		e.received.count(p)
	}
	e.down.consume(b, len(p))
}

// stopSending gives up sending the request. If the endpoint is why, it may have
// answered already, so its response is still read; a body that contradicts its
// length is the client's fault.
func (e *exchange) stopSending(err error) *failure {
	if errors.Is(err, errBodyTooLong) || errors.Is(err, errBodyTooShort) {
		return e.badBody(err)
	}
	e.requested, e.cutShort = true, true
	return nil
}

// pumpResponse moves what there is of the response, and reports whether that was
// all of it.
func (e *exchange) pumpResponse(b *task.Batch) (done bool, f *failure) {
	if !e.responded {
		if ok, f := e.pumpHead(b); !ok || f != nil {
			return false, f
		}
		if e.res.status == 101 {
			return true, nil
		}
	}
	for {
		p, err := e.up.next(b)
		switch {
		case len(p) > 0:
			n, err := e.down.send(b, p)
			e.flow.Sent += int64(n)
			if e.flow.Kind == flow.GRPC {
				e.sent.count(p[:n])
			}
			e.up.consume(b, n)
			if err != nil {
				return false, e.badResponseBody(err)
			}
			if n < len(p) {
				return false, nil
			}
		case err == nil:
			return false, nil
		case errors.Is(err, io.EOF):
			return e.finishResponse(b)
		default:
			return false, e.upFailure(err)
		}
	}
}

func (e *exchange) finishResponse(b *task.Batch) (bool, *failure) {
	trailers := e.up.trailers()
	for i := range trailers {
		if trailers[i].Name == "grpc-status" {
			e.flow.GRPCStatus = trailers[i].Value
		}
	}
	done, err := e.down.finish(b, trailers)
	if err != nil {
		return false, e.badResponseBody(err)
	}
	return done, nil
}

// maxInterims bounds the interim responses to one request: each is passed on.
const maxInterims = 100

var errTooManyInterims = errors.New("the endpoint sends interim responses without end")

// pumpHead reads heads until the final one, and passes them on.
func (e *exchange) pumpHead(b *task.Batch) (bool, *failure) {
	for {
		ok, err := e.up.responseHead(b, &e.req, &e.res)
		if err != nil {
			return false, e.upFailure(err)
		}
		if !ok {
			return false, nil
		}
		if !e.res.interim() {
			break
		}
		if e.interims++; e.interims > maxInterims {
			return false, &failure{reply: &upstreamInvalid, err: errTooManyInterims}
		}
		if err := e.down.interim(b, &e.res); err != nil {
			return false, e.clientGone()
		}
	}
	e.flow.UpstreamTime, e.flow.Details = time.Since(e.flow.Start), "via_upstream"
	if e.wantsRetry() {
		return false, &failure{reply: &tooLate, answered: true} // the reply: if time is up before the next attempt
	}
	e.replay.release()
	e.filterResponse()
	return true, e.respond(b)
}

// respond sends the head in e.res.
func (e *exchange) respond(b *task.Batch) *failure {
	e.responded = true
	if e.fw.draining.Load() || task.GoingAway(e.in.Stream) {
		e.h1down.close = true // of HTTP/2 the connection says so
	}
	e.flow.Status = e.res.status
	if v, ok := e.res.Lookup("grpc-status"); ok {
		e.flow.GRPCStatus = v
	}
	if err := e.down.respond(b, &e.req, &e.res); err != nil {
		return e.clientGone()
	}
	return nil
}
