// Package report turns measurements into what people read: a JSON file, tables
// for the terminal and for README, and plots.
package report

import (
	"encoding/json"
	"os"
	"time"
)

// Report is one run of the benchmark, and the schema of results/latest.json.
type Report struct {
	Date    time.Time `json:"date"`
	Machine Machine   `json:"machine"`
	Results []Result  `json:"results"`
}

// Machine is where a run took place.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// Result is what one scenario cost one target. What a scenario does not measure
// is nil and absent from the JSON.
type Result struct {
	Scenario          string     `json:"scenario"`
	Target            string     `json:"target"` // waypoint or envoy
	Version           string     `json:"version"`
	Workers           int        `json:"workers"`
	Rounds            int        `json:"rounds"`
	Errors            int64      `json:"errors"`
	CPUPerRequest     *Spread    `json:"cpu_us_per_request,omitempty"`
	CPUPerGB          *Spread    `json:"cpu_ms_per_gb,omitempty"`
	RequestsPerSecond *Rate      `json:"requests_per_second,omitempty"`
	Latency           *Latency   `json:"latency_ms,omitempty"`
	RSS               *RSS       `json:"rss_mib,omitempty"`
	PerStream         *PerStream `json:"kib_per_stream,omitempty"`
	EditToLive        *Edit      `json:"edit_to_live_ms,omitempty"`
	ReadyMS           float64    `json:"ready_ms,omitempty"`
	AllocsPerRequest  *float64   `json:"allocs_per_request,omitempty"`
	Syscalls          *float64   `json:"syscalls_per_request,omitempty"`
	Objects           *float64   `json:"heap_objects_per_item,omitempty"` // item: a route, service or policy
}

// Spread is a cost over rounds: the minimum is the least disturbed one.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
}

// Rate is a throughput over rounds.
type Rate struct {
	Max    float64 `json:"max"`
	Median float64 `json:"median"`
}

// Latency holds percentiles in milliseconds, the medians over rounds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// RSS is resident memory in MiB: before load, at most, and after it.
type RSS struct {
	Idle  float64 `json:"idle"`
	Peak  float64 `json:"peak"`
	After float64 `json:"after"`
}

// PerStream is memory per inner connection in KiB.
type PerStream struct {
	Idle         float64 `json:"idle,omitempty"`
	AfterRequest float64 `json:"after_request,omitempty"`
	Stalled      float64 `json:"stalled,omitempty"`
}

// Edit is the time from a changed file to changed behaviour, in milliseconds.
type Edit struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// WriteJSON writes r to a file.
func (r *Report) WriteJSON(path string) error {
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(out, '\n'), 0o644)
}
