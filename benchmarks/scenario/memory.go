package scenario

import (
	"context"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// atOnce is how many of the idle connections are in use at a time.
const atOnce = 16

// measureIdle opens connections and lets them idle, then has each carry one
// request and idle again.
func measureIdle(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error {
	if b.Short {
		s.Load.Tunnels = 10
	}
	before, err := b.touched(ctx, i)
	if err != nil {
		return err
	}
	run, err := b.client(i).Start(ctx, s.Load)
	if err != nil {
		return err
	}
	defer run.Stop()
	streams := s.Load.Tunnels * s.Load.Conns
	if err := b.perStream(ctx, i, r, report.StreamIdle, before, streams); err != nil {
		return err
	}
	sample, err := run.Each(ctx, atOnce)
	if err != nil {
		return err
	}
	r.Errors, r.Why = sample.Errors, sample.FirstError
	return b.perStream(ctx, i, r, report.StreamAfterRequest, before, streams)
}

// touched has the target serve a little, and returns its memory after that: the code
// that has come into memory by then belongs to no stream.
func (b *Bench) touched(ctx context.Context, i *target.Instance) (int64, error) {
	run, err := b.client(i).Start(ctx, load.Spec{Target: target.HTTP, Conns: atOnce, Held: true})
	if err != nil {
		return 0, err
	}
	defer run.Stop()
	if _, err := run.Each(ctx, atOnce); err != nil {
		return 0, err
	}
	if err := b.settle(ctx); err != nil {
		return 0, err
	}
	return i.RSS()
}

// perStream records how much more memory than before each of n streams takes.
func (b *Bench) perStream(ctx context.Context, i *target.Instance, r *report.Round, m report.Metric, before int64, n int) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	now, err := i.RSS()
	r.Set(m, float64(now-before)/kib/float64(n))
	return err
}

// slowFor is how long slow readers read. What a target buffers it does in the
// first seconds.
const slowFor = 20 * time.Second

// measureSlow has clients read slower than the application sends.
func measureSlow(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error {
	span := slowFor
	if b.Short {
		span = 2 * time.Second
		s.Load.Tunnels = 20
	}
	before, err := b.touched(ctx, i)
	if err != nil {
		return err
	}
	var heap float64
	if i.Profiled() {
		if heap, err = i.HeapLive(ctx); err != nil {
			return err
		}
	}
	run, err := b.client(i).Start(ctx, s.Load)
	if err != nil {
		return err
	}
	defer run.Stop()
	if err := charge(ctx, i, s, r, func() (*load.Sample, error) { return run.Measure(ctx, span) }); err != nil {
		return err
	}
	err = b.perStream(ctx, i, r, report.StreamStalled, before, s.Load.Tunnels)
	if err != nil || !i.Profiled() {
		return err
	}
	now, err := i.HeapLive(ctx)
	r.Set(report.HeapStalled, (now-heap)/kib/float64(s.Load.Tunnels))
	return err
}
