package l7

import (
	"net/http"
	"strconv"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
)

// The status codes of gRPC that we answer with.
const (
	grpcInvalid     = 3  // INVALID_ARGUMENT
	grpcDeadline    = 4  // DEADLINE_EXCEEDED
	grpcExhausted   = 8  // RESOURCE_EXHAUSTED
	grpcUnavailable = 14 // UNAVAILABLE
)

// What an exchange can end in besides what decide says of the request.
var (
	headTimeout     = decide.Reply{Status: 408, GRPC: grpcDeadline, Flags: flow.DownstreamProtocolErr, Details: "request_header_timeout", Body: "request timeout"}
	badHead         = decide.Reply{Status: 400, GRPC: grpcInvalid, Flags: flow.DownstreamProtocolErr, Details: "malformed_request", Body: "bad request"}
	badPath         = decide.Reply{Status: 400, GRPC: grpcInvalid, Flags: flow.DownstreamProtocolErr, Details: "malformed_path", Body: "bad request"}
	badBody         = decide.Reply{Status: 400, GRPC: grpcInvalid, Flags: flow.DownstreamProtocolErr, Details: "malformed_request_body", Body: "bad request"}
	headTooLarge    = decide.Reply{Status: 431, GRPC: grpcExhausted, Flags: flow.RequestHeadersTooLarge, Details: "request_headers_too_large", Body: "request header too large"}
	connectRefused  = decide.Reply{Status: 405, GRPC: grpcInvalid, Flags: flow.DownstreamProtocolErr, Details: "connect_refused", Body: "method not allowed"}
	destinationGone = decide.Reply{Status: 404, GRPC: grpcUnavailable, Flags: flow.NoRoute, Details: "destination_gone", Body: "not found"}

	noEndpoint       = decide.Reply{Status: 503, GRPC: grpcUnavailable, Flags: flow.NoHealthyUpstream, Details: "no_healthy_upstream", Body: "no healthy upstream"}
	connectFailure   = decide.Reply{Status: 503, GRPC: grpcUnavailable, Flags: flow.UpstreamFailure, Details: "upstream_connection_failure", Body: "upstream connection failure"}
	overflow         = decide.Reply{Status: 503, GRPC: grpcUnavailable, Flags: flow.UpstreamOverflow, Details: "upstream_overflow", Body: "upstream overloaded"}
	upstreamClosed   = decide.Reply{Status: 503, GRPC: grpcUnavailable, Flags: flow.UpstreamClosed, Details: "upstream_reset_before_response_started{connection_termination}", Body: "upstream connection closed"}
	upstreamReset    = decide.Reply{Status: 503, GRPC: grpcUnavailable, Flags: flow.UpstreamReset, Details: "upstream_reset_before_response_started{remote_reset}", Body: "upstream reset"}
	upstreamInvalid  = decide.Reply{Status: 502, GRPC: grpcUnavailable, Flags: flow.UpstreamProtocolError, Details: "upstream_reset_before_response_started{protocol_error}", Body: "upstream protocol error"}
	responseTooLarge = decide.Reply{Status: 502, GRPC: grpcUnavailable, Flags: flow.UpstreamProtocolError | flow.ResponseTooLarge, Details: "response_headers_too_large", Body: "upstream response header too large"}
	noUpgrade        = decide.Reply{Status: 502, GRPC: grpcUnavailable, Flags: flow.UpstreamProtocolError, Details: "upstream_without_extended_connect", Body: "upstream does not upgrade"}
	tooLate          = decide.Reply{Status: 504, GRPC: grpcDeadline, Flags: flow.UpstreamTimeout, Details: "response_timeout", Body: "upstream request timeout"}
	attemptTooLate   = decide.Reply{Status: 504, GRPC: grpcDeadline, Flags: flow.UpstreamTimeout, Details: "upstream_per_try_timeout", Body: "upstream request timeout"}
)

// badRequest is the answer to a head that the codec refused.
func badRequest(fault *h1.Error) *decide.Reply {
	a := badHead
	if fault.Status == http.StatusRequestHeaderFieldsTooLarge {
		a = headTooLarge
	}
	a.Status, a.Details = fault.Status, fault.Details
	return &a
}

// answer sends a response of our own. Its body names nothing that the client does
// not know: the reason is in log, trace and explain.
func (e *exchange) answer(a *decide.Reply) {
	e.flow.Flags |= a.Flags
	e.flow.Details = a.Details
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
	e.respondLocal(a.Body)
}

// signOwn marks the response in e.res as ours.
func (e *exchange) signOwn() {
	e.res.Add("date", httpDate())
	e.res.Add("server", "waypoint")
}

func (e *exchange) textHead(a *decide.Reply) {
	res := &e.res
	res.status, res.length, res.hasBody = a.Status, int64(len(a.Body)), a.Body != ""
	if res.hasBody {
		res.Add("content-type", "text/plain")
	}
}

// grpcHead makes a trailers-only response (PROTOCOL-HTTP2, "Responses").
func (e *exchange) grpcHead(a *decide.Reply) {
	res := &e.res
	res.status = http.StatusOK
	start := len(e.arena.buf)
	e.arena.buf = strconv.AppendInt(e.arena.buf, int64(a.GRPC), 10)
	res.Add("content-type", "application/grpc")
	res.Add("grpc-status", e.arena.since(start))
	res.Add("grpc-message", a.Body) // our texts need no percent-encoding
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
			e.clientGone()
			return
		}
		if done {
			return
		}
		if err := e.t.Park(); err != nil {
			e.down.abort(e.t.Batch())
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
