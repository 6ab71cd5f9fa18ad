package report

import (
	"math"
	"slices"

	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// Metric names one figure of a round.
type Metric int

// The metrics.
const (
	CPUPerRequest     Metric = iota // microseconds
	CPUPerGB                        // milliseconds for 10^9 bytes of bodies, both directions added
	RequestsPerSecond               //
	P50                             // milliseconds, as the three below
	P90
	P99
	P999
	RSSIdle // MiB, as the two below
	RSSPeak
	RSSAfter
	StreamIdle // KiB, as the two below
	StreamAfterRequest
	StreamStalled
	HeapStalled // KiB of live objects of ours for each stalled stream
	EditP50     // milliseconds, as the two below
	EditP99
	Ready
	Allocs   // a request
	Syscalls // a request
	Objects  // on the heap for each route, service or policy
)

// Round is what one round measured.
type Round struct {
	Errors int64
	Why    error // the first error
	Values map[Metric]float64
}

// Set records a figure, to four digits: no more of it is true.
func (r *Round) Set(m Metric, v float64) {
	if r.Values == nil {
		r.Values = make(map[Metric]float64)
	}
	r.Values[m] = round(v)
}

func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	if unit < 1 {
		return math.Round(v/unit) / math.Round(1/unit) // 1/unit is whole, unit is not
	}
	return math.Round(v/unit) * unit
}

// rounds are all rounds of a scenario and a target.
type rounds []Round

// Summarize makes a result of the rounds.
func Summarize(scenario string, t *target.Target, all []Round) Result {
	rs := rounds(all)
	r := Result{Scenario: scenario, Target: t.Name, Version: t.Version, Workers: t.Workers, Rounds: len(rs)}
	for _, round := range rs {
		r.Errors += round.Errors
	}
	r.CPUPerRequest, r.CPUPerGB = rs.spread(CPUPerRequest), rs.spread(CPUPerGB)
	if v := rs.values(RequestsPerSecond); len(v) > 0 {
		r.RequestsPerSecond = &Rate{Max: slices.Max(v), Median: Median(v)}
	}
	if rs.has(P50) {
		r.Latency = &Latency{rs.median(P50), rs.median(P90), rs.median(P99), rs.median(P999)}
	}
	if rs.has(RSSIdle) {
		r.RSS = &RSS{rs.median(RSSIdle), rs.median(RSSPeak), rs.median(RSSAfter)}
	}
	if rs.has(StreamIdle) || rs.has(StreamStalled) {
		r.PerStream = &PerStream{rs.median(StreamIdle), rs.median(StreamAfterRequest), rs.median(StreamStalled)}
	}
	if rs.has(EditP50) {
		r.EditToLive = &Edit{rs.median(EditP50), rs.median(EditP99)}
	}
	r.ReadyMS = rs.median(Ready)
	r.AllocsPerRequest, r.Syscalls, r.Objects = rs.least(Allocs), rs.least(Syscalls), rs.least(Objects)
	return r
}

// values returns a metric of the rounds that have it.
func (rs rounds) values(m Metric) []float64 {
	var vs []float64
	for _, r := range rs {
		if v, ok := r.Values[m]; ok {
			vs = append(vs, v)
		}
	}
	return vs
}

func (rs rounds) has(m Metric) bool { return len(rs.values(m)) > 0 }

func (rs rounds) median(m Metric) float64 { return Median(rs.values(m)) }

func (rs rounds) spread(m Metric) *Spread {
	v := rs.values(m)
	if len(v) == 0 {
		return nil
	}
	return &Spread{Min: slices.Min(v), Median: Median(v)}
}

func (rs rounds) least(m Metric) *float64 {
	v := rs.values(m)
	if len(v) == 0 {
		return nil
	}
	least := slices.Min(v)
	return &least
}

// Median returns the middle of vs, the mean of the two in the middle if their
// number is even, 0 for none.
func Median(vs []float64) float64 {
	n := len(vs)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(vs))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
