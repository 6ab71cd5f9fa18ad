package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// header names the columns of the table. Smaller is better in all but requests/s.
var header = []string{"scenario", "target", "CPU us/request", "share", "requests/s", "p50", "p99", "p99.9 ms", "RSS idle", "peak", "after MiB", "more"}

// rows returns the table, one row for each result.
func (r *Report) rows() [][]string {
	var rows [][]string
	for _, x := range r.Results {
		row := []string{x.Scenario, x.name(), x.cpu(), r.share(x)}
		row = append(row, x.rate(), "", "", "")
		if l := x.Latency; l != nil {
			row = append(row[:5], figure(l.P50), figure(l.P99), figure(l.P999))
		}
		memory := []string{"", "", ""}
		if m := x.RSS; m != nil {
			memory = []string{figure(m.Idle), figure(m.Peak), figure(m.After)}
		}
		rows = append(rows, append(append(row, memory...), x.more()))
	}
	return rows
}

// name is the target with its workers.
func (x Result) name() string { return fmt.Sprintf("%s:%d", x.Target, x.Workers) }

// cpu is the least of all rounds, which was disturbed least, and the median.
func (x Result) cpu() string {
	switch {
	case x.CPUPerRequest != nil:
		return fmt.Sprintf("%s (%s)", figure(x.CPUPerRequest.Min), figure(x.CPUPerRequest.Median))
	case x.CPUPerGB != nil:
		return fmt.Sprintf("%s (%s) ms/GB", figure(x.CPUPerGB.Min), figure(x.CPUPerGB.Median))
	}
	return ""
}

func (x Result) rate() string {
	if x.RequestsPerSecond == nil {
		return ""
	}
	return figure(x.RequestsPerSecond.Max)
}

// share is the CPU cost as a share of that of Envoy with one worker, or else of
// that of another build of the waypoint.
func (r *Report) share(x Result) string {
	reference := r.find(x.Scenario, envoy1)
	if reference == nil {
		reference = r.findFirst(x.Scenario, "base")
	}
	if reference == nil || reference.name() == x.name() {
		return ""
	}
	mine, its := cost(&x), cost(reference)
	if mine == 0 || its == 0 {
		return ""
	}
	return strconv.FormatFloat(mine/its, 'f', 2, 64)
}

func cost(x *Result) float64 {
	switch {
	case x.CPUPerRequest != nil:
		return x.CPUPerRequest.Min
	case x.CPUPerGB != nil:
		return x.CPUPerGB.Min
	}
	return 0
}

// more lists what few scenarios have.
func (x Result) more() string {
	var parts []string
	add := func(format string, v float64) {
		if v > 0 {
			parts = append(parts, fmt.Sprintf(format, figure(v)))
		}
	}
	if p := x.PerStream; p != nil {
		add("%s KiB/idle stream", p.Idle)
		add("%s KiB after a request", p.AfterRequest)
		add("%s KiB/stalled stream", p.Stalled)
	}
	if e := x.EditToLive; e != nil {
		add("edit live in %s ms", e.P50)
		add("p99 %s ms", e.P99)
	}
	add("ready in %s ms", x.ReadyMS)
	for _, o := range []struct {
		format string
		v      *float64
	}{{"%s allocs/request", x.AllocsPerRequest}, {"%s syscalls/request", x.Syscalls}, {"%s heap objects/item", x.Objects}} {
		if o.v != nil { // none at all is worth saying
			parts = append(parts, fmt.Sprintf(o.format, figure(*o.v)))
		}
	}
	if x.Errors > 0 {
		parts = append(parts, fmt.Sprintf("%d ERRORS", x.Errors))
	}
	return strings.Join(parts, ", ")
}

// figure shows v with three significant digits.
func figure(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(v, 'f', min(decimals, 3), 64)
}

// find returns the result of a scenario and a target with its workers.
func (r *Report) find(scenario, target string) *Result {
	i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Scenario == scenario && x.name() == target })
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}

// findFirst returns the first result of a scenario and a target.
func (r *Report) findFirst(scenario, target string) *Result {
	i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Scenario == scenario && x.Target == target })
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}

// WriteText writes the table for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(header, "\t"))
	for _, row := range r.rows() {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// WriteMarkdown writes day, machine, table and goals for a README.
func (r *Report) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "Measured on %s: %d cores of %s, Linux %s, %s; Envoy %s. The load tool, the node proxy and the target share the cores.\n\n",
		r.Date.Format("2006-01-02"), r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go, r.version("envoy"))
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	line(slices.Repeat([]string{"---"}, len(header)))
	for _, row := range r.rows() {
		line(row)
	}
	goals := r.Goals()
	if len(goals) == 0 {
		return
	}
	fmt.Fprintln(w)
	line([]string{"goal", "wanted", "measured", ""})
	line(slices.Repeat([]string{"---"}, 4))
	for _, g := range goals {
		line(g.cells())
	}
}

func (r *Report) version(target string) string {
	for _, x := range r.Results {
		if x.Target == target {
			return x.Version
		}
	}
	return "not measured"
}
