package l7

import (
	"net/http"
	"strconv"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
)

// answer is a response of our own. Its body names nothing that the client does
// not know: the reason is in log, trace and explain.
type answer struct {
	status  int
	grpc    int // grpc-status, for gRPC requests
	flags   flow.Flags
	details string // response code details
	body    string // also grpc-message
}

// The status codes of gRPC that we answer with.
const (
	grpcInvalid     = 3  // INVALID_ARGUMENT
	grpcDeadline    = 4  // DEADLINE_EXCEEDED
	grpcExhausted   = 8  // RESOURCE_EXHAUSTED
	grpcInternal    = 13 // INTERNAL
	grpcUnavailable = 14 // UNAVAILABLE
)

// What happens on the way, apart from what package decide says of a request.
var (
	answerHeadTimeout   = answer{408, grpcDeadline, flow.DownstreamProtocolErr, "request_header_timeout", "request timeout"}
	answerTimeout       = answer{504, grpcDeadline, flow.UpstreamTimeout, "response_timeout", "upstream request timeout"}
	answerTryTimeout    = answer{504, grpcDeadline, flow.UpstreamTimeout, "upstream_per_try_timeout", "upstream request timeout"}
	answerNoEndpoint    = answer{503, grpcUnavailable, flow.NoHealthyUpstream, "no_healthy_upstream", "no healthy upstream"}
	answerConnect       = answer{503, grpcUnavailable, flow.UpstreamFailure, "upstream_connection_failure", "upstream connection failure"}
	answerOverflow      = answer{503, grpcUnavailable, flow.UpstreamOverflow, "upstream_overflow", "upstream overloaded"}
	answerClosed        = answer{503, grpcUnavailable, flow.UpstreamClosed, "upstream_reset_before_response_started{connection_termination}", "upstream connection closed"}
	answerReset         = answer{503, grpcUnavailable, flow.UpstreamReset, "upstream_reset_before_response_started{remote_reset}", "upstream reset"}
	answerProtocol      = answer{502, grpcUnavailable, flow.UpstreamProtocolError, "upstream_reset_before_response_started{protocol_error}", "upstream protocol error"}
	answerResponseLarge = answer{502, grpcUnavailable, flow.UpstreamProtocolError | flow.ResponseTooLarge, "response_headers_too_large", "upstream response header too large"}
	answerBadBody       = answer{400, grpcInvalid, flow.DownstreamProtocolErr, "malformed_request_body", "bad request"}
	answerBadPath       = answer{400, grpcInvalid, flow.DownstreamProtocolErr, "malformed_path", "bad request"}
	answerBadHead       = answer{400, grpcInvalid, flow.DownstreamProtocolErr, "malformed_request", "bad request"}
	answerTooLarge      = answer{431, grpcExhausted, flow.RequestHeadersTooLarge, "request_headers_too_large", "request header too large"}
)

// badRequest is the answer to a head that the codec refused.
func badRequest(fault *h1.Error) *answer {
	a := answer{status: fault.Status, grpc: grpcInvalid, flags: flow.DownstreamProtocolErr, details: fault.Details, body: "bad request"}
	if fault.Status == http.StatusRequestHeaderFieldsTooLarge {
		a = answerTooLarge
		a.details = fault.Details
	}
	return &a
}

// answer sends a response of our own.
func (e *exchange) answer(a *answer) {
	e.flow.Flags |= a.flags
	e.flow.Details = a.details
	e.skipBody()
	res := &e.res
	res.reset()
	res.local = true
	if e.flow.Kind == flow.GRPC {
		e.grpcHead(a)
	} else {
		e.textHead(a)
	}
	e.signOwn()
	e.respondLocal(a.body)
}

// signOwn marks the response in e.res as ours.
func (e *exchange) signOwn() {
	e.res.Add("date", httpDate())
	e.res.Add("server", "waypoint")
}

func (e *exchange) textHead(a *answer) {
	res := &e.res
	res.status, res.length, res.hasBody = a.status, int64(len(a.body)), a.body != ""
	if res.hasBody {
		res.Add("content-type", "text/plain")
	}
}

// grpcHead makes a trailers-only response (PROTOCOL-HTTP2, "Responses").
func (e *exchange) grpcHead(a *answer) {
	res := &e.res
	res.status = http.StatusOK
	start := len(e.arena.buf)
	e.arena.buf = strconv.AppendInt(e.arena.buf, int64(a.grpc), 10)
	res.Add("content-type", "application/grpc")
	res.Add("grpc-status", e.arena.since(start))
	res.Add("grpc-message", a.body) // our texts need no percent-encoding
}

// respondLocal sends e.res and its body to the end.
func (e *exchange) respondLocal(text string) {
	if f := e.respond(e.t.Batch()); f != nil {
		return
	}
	var body []byte
	if e.res.hasBody && e.req.method != http.MethodHead {
		body = []byte(text)
	}
	for {
		b := e.t.Batch()
		n, err := e.down.send(b, body)
		e.flow.Sent += int64(n)
		body = body[n:]
		done := false
		if err == nil && len(body) == 0 {
			done, err = e.down.finish(b, nil)
		}
		if err != nil {
			e.clientGone(err)
			return
		}
		if done {
			return
		}
		if err := e.t.Park(); err != nil {
			e.down.abort(e.t.Batch(), err)
			return
		}
	}
}

// skipBody drops what has arrived of a body that nobody reads, so that a
// connection can be used again whose small body is at hand.
func (e *exchange) skipBody() {
	b := e.t.Batch()
	for {
		p, _ := e.down.next(b)
		if len(p) == 0 {
			return
		}
		e.flow.Received += int64(len(p))
		e.down.consume(b, len(p))
	}
}

// httpDate returns the time for a Date field.
func httpDate() string { return time.Now().UTC().Format(http.TimeFormat) }
