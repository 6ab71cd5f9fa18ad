package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

func TestRequestMetrics(t *testing.T) {
	m := NewMetrics(Options{})
	f := request()
	m.Start(f)
	m.Done(f)
	f = request()
	f.Duration = 500 * time.Microsecond // a bound belongs to its bucket
	m.Done(f)

	labels := knownLabels("request_protocol", "http", "response_code", "200", "grpc_response_status", "", "response_flags", "-",
		"connection_security_policy", "mutual_tls")
	got := scrape(t, m).istio()
	for name, want := range map[string]float64{
		with("istio_requests_total", labels):                                       2,
		with("istio_request_duration_milliseconds_count", labels):                  2,
		with("istio_request_duration_milliseconds_sum", labels):                    12.845,
		with("istio_request_duration_milliseconds_bucket", labels) + " le=0.5":     1,
		with("istio_request_duration_milliseconds_bucket", labels) + " le=10":      1,
		with("istio_request_duration_milliseconds_bucket", labels) + " le=25":      2,
		with("istio_request_duration_milliseconds_bucket", labels) + " le=3.6e+06": 2,
		with("istio_request_bytes_sum", labels):                                    862,
		with("istio_request_bytes_bucket", labels) + " le=250":                     0,
		with("istio_request_bytes_bucket", labels) + " le=500":                     2,
		with("istio_response_bytes_sum", labels):                                   4096,
		with("istio_response_bytes_count", labels):                                 2,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (present: %v), want %v", name, v, ok, want)
		}
	}
	// Three histograms of 20 buckets, +Inf included, with sum and count; the counter.
	if want := 3*22 + 1; len(got) != want {
		t.Errorf("%d series, want %d: %v", len(got), want, slices.Sorted(maps.Keys(got)))
	}
}

func TestGRPCMetrics(t *testing.T) {
	m := NewMetrics(Options{})
	f := call()
	f.RequestMessages, f.ResponseMessages = 1, 2
	m.Progress(f)
	messages := knownLabels()
	got := scrape(t, m).istio()
	want := exposition{with("istio_request_messages_total", messages): 1, with("istio_response_messages_total", messages): 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("while it goes on (-want +got):\n%s", diff)
	}

	f.ResponseMessages, f.Status, f.GRPCStatus, f.Flags = 5, 200, "14", flow.UpstreamReset|flow.RetryLimit
	m.Done(f)
	got = scrape(t, m).istio()
	labels := knownLabels("request_protocol", "grpc", "response_code", "200", "grpc_response_status", "14",
		"response_flags", "URX,UR", "connection_security_policy", "mutual_tls")
	for name, want := range map[string]float64{
		with("istio_request_messages_total", messages):  1,
		with("istio_response_messages_total", messages): 5,
		with("istio_requests_total", labels):            1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (present: %v), want %v", name, v, ok, want)
		}
	}
}

