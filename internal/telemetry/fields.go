package telemetry

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// style says how a value is written as text. As JSON a number is a number and the
// others are strings.
type style uint8

const (
	bare    style = iota // as it is
	opening              // bare, after the quote that opens the request line
	closing              // bare, before the quote that closes it
	quoted
	bracketed
	number
)

// value is one value of a field, which is either a number or a string. It may be
// only a view, in scratch.
type value struct {
	text   string // empty: "-" as text, null in JSON
	number int64
}

// field is one field of the access log. The order of the list is that of the line.
type field struct {
	key   string // in JSON
	style style
	doc   string
	get   func(f *flow.Flow, s *scratch) value
}

// scratch is what values are built in, one per line that is being written.
type scratch struct {
	line  []byte
	value []byte // of the field at hand
}

// use returns what was appended to value as a string that lives until the next.
func (s *scratch) use(b []byte) value {
	s.value = b
	return value{text: unsafe.String(unsafe.SliceData(b), len(b))}
}

// fields are those of Istio's default format, in its order, and then ours.
var fields = []field{
	{"start_time", bracketed, "when it began, UTC, RFC 3339 with milliseconds", func(f *flow.Flow, s *scratch) value {
		return s.use(appendTime(s.value[:0], f.Start))
	}},
	{"method", opening, "method of the request", func(f *flow.Flow, _ *scratch) value { return value{text: f.Method} }},
	{"path", bare, "path and query as the client sent them, normalised", func(f *flow.Flow, _ *scratch) value { return value{text: f.Path} }},
	{"protocol", closing, "protocol of the client: HTTP/1.0, HTTP/1.1 or HTTP/2", func(f *flow.Flow, _ *scratch) value { return value{text: f.Protocol} }},
	{"response_code", number, "status sent to the client; 0: none, or TCP", func(f *flow.Flow, _ *scratch) value { return value{number: int64(f.Status)} }},
	{"response_flags", bare, "what went wrong, in Envoy's letters", func(f *flow.Flow, s *scratch) value {
		if f.Flags&^flow.Unauthorized == 0 { // a refusal by policy has no letters
			return value{}
		}
		return s.use(f.Flags.Append(s.value[:0]))
	}},
	{"response_code_details", bare, "why the request got its response", func(f *flow.Flow, _ *scratch) value { return detailsOf(f, f.Kind != flow.TCP) }},
	{"connection_termination_details", bare, "why the TCP connection ended as it did", func(f *flow.Flow, _ *scratch) value { return detailsOf(f, f.Kind == flow.TCP) }},
	{"upstream_transport_failure_reason", quoted, "why there was no connection to the endpoint", func(f *flow.Flow, _ *scratch) value { return value{text: f.UpstreamFailure} }},
	{"bytes_received", number, "bytes from the client", func(f *flow.Flow, _ *scratch) value { return value{number: f.Received} }},
	{"bytes_sent", number, "bytes to the client", func(f *flow.Flow, _ *scratch) value { return value{number: f.Sent} }},
	{"duration", number, "milliseconds from the first byte to the last", func(f *flow.Flow, _ *scratch) value { return value{number: f.Duration.Milliseconds()} }},
	{"upstream_service_time", bare, "milliseconds until the head of the endpoint's response", func(f *flow.Flow, s *scratch) value {
		if f.UpstreamTime <= 0 {
			return value{}
		}
		return s.use(strconv.AppendInt(s.value[:0], f.UpstreamTime.Milliseconds(), 10))
	}},
	{"x_forwarded_for", quoted, "x-forwarded-for of the request", func(f *flow.Flow, _ *scratch) value { return value{text: f.ForwardedFor} }},
	{"user_agent", quoted, "user-agent of the request", func(f *flow.Flow, _ *scratch) value { return value{text: f.UserAgent} }},
	{"request_id", quoted, "x-request-id", func(f *flow.Flow, _ *scratch) value { return value{text: f.RequestID} }},
	{"authority", quoted, "host or :authority of the request", func(f *flow.Flow, _ *scratch) value { return value{text: f.Authority} }},
	{"upstream_host", quoted, "address and port of the endpoint that was chosen", func(f *flow.Flow, s *scratch) value { return s.addr(f.Endpoint) }},
	{"upstream_cluster", bare, "the destination service as Istio's waypoints name it: inbound-vip|PORT|http or tcp|HOST", func(f *flow.Flow, s *scratch) value {
		if f.Service == nil {
			return value{}
		}
		return s.use(appendCluster(s.value[:0], f))
	}},
	{"upstream_local_address", bare, "our end of the connection to the endpoint", func(f *flow.Flow, s *scratch) value { return s.addr(f.UpstreamLocal) }},
	{"downstream_local_address", bare, "what the client called: the target of its CONNECT", func(f *flow.Flow, _ *scratch) value { return value{text: f.Target} }},
	{"downstream_remote_address", bare, "the client's address and port", func(f *flow.Flow, s *scratch) value { return s.addr(f.PeerAddr) }},
	{"requested_server_name", bare, "SNI of a TLS connection that was passed through", func(f *flow.Flow, _ *scratch) value { return value{text: f.SNI} }},
	{"route_name", bare, "the route and rule that matched", func(f *flow.Flow, _ *scratch) value { return value{text: f.RouteName} }},

	{"source_principal", bare, "the client's identity, from its certificate", func(f *flow.Flow, s *scratch) value { return s.use(appendID(s.value[:0], f.Peer)) }},
	{"trace_id", bare, "trace of the request", func(f *flow.Flow, s *scratch) value {
		if f.Trace.TraceID == [16]byte{} {
			return value{}
		}
		return s.use(hex.AppendEncode(s.value[:0], f.Trace.TraceID[:]))
	}},
	{"policy", bare, "the AuthorizationPolicy that decided", func(f *flow.Flow, _ *scratch) value { return value{text: f.Policy} }},
}

