package telemetry

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// exposition is what a Prometheus server reads: "name{label="value",...}" by
// value, with the labels in order of their names.
type exposition map[string]float64

func scrape(t *testing.T, m *Metrics) exposition {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := exposition{}
	for name, family := range families {
		for _, metric := range family.Metric {
			got.add(name, metric)
		}
	}
	return got
}

func (e exposition) add(name string, m *dto.Metric) {
	labels := pairString(m.Label)
	switch {
	case m.Histogram != nil:
		e[name+"_count"+labels] = float64(m.Histogram.GetSampleCount())
		e[name+"_sum"+labels] = m.Histogram.GetSampleSum()
		for _, b := range m.Histogram.Bucket {
			e[fmt.Sprintf("%s_bucket%s le=%v", name, labels, b.GetUpperBound())] = float64(b.GetCumulativeCount())
		}
	case m.Gauge != nil:
		e[name+labels] = m.Gauge.GetValue()
	default:
		e[name+labels] = m.Counter.GetValue()
	}
}

func pairString(pairs []*dto.LabelPair) string {
	var all []string
	for _, p := range pairs {
		all = append(all, fmt.Sprintf("%s=%q", p.GetName(), p.GetValue()))
	}
	slices.Sort(all)
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

// istio returns the series of Istio's families, without the build's.
func (e exposition) istio() exposition {
	only := maps.Clone(e)
	maps.DeleteFunc(only, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "istio_") || strings.HasPrefix(name, "istio_build")
	})
	return only
}

// with spells a set of labels out, as the exposition has it.
func with(name string, labels map[string]string) string {
	var all []string
	for k, v := range labels {
		all = append(all, fmt.Sprintf("%s=%q", k, v))
	}
	slices.Sort(all)
	return name + "{" + strings.Join(all, ",") + "}"
}

// knownLabels are the labels of both ends, if everything is known of them.
func knownLabels(more ...string) map[string]string {
	l := map[string]string{
		"reporter": "waypoint", "source_workload": "curl", "source_canonical_service": "curl", "source_canonical_revision": "v1",
		"source_workload_namespace": "clients", "source_principal": "spiffe://cluster.local/ns/clients/sa/curl", "source_app": "curl",
		"source_version": "v1", "source_cluster": "Kubernetes",
		"destination_workload": "reviews-v2", "destination_workload_namespace": "bookinfo",
		"destination_principal": "spiffe://cluster.local/ns/bookinfo/sa/reviews", "destination_app": "reviews", "destination_version": "v2",
		"destination_service": "reviews.bookinfo.svc.cluster.local", "destination_canonical_service": "reviews",
		"destination_canonical_revision": "v2", "destination_service_name": "reviews", "destination_service_namespace": "bookinfo",
		"destination_cluster": "Kubernetes",
	}
	for i := 0; i < len(more); i += 2 {
		l[more[i]] = more[i+1]
	}
	return l
}
