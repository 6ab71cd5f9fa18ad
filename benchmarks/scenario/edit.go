package scenario

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// measureRoutes drives the load, then edits a route.
func measureRoutes(ctx context.Context, b *Bench, i *target.Instance, s Scenario, r *report.Round) error {
	if err := drive(ctx, b, i, s, r); err != nil {
		return err
	}
	if !i.Editable() {
		return nil // what brings an edit to Envoy is istiod, which does not run here
	}
	edits := 50
	if b.Short {
		edits = 5
	}
	times, err := editToLive(ctx, b, i, edits)
	if err != nil {
		return err
	}
	slices.Sort(times)
	r.Set(report.EditP50, times[len(times)/2].Seconds()*1e3)
	r.Set(report.EditP99, times[len(times)*99/100].Seconds()*1e3)
	return nil
}

const (
	askRate  = 1000 // requests a second that ask for the version: the resolution
	editWait = 10 * time.Second
)

// editToLive edits a route n times, and measures each time from the change of the
// file to the first answer that shows it.
func editToLive(ctx context.Context, b *Bench, i *target.Instance, n int) ([]time.Duration, error) {
	var seen atomic.Int64
	news := make(chan struct{}, 1)
	if err := i.Edit(0); err != nil {
		return nil, err
	}
	run, err := b.client(i).Start(ctx, load.Spec{Target: target.HTTP, Conns: 4, Path: "/version", Rate: askRate, Answer: func(body []byte) {
		v, err := strconv.ParseInt(string(body), 10, 64)
		if err != nil || v <= seen.Load() {
			return // the route is not there yet, or a late answer
		}
		seen.Store(v)
		select {
		case news <- struct{}{}:
		default: // there is word already that something came
		}
	}})
	if err != nil {
		return nil, err
	}
	defer run.Stop()
	var times []time.Duration
	for v := 1; v <= n; v++ {
		start := time.Now()
		if err := i.Edit(v); err != nil {
			return nil, err
		}
		for seen.Load() < int64(v) {
			select {
			case <-news:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(editWait):
				return nil, fmt.Errorf("edit %d of a route was not live after %v", v, editWait)
			}
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}