// jsonFields follow in JSON, where a further field breaks nobody's parser.
var jsonFields = []field{
	{"destination_service", bare, "host name of the destination service", func(f *flow.Flow, _ *scratch) value {
		if f.Service == nil {
			return value{}
		}
		return value{text: f.Service.Host}
	}},
	{"source_workload", bare, "name of the client's workload", func(f *flow.Flow, _ *scratch) value { return nameOf(f.Source) }},
	{"destination_workload", bare, "name of the endpoint's workload", func(f *flow.Flow, _ *scratch) value { return nameOf(f.Destination) }},
	{"grpc_status", bare, "grpc-status of the response", func(f *flow.Flow, _ *scratch) value { return value{text: f.GRPCStatus} }},
	{"retries", number, "further attempts", func(f *flow.Flow, _ *scratch) value { return value{number: int64(f.Retries)} }},
	{"dry_run", bare, "what policies that are only tried would have decided: NAMESPACE/NAME=allowed or =denied, joined by commas", func(f *flow.Flow, s *scratch) value {
		return s.use(appendDryRun(s.value[:0], f.DryRun))
	}},
}

func detailsOf(f *flow.Flow, applies bool) value {
	if !applies {
		return value{}
	}
	return value{text: f.Details}
}

func nameOf(w *flow.Workload) value {
	if w == nil {
		return value{}
	}
	return value{text: w.Name}
}

func (s *scratch) addr(a netip.AddrPort) value {
	if !a.IsValid() {
		return value{}
	}
	return s.use(a.AppendTo(s.value[:0]))
}

// appendTime appends RFC 3339 with milliseconds. The library has a fast path for
// the layout without them alone.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	b = t.AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

func appendID(b []byte, id flow.ID) []byte {
	if id.IsZero() {
		return b
	}
	b = append(append(b, "spiffe://"...), id.TrustDomain...)
	b = append(append(b, "/ns/"...), id.Namespace...)
	return append(append(b, "/sa/"...), id.ServiceAccount...)
}

func appendCluster(b []byte, f *flow.Flow) []byte {
	b = append(b, "inbound-vip|"...)
	b = strconv.AppendUint(b, uint64(f.Port), 10)
	if f.Kind == flow.TCP {
		b = append(b, "|tcp|"...)
	} else {
		b = append(b, "|http|"...)
	}
	return append(b, f.Service.Host...)
}

func appendDryRun(b []byte, verdicts []flow.DryRun) []byte {
	for i, v := range verdicts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v.Policy...)
		if v.Allowed {
			b = append(b, "=allowed"...)
		} else {
			b = append(b, "=denied"...)
		}
	}
	return b
}
