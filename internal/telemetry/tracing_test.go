package telemetry

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// sink is a collector of traces.
type sink struct {
	collector.UnimplementedTraceServiceServer
	addr string

	mu     sync.Mutex
	spans  []*otlp.Span
	answer error
	attrs  map[string]string // of the resource
}

func newSink(t *testing.T) *sink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{addr: listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return s
}

func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		return nil, s.answer
	}
	for _, from := range r.ResourceSpans {
		s.attrs = attributeMap(from.Resource.Attributes)
		for _, scope := range from.ScopeSpans {
			s.spans = append(s.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (s *sink) setAnswer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = err
}

func attributeMap(list []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		v := a.Value.String()
		if _, after, ok := strings.Cut(v, ":"); ok {
			v = strings.Trim(after, `"`)
		}
		m[a.Key] = v
	}
	return m
}

func newTracing(t *testing.T, o TraceOptions) *Tracing {
	t.Helper()
	tracing, err := NewTracing(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tracing
}

// spansOf returns what arrives of those flows.
func spansOf(t *testing.T, s *sink, percent float64, flows ...*flow.Flow) []*otlp.Span {
	t.Helper()
	tracing := newTracing(t, TraceOptions{
		Endpoint: s.addr, Percent: percent, Service: "waypoint.bookinfo",
		Gateway: GatewayTags{Name: "waypoint", Namespace: "bookinfo", Cluster: "Kubernetes", Mesh: "cluster.local", Pod: "waypoint-1"},
	})
	for _, f := range flows {
		tracing.Start(f)
		tracing.Done(f)
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.spans
}

func extracted(t *testing.T, name, value string) *flow.Flow {
	t.Helper()
	f := request()
	f.Trace.Extract([]flow.Field{{Name: name, Value: value}, {Name: "tracestate", Value: "vendor=1"}})
	return f
}

const (
	testTrace = "0af7651916cd43dd8448eb211c80319c"
	testSpan  = "b7ad6b7169203331"
)

func TestSpan(t *testing.T) {
	s := newSink(t)
	f := extracted(t, "traceparent", "00-"+testTrace+"-"+testSpan+"-01")
	spans := spansOf(t, s, 0, f)
	if len(spans) != 1 {
		t.Fatalf("%d spans, want 1", len(spans))
	}
	span := spans[0]
	if got := hex.EncodeToString(span.TraceId); got != testTrace {
		t.Errorf("trace %s, want %s", got, testTrace)
	}
	if got := hex.EncodeToString(span.ParentSpanId); got != testSpan {
		t.Errorf("parent %s, want %s", got, testSpan)
	}
	forwarded := string(f.Trace.AppendTraceparent(nil))
	if want := "00-" + testTrace + "-" + hex.EncodeToString(span.SpanId) + "-01"; forwarded != want || strings.Contains(want, testSpan) {
		t.Errorf("forwarded %s, want %s: our span, not the caller's", forwarded, want)
	}
	if span.Kind != otlp.Span_SPAN_KIND_SERVER || span.Status.GetCode() != otlp.Status_STATUS_CODE_UNSET || span.TraceState != "vendor=1" {
		t.Errorf("kind %v, status %v, state %q", span.Kind, span.Status, span.TraceState)
	}
	if want := "reviews.bookinfo.svc.cluster.local:9080/reviews/*"; span.Name != want {
		t.Errorf("name %q, want %q", span.Name, want)
	}
	if got := time.Duration(span.EndTimeUnixNano - span.StartTimeUnixNano); got != f.Duration || int64(span.StartTimeUnixNano) != f.Start.UnixNano() {
		t.Errorf("from %d, for %v; want from %d, for %v", span.StartTimeUnixNano, got, f.Start.UnixNano(), f.Duration)
	}
	if s.attrs["service.name"] != "waypoint.bookinfo" {
		t.Errorf("resource %v, want the service.name that was asked for", s.attrs)
	}
	want := map[string]string{
		"component": "proxy", "node_id": "waypoint-1",
		"istio.mesh_id": "cluster.local", "istio.canonical_service": "waypoint", "istio.canonical_revision": "latest",
		"istio.namespace": "bookinfo", "istio.cluster_id": "Kubernetes",
		"http.url": "http://reviews:9080/reviews/7?full=1", "http.method": "GET", "http.protocol": "HTTP/1.1", "user_agent": "curl/8.9.1",
		"guid:x-request-id": "3f2a-1", "peer.address": "10.1.0.7", "request_size": "431",
		"http.status_code": "200", "response_size": "2048", "response_flags": "-", "response_code_details": "via_upstream",
		"upstream_cluster": "inbound-vip|9080|http|reviews.bookinfo.svc.cluster.local", "upstream_address": "10.1.0.9:9080", "route_name": "bookinfo/reviews/0",
		"istio.source_workload": "curl", "istio.source_namespace": "clients", "istio.source_cluster_id": "Kubernetes", "istio.source_canonical_service": "curl",
		"istio.source_canonical_revision": "v1", "istio.source_app": "curl", "istio.source_app_version": "v1", "istio.source_workload_type": "deployment",
		"istio.source_instance_name": "curl-7d4-xyz", "istio.source_principal": "spiffe://cluster.local/ns/clients/sa/curl",
		"istio.destination_workload": "reviews-v2", "istio.destination_namespace": "bookinfo", "istio.destination_cluster_id": "Kubernetes",
		"istio.destination_canonical_service": "reviews", "istio.destination_canonical_revision": "v2", "istio.destination_app": "reviews",
		"istio.destination_app_version": "v2", "istio.destination_workload_type": "deployment", "istio.destination_instance_name": "reviews-v2-abc",
	}
	if diff := cmp.Diff(want, attributeMap(span.Attributes)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func TestFailedSpan(t *testing.T) {
	f := extracted(t, "b3", testTrace+"-"+testSpan+"-1")
	f.Kind, f.GRPCStatus, f.Path, f.Details = flow.GRPC, "14", "/reviews.Reviews/Get?x", "upstream_reset"
	f.Service, f.RouteLabel, f.UserAgent, f.Retries = nil, "", "\xff"+strings.Repeat("a", 5000), 2
	f.Policy, f.DryRun = "bookinfo/viewers", []flow.DryRun{{Policy: "bookinfo/stricter"}, {Policy: "bookinfo/other", Allowed: true}}
	spans := spansOf(t, newSink(t), 0, f)
	if len(spans) != 1 {
		t.Fatalf("%d spans, want 1", len(spans))
	}
	if s := spans[0]; s.Name != "reviews-v2:9080/*" || s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || s.Status.Message != "upstream_reset" {
		t.Errorf("name %q, status %v", s.Name, s.Status)
	}
	got := attributeMap(spans[0].Attributes)
	for key, want := range map[string]string{
		"error": "true", "grpc.status_code": "14", "grpc.path": "/reviews.Reviews/Get", "grpc.authority": "reviews:9080", "retry.count": "2",
		"istio.authorization.policy": "bookinfo/viewers",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	if dry := got["istio.authorization.dry_run"]; !strings.Contains(dry, "bookinfo/stricter: denied") || !strings.Contains(dry, "bookinfo/other: allowed") {
		t.Errorf("dry run %q", dry)
	}
	if n := len(got["user_agent"]); n == 0 || n > maxAttribute+2 {
		t.Errorf("user_agent of %d bytes", n)
	}
}

func TestSampling(t *testing.T) {
	const parent = testTrace + "-" + testSpan
	for _, c := range []struct {
		name    string
		flow    *flow.Flow
		percent float64
		want    int
		sent    string // of the traceparent that goes on: "same", "ours", and the flags
	}{
		{"root", &flow.Flow{Kind: flow.HTTP}, 100, 1, "ours-01"},
		{"root, none wanted", &flow.Flow{Kind: flow.HTTP}, 0, 0, "ours-00"},
		{"caller says yes", extracted(t, "traceparent", "00-"+parent+"-01"), 0, 1, "ours-01"},
		{"caller says no", extracted(t, "traceparent", "00-"+parent+"-00"), 100, 0, "same-00"},
		{"caller leaves it to us", extracted(t, "b3", parent), 100, 1, "ours-01"},
		{"caller leaves it to us, none wanted", extracted(t, "b3", parent), 0, 0, "same-00"},
		{"B3 refusal without a context", extracted(t, "b3", "0"), 100, 0, "ours-00"},
		{"B3 wish without a context", extracted(t, "b3", "1"), 0, 1, "ours-01"},
		{"connection", &flow.Flow{Kind: flow.TCP}, 100, 0, ""},
	} {
		spans := spansOf(t, newSink(t), c.percent, c.flow)
		if len(spans) != c.want {
			t.Errorf("%s: %d spans, want %d", c.name, len(spans), c.want)
		}
		trace := &c.flow.Trace
		sent := ""
		if trace.Valid() {
			sent = "ours"
			if trace.SpanID == trace.ParentID {
				sent = "same"
			}
			sent += string(trace.AppendTraceparent(nil)[52:])
		}
		if sent != c.sent {
			t.Errorf("%s: context sent: %q, want %q", c.name, sent, c.sent)
		}
	}
}

func TestSamplingRatio(t *testing.T) {
	tracing := newTracing(t, TraceOptions{Endpoint: "127.0.0.1:1", Percent: 25})
	sampled := 0
	const n = 20_000
	for range n {
		f := flow.Flow{Kind: flow.HTTP}
		tracing.Start(&f)
		if f.Trace.Sampled {
			sampled++
		}
	}
	// Six standard deviations of the binomial distribution are 367.
	if sampled < n/4-367 || sampled > n/4+367 {
		t.Errorf("%d of %d sampled, want about a quarter", sampled, n)
	}
	closeNow(t, tracing)
}

// closeNow ends a tracing that nobody listens to.
func closeNow(t *testing.T, tracing *Tracing) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracing.Close(ctx); err != nil {
		t.Log("close:", err)
	}
}

func TestTraceExportFailuresAreCounted(t *testing.T) {
	s := newSink(t)
	var log strings.Builder
	tracing := newTracing(t, TraceOptions{Endpoint: s.addr, Percent: 100, Log: slog.New(slog.NewTextHandler(&log, nil))})
	export := func(n int) {
		for range n {
			f := request()
			f.Trace = flow.Trace{}
			tracing.Start(f)
			tracing.Done(f)
		}
		if err := tracing.provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.setAnswer(status.Error(codes.InvalidArgument, "no traces here")) // one that is not tried again
	export(3)
	export(1)
	s.setAnswer(nil)
	export(2)
	if got, want := tracing.Stats(), (TraceStats{Exported: 2, Failed: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "no traces here") || !strings.Contains(text, "exported again") {
		t.Errorf("log:\n%s\nwant one line when it fails and one when it works again", text)
	}
}

// Without a collector spans wait up to a limit, and the rest is dropped.
func TestTracesAreDroppedAndCounted(t *testing.T) {
	tracing := newTracing(t, TraceOptions{Endpoint: "127.0.0.1:1", Percent: 100})
	const n = traceQueue + 100
	for range n {
		f := request()
		f.Trace = flow.Trace{}
		tracing.Start(f)
		tracing.Done(f)
	}
	if got := tracing.Stats(); got.Dropped == 0 {
		t.Errorf("%+v, want some dropped", got)
	}
	if got := tracing.pending.Load(); got > traceQueue {
		t.Errorf("%d spans waiting, want at most %d", got, traceQueue)
	}
	closeNow(t, tracing)
}

func TestTraceOptions(t *testing.T) {
	for _, percent := range []float64{-1, 101} {
		if _, err := NewTracing(t.Context(), TraceOptions{Endpoint: "127.0.0.1:1", Percent: percent}); err == nil || !strings.Contains(err.Error(), "from 0 to 100") {
			t.Errorf("%v %%: error %v, want one that names the range", percent, err)
		}
	}
}

func TestUnsampledDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	tracing := newTracing(t, TraceOptions{Endpoint: "127.0.0.1:1", Percent: 0})
	f := request()
	if n := testing.AllocsPerRun(100, func() {
		f.Trace = flow.Trace{}
		tracing.Start(f)
		tracing.Done(f)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	closeNow(t, tracing)
}

func BenchmarkTracing(b *testing.B) {
	for _, c := range []struct {
		name    string
		percent float64
	}{{"sampled=no", 0}, {"sampled=yes", 100}} {
		b.Run(c.name, func(b *testing.B) {
			tracing, err := NewTracing(b.Context(), TraceOptions{Endpoint: "127.0.0.1:1", Percent: c.percent})
			if err != nil {
				b.Fatal(err)
			}
			f := request()
			b.ReportAllocs()
			for b.Loop() {
				f.Trace = flow.Trace{}
				tracing.Start(f)
				if f.Trace.Sampled {
					tracing.record(f) // Done would drop most of them
				}
			}
		})
	}
}
