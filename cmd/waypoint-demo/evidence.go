package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// evidence is what the waypoint told of one request, and of all of them.
type evidence struct {
	AccessLog   string   `json:"access_log"`
	Span        *span    `json:"span"`
	Traceparent string   `json:"traceparent"` // as the application got it
	Metrics     []metric `json:"metrics"`
}

// metric is one number of a few that the demo shows: the sum of the series that
// agree in the labels named.
type metric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}

// shown are the metrics to show, each with the labels to tell apart.
var shown = []struct {
	name   string
	labels []string
}{
	{"istio_requests_total", []string{"destination_service_name", "destination_version", "response_code", "grpc_response_status"}},
	{"istio_tcp_connections_opened_total", []string{"destination_service_name", "connection_security_policy"}},
	{"waypoint_tunnels_total", []string{"result"}},
	{"waypoint_upstream_dials_total", []string{"result"}},
	{"waypoint_config_updates_total", nil},
	{"waypoint_retries_total", nil},
}

const telemetryExpected = "a span that continues the client's trace; the application and the log line have that trace"

// witness sends one request with a trace of its own and gathers what became of it.
func witness(ctx context.Context, w *world) (string, bool, error) {
	traceID, parentID := fmt.Sprintf("%016x%016x", rand.Uint64()|1, rand.Uint64()), fmt.Sprintf("%016x", rand.Uint64()|1)
	got, err := send(ctx, w.clientHTTP, http.MethodGet, "http://"+reviewsVIP+"/books/7?full=1",
		"X-Canary", "1", "Traceparent", "00-"+traceID+"-"+parentID+"-01")
	if err != nil {
		return "", false, err
	}
	if !got.ok() {
		return fmt.Sprintf("status %d", got.status), false, nil
	}
	for _, r := range w.reviews["v2"].Requests() {
		if got := r.Get("traceparent"); strings.Contains(got, traceID) {
			w.seen.Traceparent = got
		}
	}
	if err := w.gather(ctx, traceID); err != nil {
		return "", false, err
	}
	s := w.seen.Span
	if s.ParentID != parentID || w.seen.Traceparent != "00-"+traceID+"-"+s.SpanID+"-01" {
		return fmt.Sprintf("span %s of parent %s, the client's was %s; the application got %q", s.SpanID, s.ParentID, parentID, w.seen.Traceparent), false, nil
	}
	return fmt.Sprintf("span %s, its parent is the client's; the application got it as parent; the log has the trace", s.SpanID), true, nil
}

// gather waits for the log line and the span, which come in batches.
func (w *world) gather(ctx context.Context, traceID string) (err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for w.seen.AccessLog == "" || w.seen.Span == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the log line or the span has not come")
		}
		w.seen.AccessLog, w.seen.Span = w.waypoint.access.find(traceID), w.trace.find(traceID)
	}
	w.seen.Metrics, err = w.metrics(ctx)
	return err
}

// scrape reads the waypoint's metrics as Prometheus does, and calls each with
// every series of a counter.
func (w *world) scrape(ctx context.Context, each func(name string, labels map[string]string, value float64)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddr+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := w.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	for name, family := range families {
		for _, m := range family.Metric {
			if m.Counter == nil {
				continue
			}
			labels := make(map[string]string)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			each(name, labels, m.Counter.GetValue())
		}
	}
	return nil
}

// metric returns the sum of the series of a counter that have a label's value.
func (w *world) metric(ctx context.Context, name, label, value string) (sum float64, err error) {
	err = w.scrape(ctx, func(n string, labels map[string]string, v float64) {
		if n == name && labels[label] == value {
			sum += v
		}
	})
	return sum, err
}

// metrics returns those that are shown.
func (w *world) metrics(ctx context.Context) (list []metric, err error) {
	sums := make(map[string]*metric)
	err = w.scrape(ctx, func(name string, labels map[string]string, value float64) {
		for _, s := range shown {
			if s.name != name {
				continue
			}
			maps.DeleteFunc(labels, func(k, v string) bool { return v == "" || !slices.Contains(s.labels, k) })
			key := fmt.Sprint(name, labels)
			if sums[key] == nil {
				sums[key] = &metric{Name: name, Labels: labels}
			}
			sums[key].Value += value
		}
	})
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, *sums[key])
	}
	return list, err
}
