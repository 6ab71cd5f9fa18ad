package scenario

import (
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

func TestNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range All {
		if seen[s.Name] || s.Name == "" || s.About == "" {
			t.Errorf("%q is there twice or says nothing about itself", s.Name)
		}
		seen[s.Name] = true
		if found, ok := Find(s.Name); !ok || found.About != s.About {
			t.Errorf("Find(%s) = %v, %v", s.Name, found.Name, ok)
		}
	}
	for name := range bounds {
		if !seen[name] {
			t.Errorf("bounds of %q, which is no scenario", name)
		}
	}
}

func TestCheckBounds(t *testing.T) {
	s, _ := Find("serial")
	var good, bad report.Round
	good.Set(report.Allocs, 1)
	bad.Set(report.Allocs, 1000)
	for name, c := range map[string]struct {
		r  report.Round
		ok bool
	}{"within": {good, true}, "beyond": {bad, false}, "not measured": {report.Round{}, false}} {
		if err := s.CheckBounds(c.r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecord(t *testing.T) {
	sample := load.NewSample()
	sample.Requests, sample.Sent, sample.Received, sample.Elapsed = 1000, 1e9, 1e9, 2*time.Second
	cost := target.Costs{CPU: 100 * time.Millisecond, Counted: true, Mallocs: 2000}
	var requests, bytes report.Round
	record(&requests, sample, cost, Scenario{})
	record(&bytes, sample, cost, Scenario{bytes: true})
	for m, want := range map[report.Metric]float64{report.CPUPerRequest: 100, report.RequestsPerSecond: 500, report.Allocs: 2} {
		if got := requests.Values[m]; got != want {
			t.Errorf("%v = %v, want %v", m, got, want)
		}
	}
	if got := bytes.Values[report.CPUPerGB]; got != 50 || len(bytes.Values) != 1 {
		t.Errorf("%v ms/GB, want 50 and nothing else: %v", got, bytes.Values)
	}
}

func TestParseStrace(t *testing.T) {
	out := `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100        10 read
 40.00    0.000400           8        50           write
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           6       150        10 total
`
	if got, err := parseStrace(out); err != nil || got != 150 {
		t.Errorf("%d calls, %v, want 150", got, err)
	}
	if _, err := parseStrace("nothing"); err == nil {
		t.Error("counts were found in nothing")
	}
}
