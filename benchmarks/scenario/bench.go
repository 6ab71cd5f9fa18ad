package scenario

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// Bench is where scenarios run.
type Bench struct {
	Network *target.Network
	TLS     *tls.Config   // of the load tool
	Span    time.Duration // to measure for, in each round
	// Short runs look at function: less warming up and settling, fewer streams.
	Short bool
	// Profiles is a folder for profiles of our waypoint under load; none: no profiles.
	Profiles string

	objects float64 // on the heap of our waypoint with nothing but the service that is called
}

// Run starts t and does one round of s.
func (b *Bench) Run(ctx context.Context, s Scenario, t *target.Target) (r report.Round, err error) {
	if b.Short {
		s.shrink()
	}
	i, err := t.Start(ctx, b.Network, s.Mesh)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; the target wrote: %s", err, i.Tail())
		}
		err = errors.Join(err, i.Stop())
	}()
	if err := b.settle(ctx); err != nil {
		return r, err
	}
	if s.ready {
		r.Set(report.Ready, float64(i.Ready.Microseconds())/1000)
	}
	measure := s.measure
	if measure == nil {
		measure = drive
	}
	if err := b.memory(ctx, i, &r, func() error { return measure(ctx, b, i, s, &r) }); err != nil {
		return r, err
	}
	return r, b.countObjects(ctx, i, s, t, &r)
}

// shrink makes the mesh small enough for a run that looks at function.
func (s *Scenario) shrink() {
	const factor = 10
	s.Mesh.Routes /= factor
	s.Mesh.Services /= factor
	s.Mesh.Policies /= factor
}

// countObjects measures how many objects each route, service or policy has on our
// waypoint's heap.
func (b *Bench) countObjects(ctx context.Context, i *target.Instance, s Scenario, t *target.Target, r *report.Round) error {
	items := s.Mesh.Routes + s.Mesh.Services + s.Mesh.Policies
	if items == 0 || !t.Ours() {
		return nil
	}
	n, err := i.HeapObjects(ctx)
	if err != nil {
		return err
	}
	if b.objects == 0 {
		if b.objects, err = b.emptyObjects(ctx, i, t); err != nil {
			return err
		}
	}
	r.Set(report.Objects, (n-b.objects)/float64(items))
	return nil
}

// emptyObjects measures a waypoint without items, in place of i.
func (b *Bench) emptyObjects(ctx context.Context, i *target.Instance, t *target.Target) (n float64, err error) {
	if err := i.Stop(); err != nil {
		return 0, err
	}
	empty, err := t.Start(ctx, b.Network, target.Mesh{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, empty.Stop()) }()
	return empty.HeapObjects(ctx)
}

// settle waits until what a start or a load has left behind is cleared away.
func (b *Bench) settle(ctx context.Context) error {
	if b.Short {
		return wait(ctx, 100*time.Millisecond)
	}
	return wait(ctx, time.Second)
}

// memory measures resident memory before fn, at most while it runs, and after.
func (b *Bench) memory(ctx context.Context, i *target.Instance, r *report.Round, fn func() error) error {
	if err := setRSS(r, report.RSSIdle, i.RSS); err != nil {
		return err
	}
	if err := errors.Join(i.ResetPeak(), fn()); err != nil {
		return err
	}
	if err := setRSS(r, report.RSSPeak, i.PeakRSS); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	return setRSS(r, report.RSSAfter, i.RSS)
}

func setRSS(r *report.Round, m report.Metric, read func() (int64, error)) error {
	bytes, err := read()
	r.Set(m, float64(bytes)/mib)
	return err
}

func (b *Bench) client(i *target.Instance) *load.Client { return load.NewClient(i.HBONE, b.TLS) }

// warmUp runs a load before it is measured, until it flows: pools are filled and
// code is paged in.
func (b *Bench) warmUp(ctx context.Context, run *load.Run) error {
	span, patience := 700*time.Millisecond, 10
	if b.Short {
		span = 100 * time.Millisecond
	}
	for range patience {
		sample, err := run.Measure(ctx, span)
		if err != nil {
			return err
		}
		if sample.Requests+sample.Received+sample.Sent > 0 {
			return nil
		}
		if sample.FirstError != nil {
			return fmt.Errorf("nothing but errors: %w", sample.FirstError)
		}
	}
	return errors.New("no answer came")
}

// drive puts the scenario's load on the target and measures it.
func drive(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error {
	run, err := b.client(i).Start(ctx, s.Load)
	if err != nil {
		return err
	}
	defer run.Stop()
	if err := b.warmUp(ctx, run); err != nil {
		return err
	}
	done := b.profile(ctx, i, s)
	if err := charge(ctx, i, s, r, func() (*load.Sample, error) { return run.Measure(ctx, b.Span) }); err != nil {
		return errors.Join(err, done())
	}
	if err := done(); err != nil {
		return err
	}
	if s.syscalls {
		return syscalls(ctx, b, i, run, r)
	}
	return nil
}

// charge records what fn got done and what that cost the target.
func charge(ctx context.Context, i *target.Instance, s Scenario, r *report.Round, fn func() (*load.Sample, error)) error {
	before, err := i.Costs(ctx)
	if err != nil {
		return err
	}
	sample, err := fn()
	if err != nil {
		return err
	}
	after, err := i.Costs(ctx)
	if err != nil {
		return err
	}
	record(r, sample, after.Minus(before), s)
	return nil
}

// measureBursts has all connections begin at once, until the span is over.
func measureBursts(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error {
	run, err := b.client(i).Start(ctx, s.Load)
	if err != nil {
		return err
	}
	defer run.Stop()
	const all = math.MaxInt
	if _, err := run.Each(ctx, all); err != nil {
		return err
	}
	return charge(ctx, i, s, r, func() (*load.Sample, error) {
		sum := load.NewSample()
		for sum.Elapsed < b.Span {
			burst, err := run.Each(ctx, all)
			if err != nil {
				return nil, err
			}
			sum.Merge(burst)
		}
		return sum, nil
	})
}

// record makes figures of a sample and of what it has cost.
func record(r *report.Round, sample *load.Sample, cost target.Costs, s Scenario) {
	r.Errors += sample.Errors
	if r.Why == nil {
		r.Why = sample.FirstError
	}
	if bytes := sample.Sent + sample.Received; s.bytes && bytes > 0 {
		r.Set(report.CPUPerGB, cost.CPU.Seconds()*1e3/(float64(bytes)/1e9))
	}
	if sample.Requests == 0 || s.bytes {
		return // how long 64 MiB took says nothing that bytes do not
	}
	n := float64(sample.Requests)
	r.Set(report.CPUPerRequest, cost.CPU.Seconds()*1e6/n)
	r.Set(report.RequestsPerSecond, n/sample.Elapsed.Seconds())
	if cost.Counted {
		r.Set(report.Allocs, max(0, cost.Mallocs/n))
	}
	for m, p := range map[report.Metric]float64{report.P50: 50, report.P90: 90, report.P99: 99, report.P999: 99.9} {
		r.Set(m, sample.Percentile(p).Seconds()*1e3)
	}
}
