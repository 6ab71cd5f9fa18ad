package telemetry

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every number of Stats has to show up in some metric. Each gets a value of its
// own, by reflection, so that new ones are found.
func TestStatsAreExposed(t *testing.T) {
	var s Stats
	want := map[float64]string{}
	assign(reflect.ValueOf(&s).Elem(), "Stats", want)
	m := NewMetrics(Options{Version: "v1.2.3", Commit: "abc", Go: "go1", Stats: func() Stats { return s }})
	got := scrape(t, m)
	for name, v := range got {
		if strings.HasPrefix(name, "waypoint_") {
			delete(want, v)
		}
	}
	for _, field := range want {
		t.Errorf("no metric has the value of %s", field)
	}
	for _, name := range []string{
		`waypoint_build_info{commit="abc",go="go1",version="v1.2.3"}`,
		`istio_build{component="proxy",tag="v1.2.3"}`,
	} {
		if got[name] != 1 {
			t.Errorf("%s = %v, want 1", name, got[name])
		}
	}
	if got["go_goroutines"] == 0 || got["process_open_fds"] == 0 {
		t.Error("the runtime or the process is missing")
	}
}

func assign(v reflect.Value, path string, want map[float64]string) {
	n := 1000 + len(want)
	switch x := v.Addr().Interface().(type) {
	case *int:
		*x = n
	case *int64:
		*x = int64(n)
	case *uint64:
		*x = uint64(n)
	case *time.Time:
		*x = time.Unix(int64(n), 0)
	default:
		for i := range v.NumField() {
			assign(v.Field(i), path+"."+v.Type().Field(i).Name, want)
		}
		return
	}
	want[float64(n)] = path
}

func TestStatsWithoutTimes(t *testing.T) {
	got := scrape(t, NewMetrics(Options{}))
	for _, name := range []string{
		"waypoint_config_last_success_timestamp_seconds", `waypoint_certificate_expiry_timestamp_seconds{certificate="root"}`,
	} {
		if v, ok := got[name]; !ok || v != 0 {
			t.Errorf("%s = %v (present: %v), want 0", name, v, ok)
		}
	}
}

func TestRetriesAreCounted(t *testing.T) {
	m := NewMetrics(Options{})
	f := request()
	f.Retries = 2
	m.Done(f)
	m.Done(request())
	if got := scrape(t, m)["waypoint_retries_total"]; got != 2 {
		t.Errorf("waypoint_retries_total = %v, want 2", got)
	}
}
