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
	// measure is what is done while the target runs. Nil: drive Load.
	measure func(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error
	bytes   bool // counts bytes of bodies rather than requests
	ready   bool // the time to start is a figure of this scenario
	// Once: its figure is of memory and takes long, so that one round has to do.
	Once bool
	// syscalls are counted in a span of their own: tracing slows the target.
	syscalls bool
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// closed32 is the load that shows the cost of what a mesh holds: every core is
// busy, and little but the target's own work is left of a request.
var closed32 = load.Spec{Target: target.HTTP, Conns: 32}

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
		Name: "32x1", About: "32 connections in one tunnel, each one request after the other",
		Load: closed32, syscalls: true,
	},
	{
		Name: "16x16", About: "16 tunnels of 16 connections, each one request after the other",
		Load: load.Spec{Target: target.HTTP, Tunnels: 16, Conns: 16}, syscalls: true,
	},
	{
		Name: "16x16-equal", About: "the same connections, open loop, 4,000 requests a second: latency at a load that all can carry",
		Load: load.Spec{Target: target.HTTP, Tunnels: 16, Conns: 16, Rate: 4000},
	},
	{
		Name: "grpc-unary", About: "gRPC, 32 calls at a time in one connection",
		Load: load.Spec{Target: target.GRPC, Protocol: load.GRPCUnary, Calls: 32}, syscalls: true,
	},
	{
		Name: "grpc-stream", About: "gRPC, 32 open calls in one connection; a request is a message and its answer",
		Load: load.Spec{Target: target.GRPC, Protocol: load.GRPCStream, Calls: 32},
	},
	{
		Name: "new-connection", About: "2,100 requests at once, each on a new connection in one of 21 tunnels, again and again",
		Load: load.Spec{Target: target.HTTP, Tunnels: 21, Conns: 100, OneShot: true, Held: true}, measure: measureBursts,
	},
	{
		Name: "bulk-down", About: "answers of 64 MiB, 4 at a time in one tunnel", bytes: true,
		Load: load.Spec{Target: target.HTTP, Conns: 4, Path: "/size/67108864"},
	},
	{
		Name: "bulk-up", About: "requests of 64 MiB, 4 at a time in one tunnel", bytes: true,
		Load: load.Spec{Target: target.HTTP, Conns: 4, Path: "/size/2", Upload: 64 * mib},
	},
	{
		Name: "tcp", About: "TCP, 4 connections in one tunnel that send and take back", bytes: true,
		Load: load.Spec{Target: target.TCP, Protocol: load.TCP, Conns: 4, Upload: 16 * mib},
	},
	{
		Name: "idle-10k", About: "10,000 idle connections in 100 tunnels, before and after one request on each",
		Load: load.Spec{Target: target.HTTP, Tunnels: 100, Conns: 100, Held: true}, measure: measureIdle,
	},
	{
		Name: "slow-reader", About: "50 clients that take 1 MB/s of an answer of 1 GiB", bytes: true,
		Load: load.Spec{Target: target.HTTP, Tunnels: 50, Path: "/size/1073741824", ReadRate: 1e6}, measure: measureSlow, Once: true,
	},
	{
		Name: "routes-5000", About: "5,000 routes before the one that matches; the load of 32x1", ready: true,
		Mesh: target.Mesh{Routes: 5000}, Load: closed32, measure: measureRoutes,
	},
	{
		Name: "services-500", About: "500 more services; the load of 32x1", ready: true,
		Mesh: target.Mesh{Services: 500}, Load: closed32,
	},
	{
		Name: "policies-1000", About: "1,000 policies that do not match; the load of 32x1", ready: true,
		Mesh: target.Mesh{Policies: 1000}, Load: closed32,
	},
	{
		Name: "start", About: "from exec to ready, and memory when idle", ready: true,
		measure: func(context.Context, *Bench, *target.Instance, Scenario, *report.Round) error { return nil },
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
