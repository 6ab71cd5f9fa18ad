package telemetry

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// Options of [NewMetrics]. The zero value works.
type Options struct {
	Version, Commit, Go string // of this build

	// MaxSeries bounds each of the three tables: of requests, of gRPC messages,
	// of TCP connections. Default 4,000. One of requests takes 2 KB, and another
	// 10 KB while it is scraped, as 67 lines of two dozen labels each.
	MaxSeries int
	// Idle is how long the series of a service that is gone stays after its last
	// change, or any series when room gets scarce. Default 15 minutes.
	Idle time.Duration
	// Known reports whether a service is still there. Nil: all are.
	Known func(namespace, host string) bool
	// Stats is asked at each scrape. Nil: the own metrics are zero.
	Stats func() Stats
	// Log hears of failed scrapes. Nil: nobody does.
	Log *slog.Logger
}

// httpValues count exchanges. The duration's count is istio_requests_total.
type httpValues struct{ duration, request, response histogram }

// messageValues count gRPC messages.
type messageValues struct{ request, response atomic.Uint64 }

// tcpValues count connections.
type tcpValues struct{ opened, closed, received, sent atomic.Uint64 }

// Metrics counts flows as Istio does. See docs/metrics.md for what and when.
type Metrics struct {
	http     *table[httpValues]
	messages *table[messageValues]
	tcp      *table[tcpValues]
	retries  atomic.Uint64

	options  Options
	registry *prometheus.Registry
	now      func() time.Time
}

// NewMetrics makes the metrics, in a registry of their own.
func NewMetrics(o Options) *Metrics {
	if o.MaxSeries <= 0 {
		o.MaxSeries = 4_000
	}
	if o.Idle <= 0 {
		o.Idle = 15 * time.Minute
	}
	if o.Known == nil {
		o.Known = func(string, string) bool { return true }
	}
	if o.Stats == nil {
		o.Stats = func() Stats { return Stats{} }
	}
	m := &Metrics{
		http:     newTable[httpValues](o.MaxSeries),
		messages: newTable[messageValues](o.MaxSeries),
		tcp:      newTable[tcpValues](o.MaxSeries),
		options:  o,
		registry: prometheus.NewRegistry(),
		now:      time.Now,
	}
	m.registry.MustRegister(
		(*istioCollector)(m),
		(*ownCollector)(m),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler serves the metrics to Prometheus, in any of its formats.
func (m *Metrics) Handler() http.Handler {
	o := promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // one bad collector is no reason to see nothing
		MaxRequestsInFlight: 2,
	}
	if m.options.Log != nil {
		o.ErrorLog = slog.NewLogLogger(m.options.Log.Handler(), slog.LevelError)
	}
	return promhttp.HandlerFor(m.registry, o)
}

// Start implements [flow.Observer].
func (*Metrics) Start(*flow.Flow) {}

// Progress implements [flow.Observer]: bytes of connections and messages of gRPC
// streams are counted while they go on.
func (m *Metrics) Progress(f *flow.Flow) {
	switch f.Kind {
	case flow.TCP:
		m.countConnection(f)
	case flow.GRPC:
		m.countMessages(f)
	case flow.HTTP:
	}
}

// Done implements [flow.Observer].
func (m *Metrics) Done(f *flow.Flow) {
	if f.Retries > 0 {
		m.retries.Add(uint64(f.Retries))
	}
	switch f.Kind {
	case flow.TCP:
		if s := m.countConnection(f); s != nil {
			s.values.closed.Add(1)
		}
		return
	case flow.GRPC:
		m.countMessages(f)
	case flow.HTTP:
	}
	m.countExchange(f)
}

func (m *Metrics) countExchange(f *flow.Flow) {
	k := httpKey(f)
	s := m.http.get(&k)
	if s == nil {
		return
	}
	s.values.duration.observe(inMilliseconds, int64(f.Duration))
	s.values.request.observe(inBytes, f.Received)
	s.values.response.observe(inBytes, f.Sent)
}

func (m *Metrics) countMessages(f *flow.Flow) {
	k := messageKey(f)
	s := m.messages.get(&k)
	if s == nil {
		return
	}
	r := &f.Reported
	s.values.request.Add(f.RequestMessages - r.RequestMessages)
	s.values.response.Add(f.ResponseMessages - r.ResponseMessages)
	r.RequestMessages, r.ResponseMessages = f.RequestMessages, f.ResponseMessages
}

// countConnection counts a connection in one series all along: that of the flags
// it has when it is first told of. As in Istio that is at the first Progress,
// when a connection that could not be made is over already, so that opened and
// closed agree and yet failures show.
func (m *Metrics) countConnection(f *flow.Flow) *series[tcpValues] {
	r := &f.Reported
	s, _ := r.Series.(*series[tcpValues])
	if s == nil {
		k := tcpKey(f)
		if s = m.tcp.get(&k); s == nil {
			return nil
		}
		s.values.opened.Add(1)
		r.Series = s
	}
	s.values.received.Add(grown(f.Received, r.Received))
	s.values.sent.Add(grown(f.Sent, r.Sent))
	r.Received, r.Sent = f.Received, f.Sent
	return s
}

// grown is what a byte counter gained since it was last told.
func grown(now, before int64) uint64 {
	return uint64(max(now-before, 0))
}
