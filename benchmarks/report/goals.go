package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// envoy1 is what shares are of: Envoy with one worker.
const envoy1 = "envoy:1"

// Goal is what a figure is to be, and what it was.
type Goal struct {
	What     string
	Limit    float64 // at most, or for AtLeast at least
	AtLeast  bool
	Unit     string // of a share: "of Envoy's"
	Measured float64
}

// Met reports whether it was reached.
func (g Goal) Met() bool {
	if g.AtLeast {
		return g.Measured >= g.Limit
	}
	return g.Measured <= g.Limit
}

func (g Goal) cells() []string {
	sign, verdict := "<=", "met"
	if g.AtLeast {
		sign = ">="
	}
	if !g.Met() {
		verdict = "missed"
	}
	return []string{g.What, fmt.Sprintf("%s %s %s", sign, figure(g.Limit), g.Unit), figure(g.Measured), verdict}
}

// value reads a figure from a result; false: it was not measured.
type value func(x *Result) (float64, bool)

// goal is one line of the table of goals. Without unit it is a share of Envoy's
// figure in the same run.
type goal struct {
	scenario, what string
	of             value
	limit          float64
	unit           string
	atLeast        bool
}

// read makes a value of a part of a result that may be absent.
func read[T any](part func(*Result) *T, of func(*T) float64) value {
	return func(x *Result) (float64, bool) {
		if p := part(x); p != nil {
			return of(p), true
		}
		return 0, false
	}
}

func least(s *Spread) float64        { return s.Min }
func itself(v *float64) float64      { return *v }
func memory(x *Result) *RSS          { return x.RSS }
func perStream(x *Result) *PerStream { return x.PerStream }

var (
	cpu        = read(func(x *Result) *Spread { return x.CPUPerRequest }, least)
	perGB      = read(func(x *Result) *Spread { return x.CPUPerGB }, least)
	rate       = read(func(x *Result) *Rate { return x.RequestsPerSecond }, func(r *Rate) float64 { return r.Max })
	p99        = read(func(x *Result) *Latency { return x.Latency }, func(l *Latency) float64 { return l.P99 })
	idle       = read(memory, func(m *RSS) float64 { return m.Idle })
	peak       = read(memory, func(m *RSS) float64 { return m.Peak })
	after      = read(memory, func(m *RSS) float64 { return m.After })
	idleStream = read(perStream, func(p *PerStream) float64 { return p.Idle })
	usedStream = read(perStream, func(p *PerStream) float64 { return p.AfterRequest })
	stalled    = read(perStream, func(p *PerStream) float64 { return p.Stalled })
	editToLive = read(func(x *Result) *Edit { return x.EditToLive }, func(e *Edit) float64 { return e.P99 })
	allocs     = read(func(x *Result) *float64 { return x.AllocsPerRequest }, itself)
	ready      = value(func(x *Result) (float64, bool) { return x.ReadyMS, x.ReadyMS > 0 })
)

var goals = []goal{
	{scenario: "published", what: "CPU per request", of: cpu, limit: 0.45},
	{scenario: "serial", what: "CPU per request", of: cpu, limit: 0.38},
	{scenario: "32x1", what: "CPU per request", of: cpu, limit: 1. / 8},
	{scenario: "16x16", what: "CPU per request", of: cpu, limit: 1. / 9},
	{scenario: "grpc-unary", what: "CPU per request", of: cpu, limit: 1. / 5},
	{scenario: "new-connection", what: "CPU per request", of: cpu, limit: 1. / 3},
	{scenario: "bulk-down", what: "CPU per GB", of: perGB, limit: 1. / 2},
	{scenario: "bulk-up", what: "CPU per GB", of: perGB, limit: 1. / 2},
	{scenario: "tcp", what: "CPU per GB", of: perGB, limit: 1. / 2},
	{scenario: "published", what: "p99", of: p99, limit: 0.55},
	{scenario: "16x16-equal", what: "p99", of: p99, limit: 0.55},
	{scenario: "32x1", what: "requests/s", of: rate, limit: 6, atLeast: true},
	{scenario: "16x16", what: "requests/s", of: rate, limit: 6, atLeast: true},
	{scenario: "start", what: "RSS idle", of: idle, limit: 0.27},
	{scenario: "32x1", what: "RSS after load", of: after, limit: 1. / 3},
	{scenario: "idle-10k", what: "memory per idle connection", of: idleStream, limit: 1. / 12},
	{scenario: "idle-10k", what: "the same after a request", of: usedStream, limit: 1. / 7},
	{scenario: "slow-reader", what: "memory per stalled stream", of: stalled, limit: 512, unit: "KiB"},
	{scenario: "routes-5000", what: "edit to live, p99", of: editToLive, limit: 30, unit: "ms"},
	{scenario: "32x1", what: "allocations per request", of: allocs, limit: 2, unit: "objects"},
	{scenario: "start", what: "ready", of: ready, limit: 150, unit: "ms"},
	{scenario: "routes-5000", what: "ready", of: ready, limit: 1000, unit: "ms"},
}

// Goals compares the waypoint with its goals, as far as both were measured.
func (r *Report) Goals() []Goal {
	var all []Goal
	for _, g := range goals {
		if got, ok := r.measured(g); ok {
			all = append(all, got)
		}
	}
	return append(all, r.routeGoals()...)
}

func (r *Report) measured(g goal) (Goal, bool) {
	ours := r.shipped(g.scenario)
	if ours == nil {
		return Goal{}, false
	}
	v, ok := g.of(ours)
	out := Goal{What: g.scenario + ": " + g.what, Limit: g.limit, AtLeast: g.atLeast, Unit: g.unit, Measured: v}
	if g.unit != "" || !ok {
		return out, ok
	}
	envoy := r.find(g.scenario, envoy1)
	if envoy == nil {
		return Goal{}, false
	}
	its, ok := g.of(envoy)
	out.Unit, out.Measured = "of Envoy's", v/its
	return out, ok && its > 0
}

// shipped returns the waypoint's result with the workers that it takes itself: it
// is measured first.
func (r *Report) shipped(scenario string) *Result { return r.findFirst(scenario, "waypoint") }

// routeGoals are those that compare two scenarios.
func (r *Report) routeGoals() []Goal {
	many, one, idle := r.shipped("routes-5000"), r.shipped("32x1"), r.shipped("start")
	if many == nil || many.RSS == nil {
		return nil
	}
	var all []Goal
	if idle != nil && idle.RSS != nil {
		all = append(all, Goal{What: "routes-5000: memory above idle", Limit: 20, Unit: "MiB", Measured: many.RSS.Idle - idle.RSS.Idle})
	}
	if one != nil && one.CPUPerRequest != nil && many.CPUPerRequest != nil {
		all = append(all, Goal{What: "routes-5000: CPU per request", Limit: 1.05, Unit: "of 32x1", Measured: many.CPUPerRequest.Min / one.CPUPerRequest.Min})
	}
	return all
}

// WriteGoals writes them for a terminal.
func (r *Report) WriteGoals(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range r.Goals() {
		c := g.cells()
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", c[0], c[1], c[2], c[3])
	}
	return tw.Flush()
}
