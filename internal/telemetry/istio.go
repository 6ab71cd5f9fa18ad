package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is one metric name.
type family struct {
	name, help, kind string // kind: counter, gauge, histogram
	labels           []string
	desc             *prometheus.Desc
}

func newFamily(kind, name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: kind, labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

func istioFamily(kind, name, help string, labels int) *family {
	return newFamily(kind, name, help, labelNames[:labels]...)
}

// Istio's metrics.
var (
	requestsTotal    = istioFamily("counter", "istio_requests_total", "Requests that ended, whatever their answer.", httpLabels)
	requestDuration  = istioFamily("histogram", "istio_request_duration_milliseconds", "Time from the first byte of a request to the last of its response, in milliseconds.", httpLabels)
	requestBytes     = istioFamily("histogram", "istio_request_bytes", "Size of requests as read from the client, in bytes.", httpLabels)
	responseBytes    = istioFamily("histogram", "istio_response_bytes", "Size of responses as written to the client, in bytes.", httpLabels)
	requestMessages  = istioFamily("counter", "istio_request_messages_total", "gRPC messages from clients; grows while a stream goes on.", messageLabels)
	responseMessages = istioFamily("counter", "istio_response_messages_total", "gRPC messages to clients; grows while a stream goes on.", messageLabels)
	tcpOpened        = istioFamily("counter", "istio_tcp_connections_opened_total", "TCP connections that were opened.", tcpLabels)
	tcpClosed        = istioFamily("counter", "istio_tcp_connections_closed_total", "TCP connections that were closed.", tcpLabels)
	tcpSent          = istioFamily("counter", "istio_tcp_sent_bytes_total", "Bytes of TCP connections to clients; grows while a connection is open.", tcpLabels)
	tcpReceived      = istioFamily("counter", "istio_tcp_received_bytes_total", "Bytes of TCP connections from clients; grows while a connection is open.", tcpLabels)
	istioBuild       = newFamily("gauge", "istio_build", "Always 1; tells the version of this proxy where Istio's dashboards look for it.", "component", "tag")
)

var istioFamilies = []*family{
	requestsTotal, requestDuration, requestBytes, responseBytes, requestMessages, responseMessages,
	tcpOpened, tcpClosed, tcpSent, tcpReceived, istioBuild,
}

// istioCollector is the Metrics as a collector of Istio's families.
type istioCollector Metrics

// Describe implements [prometheus.Collector].
func (*istioCollector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range istioFamilies {
		out <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *istioCollector) Collect(out chan<- prometheus.Metric) {
	now, e := c.now(), expiry{c.options.Idle, c.lost}
	for _, s := range c.http.snapshot() {
		emitHTTP(out, s)
	}
	for _, s := range c.messages.snapshot() {
		emitMessages(out, s)
	}
	for _, s := range c.tcp.snapshot() {
		emitTCP(out, s)
	}
	c.http.expire(now, e, (*httpValues).changes)
	c.messages.expire(now, e, (*messageValues).changes)
	c.tcp.expire(now, e, (*tcpValues).changes)
	out <- prometheus.MustNewConstMetric(istioBuild.desc, prometheus.GaugeValue, 1, "proxy", firstOf(c.options.Version, unknown))
}

func (c *istioCollector) lost(l *labels) bool {
	return !c.options.Known(l[destinationServiceNamespace], l[destinationService])
}

func (v *httpValues) changes() (n uint64, open bool) { return v.duration.count(), false }

func (v *messageValues) changes() (n uint64, open bool) {
	return v.request.Load() + v.response.Load(), false
}

func (v *tcpValues) changes() (n uint64, open bool) {
	opened, closed := v.opened.Load(), v.closed.Load()
	return opened + closed, opened != closed
}

func emitHTTP(out chan<- prometheus.Metric, s *series[httpValues]) {
	pairs, v := s.labels.pairs(httpLabels), &s.values
	duration := v.duration.proto(inMilliseconds)
	out <- counter(requestsTotal, pairs, *duration.SampleCount)
	out <- sample{family: requestDuration, labels: pairs, histogram: duration}
	out <- sample{family: requestBytes, labels: pairs, histogram: v.request.proto(inBytes)}
	out <- sample{family: responseBytes, labels: pairs, histogram: v.response.proto(inBytes)}
}

func emitMessages(out chan<- prometheus.Metric, s *series[messageValues]) {
	pairs := s.labels.pairs(messageLabels)
	out <- counter(requestMessages, pairs, s.values.request.Load())
	out <- counter(responseMessages, pairs, s.values.response.Load())
}

func emitTCP(out chan<- prometheus.Metric, s *series[tcpValues]) {
	pairs, v := s.labels.pairs(tcpLabels), &s.values
	out <- counter(tcpOpened, pairs, v.opened.Load())
	out <- counter(tcpClosed, pairs, v.closed.Load())
	out <- counter(tcpSent, pairs, v.sent.Load())
	out <- counter(tcpReceived, pairs, v.received.Load())
}

// sample is a value of one scrape. Those of one series share their labels, of
// which there are two dozen; client_golang's constant metrics would copy them.
type sample struct {
	family    *family
	labels    []*dto.LabelPair
	counter   *dto.Counter
	histogram *dto.Histogram
}

func counter(f *family, pairs []*dto.LabelPair, n uint64) sample {
	return sample{family: f, labels: pairs, counter: &dto.Counter{Value: new(float64(n))}}
}

// Desc implements [prometheus.Metric].
func (s sample) Desc() *prometheus.Desc { return s.family.desc }

// Write implements [prometheus.Metric].
func (s sample) Write(out *dto.Metric) error {
	out.Label, out.Counter, out.Histogram = s.labels, s.counter, s.histogram
	return nil
}
