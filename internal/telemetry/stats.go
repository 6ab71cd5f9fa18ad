package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is what the parts of the proxy say of themselves at a scrape. Fields
// without another comment count since the start.
type Stats struct {
	Tunnels     TunnelStats
	Streams     StreamStats
	Upstream    UpstreamStats
	Detected    DetectionStats
	Config      ConfigStats
	Controller  ControllerStats
	Certificate CertificateStats
	Traces      TraceStats
	AccessLog   LogStats
	Live        LiveStats
}

// TunnelStats is of connections from other node proxies.
type TunnelStats struct {
	Open              int // now
	Accepted          int64
	Refused           int64 // over a limit, before any handshake
	Handshakes        int64 // that succeeded
	HandshakeFailures int64
}

// StreamStats is of CONNECTs in them.
type StreamStats struct {
	Open     int // now
	Accepted int64
	Rejected int64 // answered with another status than 200
}

// UpstreamStats is of connections to endpoints, or to their node proxies.
type UpstreamStats struct {
	Open         int // now
	Streams      int // now: in use
	Idle         int // now: kept for the next request
	Dialled      int64
	DialFailures int64
}

// DetectionStats is of connections whose protocol was not declared, by what
// their first bytes showed.
type DetectionStats struct {
	HTTP1, HTTP2, TLS, TCP int64
	Silent                 int64 // nothing came in time: taken as TCP whose server speaks first
}

// ConfigStats is of the configuration.
type ConfigStats struct {
	Version     uint64    // now
	LastSuccess time.Time // zero: none yet
	Updates     uint64
	Rejected    int // objects, now
	Services    int // now
	Endpoints   int // now
}

// ControllerStats is of the controller as the source of configuration; zero without
// one.
type ControllerStats struct {
	InStep   int    // streams, now: 1 while all that it has is in force here
	Streams  uint64 // that came into step
	Failures uint64 // tries that did not
}

// CertificateStats is of our workload certificate and what we trust.
type CertificateStats struct {
	NotAfter     time.Time // now; zero: there is none
	RootNotAfter time.Time // now, the first root to expire
	Renewals     uint64
	Failures     uint64 // to renew
}

// stat is one own metric, read out of Stats.
type stat struct {
	*family
	value       func(*Stats) float64
	labelValues []string
}

func count[N int | int64 | uint64](get func(*Stats) N) func(*Stats) float64 {
	return func(s *Stats) float64 { return float64(get(s)) }
}

// at is a time as Prometheus wants it, 0 for none.
func at(get func(*Stats) time.Time) func(*Stats) float64 {
	return func(s *Stats) float64 {
		t := get(s)
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMilli()) / 1e3
	}
}

func gauge(name, help string, value func(*Stats) float64) []stat {
	return []stat{{newFamily("gauge", name, help), value, nil}}
}

func total(name, help string, value func(*Stats) float64) []stat {
	return []stat{{newFamily("counter", name, help), value, nil}}
}

// split is one value of the label that splits a metric up.
type split struct {
	label string
	value func(*Stats) float64
}

func totals(name, help, label string, splits ...split) []stat {
	return by("counter", name, help, label, splits)
}

func by(kind, name, help, label string, splits []split) (stats []stat) {
	f := newFamily(kind, name, help, label)
	for _, s := range splits {
		stats = append(stats, stat{f, s.value, []string{s.label}})
	}
	return stats
}

