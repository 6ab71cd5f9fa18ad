package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/refusal"
)

// meters are the controller's own metrics, beside those of controller-runtime:
// reconciliations and their errors (controller_runtime_*), requests to the API
// server (rest_client_*), who leads (leader_election_*). Their names begin with
// waypoint_controller.
type meters struct {
	pushes, resources prometheus.Counter
	inForce           prometheus.Histogram
	refused           prometheus.Counter // clients
	rejections        prometheus.Counter
}

// Own metrics are known by this.
const metricsPrefix = "waypoint_controller"

func newMeters() *meters {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: metricsPrefix, Name: name, Help: help})
	}
	return &meters{
		pushes:    counter("pushes_total", "Pushes of configuration to waypoints."),
		resources: counter("pushed_resources_total", "Resources in those pushes, removed ones included."),
		inForce: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: metricsPrefix, Name: "push_answer_seconds", Help: "Time from a push to the waypoint's answer that it is in force, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // to 8 s
		}),
		refused:    counter("refused_clients_total", "Clients that were turned away, as they could not prove to be a waypoint."),
		rejections: counter("rejections_total", "Resources that a waypoint refused."),
	}
}

// register has everything served, until ctx ends.
func (m *meters) register(ctx context.Context, f *feed.Feed, s *discovery.Server, r *refusal.Known) error {
	list := []prometheus.Collector{m.pushes, m.resources, m.inForce, m.refused, m.rejections, state{f, s, r}}
	for _, c := range list {
		if err := metrics.Registry.Register(c); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { metrics.Registry.Unregister(c) })
	}
	return nil
}

// state is looked up as it is asked for.
type state struct {
	feed    *feed.Feed
	server  *discovery.Server
	refused *refusal.Known
}

var (
	descGateways = prometheus.NewDesc(metricsPrefix+"_gateways",
		"Gateways that configuration is translated for.", nil, nil)
	descConnected = prometheus.NewDesc(metricsPrefix+"_connected_waypoints",
		"Waypoints that are connected to this replica.", []string{"namespace", "gateway"}, nil)
	descRejected = prometheus.NewDesc(metricsPrefix+"_rejected_resources",
		"Resources that waypoints of a Gateway refuse, so that the last version stays in force.", []string{"namespace", "gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (state) Describe(c chan<- *prometheus.Desc) {
	c <- descGateways
	c <- descConnected
	c <- descRejected
}

// Collect implements prometheus.Collector.
func (s state) Collect(c chan<- prometheus.Metric) {
	gateways, rejected := s.feed.Gateways(), s.refused.Count()
	c <- prometheus.MustNewConstMetric(descGateways, prometheus.GaugeValue, float64(len(gateways)))
	for _, g := range gateways {
		c <- prometheus.MustNewConstMetric(descConnected, prometheus.GaugeValue, float64(len(s.server.Clients(g))), g.Namespace, g.Name)
		c <- prometheus.MustNewConstMetric(descRejected, prometheus.GaugeValue, float64(rejected[g]), g.Namespace, g.Name)
	}
}

func (m *meters) pushed(p discovery.Push) {
	m.pushes.Inc()
	m.resources.Add(float64(p.Resources + p.Removed))
}

func (m *meters) answered(after time.Duration, rejected int) {
	m.inForce.Observe(after.Seconds())
	m.rejections.Add(float64(rejected))
}
