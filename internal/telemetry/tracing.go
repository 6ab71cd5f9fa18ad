package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// TraceOptions of [NewTracing].
type TraceOptions struct {
	// Endpoint is the collector: host:port or http:// in clear text, https:// by
	// the system's roots.
	Endpoint string
	// Percent of the traces that start here are recorded. It does not apply to
	// callers that have decided.
	Percent float64
	// Service is service.name of the spans.
	Service string
	Version string
	// Gateway says which waypoint this is, in Istio's tags.
	Gateway GatewayTags
	// Log hears of failed exports: of the first, and of the first success after.
	Log *slog.Logger
}

// GatewayTags are the tags of the waypoint itself. Empty ones are left out.
type GatewayTags struct {
	Name, Namespace string // of the Gateway
	Revision        string
	Cluster, Mesh   string
	Pod             string
}

// TraceStats counts spans since the start. Dropped never reached the exporter.
type TraceStats struct{ Exported, Failed, Dropped uint64 }

// Spans wait for their export in the queue of the SDK's batch processor.
const (
	traceQueue = 2048
	traceBatch = 512
)

// Tracing records one SERVER span per sampled HTTP exchange, and exports it by
// OTLP over gRPC. Whether an exchange is sampled is known before anything is
// built for it; those that are not cost a few comparisons.
type Tracing struct {
	threshold uint64
	tracer    trace.Tracer
	provider  *sdk.TracerProvider
	exporter  *countingExporter
	common    []attribute.KeyValue

	// pending are spans between here and the end of their export. Counting them
	// tells what the SDK does not: when its queue is full.
	pending atomic.Int64
	dropped atomic.Uint64
}

// NewTracing starts tracing. The collector need not be there yet.
func NewTracing(ctx context.Context, o TraceOptions) (*Tracing, error) {
	if o.Percent < 0 || o.Percent > 100 || math.IsNaN(o.Percent) {
		return nil, fmt.Errorf("trace sampling of %v %%: it has to be from 0 to 100", o.Percent)
	}
	client, err := otlptracegrpc.New(ctx, endpoint(o.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("trace exports to %q: %w", o.Endpoint, err)
	}
	t := &Tracing{threshold: threshold(o.Percent), common: o.Gateway.attributes()}
	t.exporter = &countingExporter{SpanExporter: client, pending: &t.pending, endpoint: o.Endpoint, log: o.Log}
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(t.exporter, sdk.WithMaxQueueSize(traceQueue), sdk.WithMaxExportBatchSize(traceBatch)),
		sdk.WithSampler(sdk.AlwaysSample()), // what gets this far was sampled by Start
		sdk.WithIDGenerator(flowIDs{}),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", firstOf(o.Service, "waypoint")),
			attribute.String("service.version", firstOf(o.Version, unknown)),
		)),
	)
	t.tracer = t.provider.Tracer("github.com/waypoint-mesh/waypoint")
	return t, nil
}

func endpoint(s string) otlptracegrpc.Option {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	return otlptracegrpc.WithEndpointURL(s)
}

// threshold is compared with 63 random bits of a trace ID. Those are the bits
// that other proxies of the mesh decide by, as OpenTelemetry's TraceIDRatioBased
// does, so that all of them pick the same traces.
func threshold(percent float64) uint64 {
	return uint64(percent / 100 * (1 << 63))
}

// Start implements [flow.Observer]: it decides, and makes the context that goes
// upstream. Where nothing is recorded, the caller's context goes on unchanged;
// a caller without one gets one, so that all behind us agree not to record.
func (t *Tracing) Start(f *flow.Flow) {
	if f.Kind == flow.TCP {
		return
	}
	c := &f.Trace
	if c.TraceID == [16]byte{} {
		binary.BigEndian.PutUint64(c.TraceID[:8], random())
		binary.BigEndian.PutUint64(c.TraceID[8:], random())
	}
	if !c.Decided {
		c.Sampled = binary.BigEndian.Uint64(c.TraceID[8:])>>1 < t.threshold
		c.Decided = true
	}
	if c.Sampled || c.ParentID == [8]byte{} {
		binary.BigEndian.PutUint64(c.SpanID[:], random())
	}
}

// random is never zero, which no ID may be.
func random() uint64 { return max(rand.Uint64(), 1) }

// Progress implements [flow.Observer].
func (*Tracing) Progress(*flow.Flow) {}

// Done implements [flow.Observer].
func (t *Tracing) Done(f *flow.Flow) {
	if !f.Trace.Sampled || f.Kind == flow.TCP {
		return
	}
	if t.pending.Add(1) > traceQueue {
		t.pending.Add(-1)
		t.dropped.Add(1)
		return
	}
	t.record(f)
}

// Stats returns how many spans there were.
func (t *Tracing) Stats() TraceStats {
	return TraceStats{t.exporter.exported.Load(), t.exporter.failed.Load(), t.dropped.Load()}
}

// Close exports what is waiting, and gives up when ctx ends.
func (t *Tracing) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// countingExporter counts what becomes of spans. It reports errors itself: the
// SDK would hand them to a handler that is one for the whole process.
type countingExporter struct {
	sdk.SpanExporter
	endpoint         string
	log              *slog.Logger
	pending          *atomic.Int64
	exported, failed atomic.Uint64
	failing          atomic.Bool
}

// ExportSpans implements [sdk.SpanExporter].
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer e.pending.Add(-int64(len(spans)))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.failed.Add(uint64(len(spans)))
	} else {
		e.exported.Add(uint64(len(spans)))
	}
	if changed := e.failing.Swap(err != nil) != (err != nil); changed && e.log != nil {
		e.report(ctx, err)
	}
	return nil
}

func (e *countingExporter) report(ctx context.Context, err error) {
	if err == nil {
		e.log.InfoContext(ctx, "traces are exported again", "collector", e.endpoint)
		return
	}
	e.log.WarnContext(ctx, "traces are not exported; the metric waypoint_trace_spans_total counts what is lost",
		"collector", e.endpoint, "error", err)
}