// stats are the own metrics that are pulled out of Stats.
var stats = [][]stat{
	gauge("waypoint_tunnels_open", "HBONE connections to us that are open.",
		count(func(s *Stats) int { return s.Tunnels.Open })),
	totals("waypoint_tunnels_total", "TCP connections to the HBONE port.", "result",
		split{"accepted", count(func(s *Stats) int64 { return s.Tunnels.Accepted })},
		split{"refused", count(func(s *Stats) int64 { return s.Tunnels.Refused })}),
	totals("waypoint_handshakes_total", "TLS handshakes on the HBONE port.", "result",
		split{"ok", count(func(s *Stats) int64 { return s.Tunnels.Handshakes })},
		split{"failed", count(func(s *Stats) int64 { return s.Tunnels.HandshakeFailures })}),

	gauge("waypoint_streams_open", "CONNECT streams in tunnels to us that are open.",
		count(func(s *Stats) int { return s.Streams.Open })),
	totals("waypoint_streams_total", "CONNECT streams by our answer: 200, or another status since the target is not served here.", "result",
		split{"accepted", count(func(s *Stats) int64 { return s.Streams.Accepted })},
		split{"rejected", count(func(s *Stats) int64 { return s.Streams.Rejected })}),

	gauge("waypoint_upstream_connections_open", "Connections to endpoints or their node proxies that are open.",
		count(func(s *Stats) int { return s.Upstream.Open })),
	by("gauge", "waypoint_upstream_streams", "Streams in those connections, by whether a request uses them.", "state", []split{
		{"in_use", count(func(s *Stats) int { return s.Upstream.Streams })},
		{"idle", count(func(s *Stats) int { return s.Upstream.Idle })},
	}),
	totals("waypoint_upstream_dials_total", "Attempts to connect to an endpoint or its node proxy.", "result",
		split{"ok", count(func(s *Stats) int64 { return s.Upstream.Dialled })},
		split{"failed", count(func(s *Stats) int64 { return s.Upstream.DialFailures })}),

	totals("waypoint_protocol_detected_total", "Connections to ports of undeclared protocol, by what their first bytes were.", "protocol",
		split{"http1", count(func(s *Stats) int64 { return s.Detected.HTTP1 })},
		split{"http2", count(func(s *Stats) int64 { return s.Detected.HTTP2 })},
		split{"tls", count(func(s *Stats) int64 { return s.Detected.TLS })},
		split{"tcp", count(func(s *Stats) int64 { return s.Detected.TCP })},
		split{"silent", count(func(s *Stats) int64 { return s.Detected.Silent })}),

	gauge("waypoint_config_version", "Version of the snapshot in use; grows with each update.",
		count(func(s *Stats) uint64 { return s.Config.Version })),
	gauge("waypoint_config_last_success_timestamp_seconds", "When configuration was last applied, in Unix seconds; 0 before the first time.",
		at(func(s *Stats) time.Time { return s.Config.LastSuccess })),
	total("waypoint_config_updates_total", "Updates of the configuration that were applied after the first.",
		count(func(s *Stats) uint64 { return s.Config.Updates })),
	gauge("waypoint_config_rejected_objects", "Objects that are not in effect as written; /snapshot on the admin port names them.",
		count(func(s *Stats) int { return s.Config.Rejected })),
	gauge("waypoint_config_services", "Services that this waypoint fronts.",
		count(func(s *Stats) int { return s.Config.Services })),
	gauge("waypoint_config_endpoints", "Ready endpoints of those services.",
		count(func(s *Stats) int { return s.Config.Endpoints })),

	gauge("waypoint_controller_in_step", "1 while we are connected to a controller and have in force all that it has; 0 without one, and if configuration comes from a folder.",
		count(func(s *Stats) int { return s.Controller.InStep })),
	totals("waypoint_controller_streams_total", "Streams to the controller: that came into step, the first one and each reconnection, or tries that failed.", "result",
		split{"ok", count(func(s *Stats) uint64 { return s.Controller.Streams })},
		split{"failed", count(func(s *Stats) uint64 { return s.Controller.Failures })}),

	by("gauge", "waypoint_certificate_expiry_timestamp_seconds", "When a certificate ends, in Unix seconds: ours, and the first of the roots that we trust; 0 without one.", "certificate", []split{
		{"workload", at(func(s *Stats) time.Time { return s.Certificate.NotAfter })},
		{"root", at(func(s *Stats) time.Time { return s.Certificate.RootNotAfter })},
	}),
	totals("waypoint_certificate_renewals_total", "Renewals of our certificate.", "result",
		split{"ok", count(func(s *Stats) uint64 { return s.Certificate.Renewals })},
		split{"failed", count(func(s *Stats) uint64 { return s.Certificate.Failures })}),

	totals("waypoint_trace_spans_total", "Spans of sampled requests: delivered, refused by the collector or lost on the way to it, or dropped since too many were waiting.", "result",
		split{"exported", count(func(s *Stats) uint64 { return s.Traces.Exported })},
		split{"failed", count(func(s *Stats) uint64 { return s.Traces.Failed })},
		split{"dropped", count(func(s *Stats) uint64 { return s.Traces.Dropped })}),

	totals("waypoint_access_log_lines_total", "Access log lines: written, or dropped since standard output did not take them fast enough or at all.", "result",
		split{"written", count(func(s *Stats) uint64 { return s.AccessLog.Written })},
		split{"dropped", count(func(s *Stats) uint64 { return s.AccessLog.Dropped })}),

	gauge("waypoint_live_watchers", "Those that watch the live view.",
		count(func(s *Stats) int { return s.Live.Watchers })),
	total("waypoint_live_dropped_total", "Lines of the live view that a watcher was too slow for.",
		count(func(s *Stats) uint64 { return s.Live.Dropped })),
}

// The own metrics that Metrics knows itself.
var (
	buildInfo     = newFamily("gauge", "waypoint_build_info", "Always 1; tells what is running.", "version", "commit", "go")
	retriesTotal  = newFamily("counter", "waypoint_retries_total", "Further attempts of requests, at the same endpoint or another.")
	seriesCount   = newFamily("gauge", "waypoint_metric_series", "Sets of labels that Istio's metrics have, by table; each table has a limit.", "table")
	seriesRefused = newFamily("counter", "waypoint_metric_uncounted_total", "Reports of flows that are missing in Istio's metrics, since a further set of labels was over the limit.", "table")
)

// ownFamilies lists the own metrics, for Describe and for the documentation.
func ownFamilies() []*family {
	list := []*family{buildInfo}
	for _, s := range stats {
		list = append(list, s[0].family)
	}
	return append(list, retriesTotal, seriesCount, seriesRefused)
}

// ownCollector is the Metrics as a collector of its own families.
type ownCollector Metrics

// Describe implements [prometheus.Collector].
func (*ownCollector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range ownFamilies() {
		out <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *ownCollector) Collect(out chan<- prometheus.Metric) {
	now := c.options.Stats()
	for _, metric := range stats {
		for _, s := range metric {
			out <- s.constant(s.value(&now), s.labelValues...)
		}
	}
	o := &c.options
	out <- buildInfo.constant(1, firstOf(o.Version, unknown), firstOf(o.Commit, unknown), firstOf(o.Go, unknown))
	out <- retriesTotal.constant(float64(c.retries.Load()))
	emitTable(out, "requests", c.http)
	emitTable(out, "messages", c.messages)
	emitTable(out, "connections", c.tcp)
}

func emitTable[V any](out chan<- prometheus.Metric, name string, t *table[V]) {
	out <- seriesCount.constant(float64(t.size()), name)
	out <- seriesRefused.constant(float64(t.refused.Load()), name)
}

func (f *family) constant(v float64, labelValues ...string) prometheus.Metric {
	t := prometheus.GaugeValue
	if f.kind == "counter" {
		t = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(f.desc, t, v, labelValues...)
}
