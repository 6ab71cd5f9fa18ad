package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

func round1(values map[Metric]float64) Round {
	var r Round
	for m, v := range values {
		r.Set(m, v)
	}
	return r
}

func TestSummarize(t *testing.T) {
	got := Summarize("serial", &target.Target{Name: "waypoint", Workers: 2, Version: "v"}, []Round{
		round1(map[Metric]float64{CPUPerRequest: 30, RequestsPerSecond: 10, P50: 1, P90: 2, P99: 3, P999: 4, Allocs: 2}),
		round1(map[Metric]float64{CPUPerRequest: 10, RequestsPerSecond: 30, P50: 3, P90: 4, P99: 5, P999: 6, Allocs: 1}),
		round1(map[Metric]float64{CPUPerRequest: 20, RequestsPerSecond: 20, P50: 2, P90: 3, P99: 4, P999: 5, Allocs: 3}),
	})
	if *got.CPUPerRequest != (Spread{10, 20}) || *got.RequestsPerSecond != (Rate{30, 20}) || *got.Latency != (Latency{2, 3, 4, 5}) || *got.AllocsPerRequest != 1 {
		t.Errorf("%+v %+v %+v %v", got.CPUPerRequest, got.RequestsPerSecond, got.Latency, *got.AllocsPerRequest)
	}
	if got.Rounds != 3 || got.RSS != nil || got.CPUPerGB != nil || got.PerStream != nil || got.EditToLive != nil {
		t.Errorf("what was not measured is there: %+v", got)
	}
}

func TestSummarizeCountsErrors(t *testing.T) {
	got := Summarize("serial", &target.Target{}, []Round{{Errors: 2, Why: errors.New("x")}, {Errors: 3}})
	if got.Errors != 5 {
		t.Errorf("%d errors, want 5", got.Errors)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := Median(c.in); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 123456: 123500, 1.23456: 1.235, 0.000123456: 0.0001235, -12.3456: -12.35} {
		if got := round(v); got != want {
			t.Errorf("round(%v) = %v, want %v", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 12345: "12345", 123.4: "123", 12.34: "12.3", 1.234: "1.23", 0.1234: "0.123", 0.0123: "0.012"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %s, want %s", v, got, want)
		}
	}
}

// sample is a report of two targets.
func sample() *Report {
	r := &Report{Date: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Machine: Machine{CPU: "a <CPU>", Cores: 2, Kernel: "6", Go: "go1"}}
	for _, t := range []struct {
		target *target.Target
		cost   float64
	}{{&target.Target{Name: "waypoint", Workers: 2, Version: "w"}, 40}, {&target.Target{Name: "envoy", Workers: 1, Version: "1.40.0"}, 100}} {
		r.Results = append(r.Results,
			Summarize("published", t.target, []Round{round1(map[Metric]float64{
				CPUPerRequest: t.cost, RequestsPerSecond: 1000, P50: 1, P90: 1, P99: t.cost / 50, P999: 2, RSSIdle: t.cost, RSSPeak: t.cost, RSSAfter: t.cost, Allocs: 1,
			})}),
			Summarize("slow-reader", t.target, []Round{round1(map[Metric]float64{StreamStalled: t.cost * 100})}))
	}
	return r
}

func TestJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latest.json")
	if err := sample().WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Date    string
		Machine map[string]any
		Results []map[string]any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	first := got.Results[0]
	if got.Date != "2026-01-02T00:00:00Z" || got.Machine["cores"] != 2.0 || first["scenario"] != "published" || first["target"] != "waypoint" || first["workers"] != 2.0 {
		t.Errorf("%s", raw)
	}
	for _, absent := range []string{"cpu_ms_per_gb", "kib_per_stream", "edit_to_live_ms", "ready_ms", "syscalls_per_request"} {
		if v, ok := first[absent]; ok {
			t.Errorf("%s is there though it was not measured: %v", absent, v)
		}
	}
}

func TestTable(t *testing.T) {
	var text, markdown strings.Builder
	if err := sample().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	sample().WriteMarkdown(&markdown)
	for _, want := range []string{"waypoint:2", "envoy:1", "40.0 (40.0)", "0.40", "4000 KiB/stalled stream", "1.00 allocs/request"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(markdown.String(), want) {
			t.Errorf("no %q in\n%s\n%s", want, text.String(), markdown.String())
		}
	}
	for _, want := range []string{"2026-01-02", "a <CPU>", "Envoy 1.40.0", "| published: CPU per request | <= 0.450 of Envoy's | 0.400 | met |", "| slow-reader: memory per stalled stream | <= 512 KiB | 4000 | missed |"} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("no %q in\n%s", want, markdown.String())
		}
	}
}

// TestGoalsWithoutEnvoy: shares need both, absolute goals do not.
func TestGoalsWithoutEnvoy(t *testing.T) {
	r := sample()
	r.Results = r.Results[:2]
	got := r.Goals()
	if len(got) != 1 || got[0].Met() || got[0].Unit != "KiB" {
		t.Errorf("%+v, want that of stalled streams alone", got)
	}
}

func TestReplaceSection(t *testing.T) {
	got, ok := replaceSection("a\n"+begin+"old\n"+end+"b\n", "new\n")
	if want := "a\n" + begin + "new\n" + end + "b\n"; !ok || got != want {
		t.Errorf("%q, %v, want %q", got, ok, want)
	}
	for _, text := range []string{"", "a\n" + begin, end + begin} {
		if got, ok := replaceSection(text, "new"); ok {
			t.Errorf("%q became %q", text, got)
		}
	}
	if found, err := sample().UpdateSection(filepath.Join(t.TempDir(), "README.md")); found || err != nil {
		t.Errorf("a file that is not there: %v, %v", found, err)
	}
}

func TestPlots(t *testing.T) {
	dir := t.TempDir()
	if err := sample().WritePlots(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cpu.svg"))
	if err != nil {
		t.Fatal(err)
	}
	rects := 0
	for dec := xml.NewDecoder(strings.NewReader(string(raw))); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, raw)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects != 3 { // the background and two bars
		t.Errorf("%d rectangles in\n%s", rects, raw)
	}
	if _, err := os.Stat(filepath.Join(dir, "bulk.svg")); err == nil {
		t.Error("a plot of nothing")
	}
}
