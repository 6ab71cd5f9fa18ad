package telemetry

import (
	"context"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// flowIDs gives a span the IDs that went upstream while the exchange was going
// on. They come through the context, which is all that the SDK lets through.
type flowIDs struct{}

type flowIDsKey struct{}

// NewIDs implements [sdk.IDGenerator].
func (flowIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c := ctx.Value(flowIDsKey{}).(*flow.Trace)
	return c.TraceID, c.SpanID
}

// NewSpanID implements [sdk.IDGenerator].
func (flowIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(flowIDsKey{}).(*flow.Trace).SpanID
}

// record makes the span of a finished exchange. The SDK copies neither names nor
// attributes, and exports them long after the buffers of f are used again.
func (t *Tracing) record(f *flow.Flow) {
	ctx := context.WithValue(context.Background(), flowIDsKey{}, &f.Trace)
	if f.Trace.ParentID != [8]byte{} {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent(&f.Trace))
	}
	_, span := t.tracer.Start(ctx, spanName(f),
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(f.Start),
		trace.WithAttributes(t.attributes(f)...))
	if failed(f) {
		span.SetStatus(codes.Error, keep(f.Details))
	}
	span.End(trace.WithTimestamp(f.Start.Add(f.Duration)))
}

func parent(c *flow.Trace) trace.SpanContext {
	state, err := trace.ParseTraceState(keep(c.State))
	if err != nil {
		state = trace.TraceState{} // it went on as it was; only the span lacks it
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: c.TraceID, SpanID: c.ParentID, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true,
	})
}

// spanName is as Istio names the operation of a route: HOST:PORT/PATTERN.
func spanName(f *flow.Flow) string {
	pattern := f.RouteLabel
	if !strings.HasPrefix(pattern, "/") {
		pattern = "/*"
	}
	return keep(destinationOf(f) + ":" + strconv.Itoa(int(f.Port)) + pattern)
}

func destinationOf(f *flow.Flow) string {
	if f.Service != nil {
		return f.Service.Host
	}
	if f.Destination != nil && f.Destination.Name != "" {
		return f.Destination.Name
	}
	return unknown
}

// failed: the server failed, or nobody knows what became of the request.
func failed(f *flow.Flow) bool {
	if f.Status == 0 || f.Status >= 500 {
		return true
	}
	// The statuses that Envoy counts as errors of the server.
	switch f.GRPCStatus {
	case "2", "4", "12", "13", "14", "15":
		return true
	}
	return false
}

// maxAttribute is in bytes. A URL of 60 KiB in each of 2,048 waiting spans would
// be 120 MiB.
const maxAttribute = 1024

// keep copies s, cut to a bearable length and to the UTF-8 without which a whole
// batch of spans could not be sent.
func keep(s string) string {
	if len(s) > maxAttribute {
		s = s[:maxAttribute]
	}
	return strings.Clone(strings.ToValidUTF8(s, "\ufffd"))
}

// tags collects attributes, without those that have no value.
type tags []attribute.KeyValue

func (t *tags) text(key, value string) {
	if value != "" {
		*t = append(*t, attribute.String(key, keep(value)))
	}
}

// attributes are those of Envoy's and Istio's spans, see docs/tracing.md.
func (t *Tracing) attributes(f *flow.Flow) []attribute.KeyValue {
	a := make(tags, 0, 48)
	a = append(a, t.common...)
	a.request(f)
	a.response(f)
	a.workload("istio.source_", f.Source)
	a.workload("istio.destination_", f.Destination)
	a.text("istio.source_principal", f.Peer.String())
	a.policy(f)
	return a
}

func (t *tags) request(f *flow.Flow) {
	t.text("http.url", "http://"+f.Authority+f.Path)
	t.text("http.method", f.Method)
	t.text("http.protocol", f.Protocol)
	t.text("user_agent", f.UserAgent)
	t.text("guid:x-request-id", f.RequestID)
	if f.PeerAddr.IsValid() {
		t.text("peer.address", f.PeerAddr.Addr().String())
	}
	*t = append(*t, attribute.Int64("request_size", f.Received))
	if f.Kind == flow.GRPC {
		path, _, _ := strings.Cut(f.Path, "?")
		t.text("grpc.path", path)
		t.text("grpc.authority", f.Authority)
	}
}

func (t *tags) response(f *flow.Flow) {
	*t = append(*t, attribute.Int("http.status_code", f.Status), attribute.Int64("response_size", f.Sent))
	t.text("response_flags", f.Flags.String())
	t.text("response_code_details", f.Details)
	t.text("grpc.status_code", f.GRPCStatus)
	if failed(f) {
		*t = append(*t, attribute.Bool("error", true))
	}
	if f.Service != nil {
		t.text("upstream_cluster", string(appendCluster(nil, f)))
	}
	if f.Endpoint.IsValid() {
		t.text("upstream_address", f.Endpoint.String())
	}
	t.text("route_name", f.RouteName)
	if f.Retries > 0 {
		*t = append(*t, attribute.Int("retry.count", f.Retries))
	}
}

func (t *tags) workload(prefix string, w *flow.Workload) {
	if w == nil {
		return
	}
	t.text(prefix+"workload", w.Name)
	t.text(prefix+"namespace", w.Namespace)
	t.text(prefix+"cluster_id", w.Cluster)
	t.text(prefix+"canonical_service", w.CanonicalName)
	t.text(prefix+"canonical_revision", w.CanonicalRevision)
	t.text(prefix+"app", w.App)
	t.text(prefix+"app_version", w.Version)
	t.text(prefix+"workload_type", w.Type)
	t.text(prefix+"instance_name", w.Pod)
}

// policy tells what was decided, and what policies that are only tried would
// have decided.
func (t *tags) policy(f *flow.Flow) {
	t.text("istio.authorization.policy", f.Policy)
	if len(f.DryRun) == 0 {
		return
	}
	verdicts := make([]string, len(f.DryRun))
	for i, d := range f.DryRun {
		verdicts[i] = keep(d.Policy) + ": denied"
		if d.Allowed {
			verdicts[i] = keep(d.Policy) + ": allowed"
		}
	}
	*t = append(*t, attribute.StringSlice("istio.authorization.dry_run", verdicts))
}

func (g GatewayTags) attributes() (t tags) {
	t.text("component", "proxy")
	t.text("node_id", g.Pod)
	t.text("istio.mesh_id", g.Mesh)
	t.text("istio.canonical_service", g.Name)
	t.text("istio.canonical_revision", orLatest(g.Revision))
	t.text("istio.namespace", g.Namespace)
	t.text("istio.cluster_id", g.Cluster)
	return t
}
