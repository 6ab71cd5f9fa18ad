// Package scenario holds what is measured, and measures it.
package scenario

import (
	"context"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// Scenario is one thing to measure.
type Scenario struct {
	Name  string
	About string
	Mesh  target.Mesh
	Load  load.Spec
	// measure overrides what is done once the target runs. Nil: drive Load.
	measure func(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error
	// ready: the time to start is a figure of this scenario.
	ready bool
	// syscalls are counted, in a span of their own: tracing slows the target.
	syscalls bool
}

const mib = 1 << 20

// All are the scenarios in the order of the report.
var All = []Scenario{
	{
		Name: "published", About: "open loop, 1,000 requests a second, 1 KB answers: the shape of Istio's own page",
		Load: load.Spec{Target: target.HTTP, Tunnels: 4, Conns: 4, Rate: 1000}, syscalls: true,
	},
	{
		Name: "serial", About: "one request after the other",
		Load: load.Spec{Target: target.HTTP}, syscalls: true,
	},
	{
		Name: "32x1", About: "32 connections in one tunnel, as fast as they are answered",
		Load: load.Spec{Target: target.HTTP, Conns: 32}, syscalls: true,
	},
}

// Find returns the scenario called name.
func Find(name string) (Scenario, bool) {
	for _, s := range All {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// wait lets time pass in which the target settles, and ends early with ctx.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