func TestTCPMetrics(t *testing.T) {
	m := NewMetrics(Options{})
	f := connection()
	f.Received, f.Sent = 10, 20
	m.Start(f)
	m.Progress(f)
	labels := knownLabels("request_protocol", "tcp", "response_flags", "-", "connection_security_policy", "mutual_tls")
	values := func(opened, closed, sent, received float64) exposition {
		return exposition{
			with("istio_tcp_connections_opened_total", labels): opened, with("istio_tcp_connections_closed_total", labels): closed,
			with("istio_tcp_sent_bytes_total", labels): sent, with("istio_tcp_received_bytes_total", labels): received,
		}
	}
	if diff := cmp.Diff(values(1, 0, 20, 10), scrape(t, m).istio()); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	// What happens to it later does not move it to another series.
	f.Received, f.Sent, f.Flags = 11, 25, flow.UpstreamClosed
	m.Done(f)
	if diff := cmp.Diff(values(1, 1, 25, 11), scrape(t, m).istio()); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
	// One that fails before anybody heard of it shows why.
	failed := connection()
	failed.Flags, failed.Destination = flow.UpstreamFailure, nil
	m.Start(failed)
	m.Done(failed)
	if got := scrape(t, m).istio(); len(got) != 8 {
		t.Errorf("%d series after a failure, want 8: %v", len(got), got)
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*flow.Flow)
		want   map[string]string // what differs from a request of which all is known
	}{
		{"nothing known", func(f *flow.Flow) { *f = flow.Flow{Kind: flow.HTTP, Status: 404} }, map[string]string{
			"source_workload": "unknown", "source_canonical_service": "unknown", "source_canonical_revision": "latest",
			"source_workload_namespace": "unknown", "source_principal": "unknown", "source_app": "unknown", "source_version": "unknown", "source_cluster": "unknown",
			"destination_workload": "unknown", "destination_workload_namespace": "unknown", "destination_principal": "unknown",
			"destination_app": "unknown", "destination_version": "unknown", "destination_service": "unknown", "destination_canonical_service": "unknown",
			"destination_canonical_revision": "latest", "destination_service_name": "unknown", "destination_service_namespace": "unknown",
			"destination_cluster": "unknown", "response_code": "404", "connection_security_policy": "none",
		}},
		{"source workload unknown", func(f *flow.Flow) { f.Source = nil }, map[string]string{
			"source_workload": "unknown", "source_canonical_service": "unknown", "source_canonical_revision": "latest",
			"source_app": "unknown", "source_version": "unknown", "source_cluster": "unknown",
		}},
		{"certificate before address", func(f *flow.Flow) { f.Peer.Namespace = "other" }, map[string]string{
			"source_workload_namespace": "other", "source_principal": "spiffe://cluster.local/ns/other/sa/curl",
		}},
		{"no certificate", func(f *flow.Flow) { f.Peer, f.MutualTLS = flow.ID{}, false }, map[string]string{
			"source_principal": "unknown", "connection_security_policy": "none",
		}},
		{"workload's own address", func(f *flow.Flow) { f.Service = nil }, map[string]string{
			"destination_service": "reviews", "destination_service_name": "reviews", "destination_service_namespace": "bookinfo",
		}},
		{"no response", func(f *flow.Flow) { f.Status, f.Flags = 0, flow.DownstreamClosed }, map[string]string{"response_code": "0", "response_flags": "DC"}},
		{"refused by policy", func(f *flow.Flow) { f.Status, f.Flags = 403, flow.Unauthorized }, map[string]string{"response_code": "403"}},
		{"absurd status", func(f *flow.Flow) { f.Status = 1 << 40 }, map[string]string{"response_code": "999"}},
		{"gRPC without status", func(f *flow.Flow) { f.Kind = flow.GRPC }, map[string]string{"request_protocol": "grpc"}},
		{"gRPC with nonsense", func(f *flow.Flow) { f.Kind, f.GRPCStatus = flow.GRPC, "\"}\nx 1" }, map[string]string{"request_protocol": "grpc", "grpc_response_status": "2"}},
		{"gRPC above its statuses", func(f *flow.Flow) { f.Kind, f.GRPCStatus = flow.GRPC, "17" }, map[string]string{"request_protocol": "grpc", "grpc_response_status": "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := request()
			c.change(f)
			want := knownLabels("request_protocol", "http", "response_code", "200", "grpc_response_status", "", "response_flags", "-",
				"connection_security_policy", "mutual_tls")
			maps.Copy(want, c.want)
			got := map[string]string{}
			for i, v := range httpKey(f).labels() {
				got[labelNames[i]] = v
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A new snapshot brings new pointers for what did not change; the series go on.
func TestSeriesOutliveSnapshots(t *testing.T) {
	m := NewMetrics(Options{})
	for range 10 {
		f := request()
		f.Source, f.Service = new(*curl), new(*reviews)
		m.Done(f)
	}
	if got := m.http.size(); got != 1 {
		t.Errorf("%d series, want 1", got)
	}
	for name, v := range scrape(t, m) {
		if strings.HasPrefix(name, "istio_requests_total") && v != 10 {
			t.Errorf("%s = %v, want 10", name, v)
		}
	}
}

func TestSeriesKeepNoViews(t *testing.T) {
	m := NewMetrics(Options{})
	buffer := []byte("clients")
	f := request()
	f.Peer.Namespace = unsafe.String(&buffer[0], len(buffer))
	m.Done(f)
	copy(buffer, "xxxxxxx")
	m.Done(request())
	for _, s := range m.http.snapshot() {
		if s.labels[sourceWorkloadNamespace] != "clients" {
			t.Errorf("source_workload_namespace became %q with the buffer", s.labels[sourceWorkloadNamespace])
		}
	}
	if got := m.http.size(); got != 1 {
		t.Errorf("%d series, want 1", got)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	m := NewMetrics(Options{MaxSeries: 10})
	for status := range 100 {
		f := request()
		f.Status = 100 + status
		m.Done(f)
	}
	got := scrape(t, m)
	if n := got[`waypoint_metric_series{table="requests"}`]; n != 10 {
		t.Errorf("%v series, want 10", n)
	}
	if n := got[`waypoint_metric_uncounted_total{table="requests"}`]; n != 90 {
		t.Errorf("%v flows uncounted, want 90", n)
	}
}

func TestSeriesOfLostServicesExpire(t *testing.T) {
	gone := false
	m := NewMetrics(Options{Idle: time.Minute, Known: func(namespace, host string) bool {
		return !gone || namespace != "bookinfo" || host != reviews.Host
	}})
	now := time.Now()
	m.now = func() time.Time { return now }
	open := connection()
	m.Progress(open)
	m.Done(request())
	sizes := func() [2]int { return [2]int{m.http.size(), m.tcp.size()} }
	for _, step := range []struct {
		name string
		do   func()
		want [2]int
	}{
		{"fresh", func() {}, [2]int{1, 1}},
		{"idle, but there", func() { now = now.Add(time.Hour) }, [2]int{1, 1}},
		{"gone, but used just now", func() { gone = true; m.Done(request()) }, [2]int{1, 1}},
		{"gone for less than a minute", func() { now = now.Add(59 * time.Second) }, [2]int{1, 1}},
		{"gone for a minute; a connection is open", func() { now = now.Add(time.Second) }, [2]int{0, 1}},
		{"closed", func() { m.Done(open) }, [2]int{0, 1}},
		{"gone", func() { now = now.Add(time.Minute) }, [2]int{0, 0}},
		{"back", func() { m.Done(request()) }, [2]int{1, 0}},
	} {
		step.do()
		scrape(t, m)
		if got := sizes(); got != step.want {
			t.Errorf("%s: series of requests and connections: %v, want %v", step.name, got, step.want)
		}
	}
}

// Idle series of living services go only when room is needed.
func TestSeriesExpireWhenCrowded(t *testing.T) {
	m := NewMetrics(Options{MaxSeries: 8, Idle: time.Minute})
	now := time.Now()
	m.now = func() time.Time { return now }
	for status := range 8 {
		f := request()
		f.Status = 200 + status
		m.Done(f)
	}
	scrape(t, m)
	now = now.Add(time.Hour)
	m.Done(request())
	scrape(t, m)
	if got := m.http.size(); got != 1 {
		t.Errorf("%d series, want the one that is in use", got)
	}
}

func TestMetricsInParallel(t *testing.T) {
	m := NewMetrics(Options{Idle: time.Nanosecond, Known: func(string, string) bool { return true }})
	const workers, each = 4, 2000
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				f := request()
				f.Status = 200 + (i*7+w)%50
				m.Done(f)
				if i%500 == 0 {
					m.registry.Gather()
				}
			}
		})
	}
	wg.Wait()
	var sum float64
	for name, v := range scrape(t, m) {
		if strings.HasPrefix(name, "istio_requests_total") {
			sum += v
		}
	}
	if sum != workers*each {
		t.Errorf("%v requests counted, want %d", sum, workers*each)
	}
}

func TestMetricsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	m := NewMetrics(Options{})
	for name, f := range map[string]*flow.Flow{"request": request(), "call": call(), "connection": connection()} {
		m.Done(f)
		if n := testing.AllocsPerRun(100, func() {
			f.Reported = flow.Reported{}
			m.Start(f)
			m.Progress(f)
			m.Done(f)
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkMetrics(b *testing.B) {
	m := NewMetrics(Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		f := request()
		for pb.Next() {
			m.Done(f)
		}
	})
}

func BenchmarkScrape(b *testing.B) {
	m := NewMetrics(Options{})
	for status := range 500 {
		f := request()
		f.Status = status
		m.Done(f)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
