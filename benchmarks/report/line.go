package report

import (
	"fmt"
	"strings"
)

// short is how a figure is shown in a line of progress.
var short = []struct {
	m      Metric
	format string
}{
	{CPUPerRequest, "%.1f us CPU/request"},
	{CPUPerGB, "%.0f ms CPU/GB"},
	{RequestsPerSecond, "%.0f/s"},
	{P50, "p50 %.3f ms"},
	{P99, "p99 %.3f ms"},
	{StreamIdle, "%.1f KiB/idle stream"},
	{StreamAfterRequest, "%.1f after a request"},
	{StreamStalled, "%.0f KiB/stalled stream"},
	{HeapStalled, "%.0f KiB of heap/stalled stream"},
	{EditP50, "edit live p50 %.1f ms"},
	{EditP99, "p99 %.1f ms"},
	{Ready, "ready %.0f ms"},
	{Allocs, "%.2f allocs/request"},
	{Syscalls, "%.1f syscalls/request"},
	{Objects, "%.0f heap objects/item"},
	{RSSIdle, "RSS %.0f"},
	{RSSPeak, "peak %.0f"},
	{RSSAfter, "after %.0f MiB"},
}

// String shows how the metric is written with a figure.
func (m Metric) String() string {
	for _, s := range short {
		if s.m == m {
			_, name, _ := strings.Cut(s.format, "f ")
			return name
		}
	}
	return fmt.Sprintf("metric %d", int(m))
}

// Line shows a round in one line.
func Line(r Round) string {
	var parts []string
	for _, s := range short {
		if v, ok := r.Values[s.m]; ok {
			parts = append(parts, fmt.Sprintf(s.format, v))
		}
	}
	return strings.Join(parts, ", ")
}
