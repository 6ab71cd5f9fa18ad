package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	trace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector takes the spans that the waypoint exports by OTLP.
type collector struct {
	trace.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans map[string]*span // by trace id
}

// span is what the demo shows of one.
type span struct {
	TraceID    string            `json:"trace_id"`
	SpanID     string            `json:"span_id"`
	ParentID   string            `json:"parent_id"`
	Name       string            `json:"name"`
	Millis     float64           `json:"ms"`
	Attributes map[string]string `json:"attributes"`
}

func startCollector(s *stage) *collector {
	ln, err := net.Listen("tcp", collectorAddr)
	if err != nil {
		s.Fatalf("%v", err)
	}
	c := &collector{spans: make(map[string]*span)}
	server := grpc.NewServer()
	trace.RegisterTraceServiceServer(server, c)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(ln); err != nil {
			s.Errorf("the collector of traces: %v", err)
		}
	}()
	s.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return c
}

// Export implements the service of OTLP.
func (c *collector) Export(_ context.Context, r *trace.ExportTraceServiceRequest) (*trace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[hex.EncodeToString(s.TraceId)] = newSpan(s)
			}
		}
	}
	return &trace.ExportTraceServiceResponse{}, nil
}

func newSpan(s *otlp.Span) *span {
	attributes := make(map[string]string)
	for _, a := range s.Attributes {
		attributes[a.Key] = text(a.Value)
	}
	return &span{
		TraceID:    hex.EncodeToString(s.TraceId),
		SpanID:     hex.EncodeToString(s.SpanId),
		ParentID:   hex.EncodeToString(s.ParentSpanId),
		Name:       s.Name,
		Millis:     float64(time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano).Microseconds()) / 1000,
		Attributes: attributes,
	}
}

func text(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	}
	return fmt.Sprint(v.GetStringValue())
}

// find returns the span of a trace, nil if it has not come.
func (c *collector) find(traceID string) *span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans[traceID]
}
