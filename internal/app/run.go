package app

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// closing bounds what is left to do once nothing is served any more: writing out
// logs and spans.
const closing = 3 * time.Second

// Run serves until stop ends, and then drains: not ready any more, a GOAWAY on
// every open tunnel at once, new tunnels served until the drain delay is over,
// and the end when nothing is left, or at the drain timeout. The error is of a
// part that failed; a drain that had to cut something is logged.
func (a *App) Run(stop context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(stop))
	defer end()
	var parts sync.WaitGroup
	failed := make(chan error, 1)
	start := func(part func() error) {
		parts.Go(func() {
			if err := part(); err != nil {
				select {
				case failed <- err:
				default: // one is enough to end us
				}
			}
		})
	}
	start(func() error { return a.certs.Run(life) })
	start(func() error { a.watchCertificate(life); return nil })
	start(func() error { a.config.Run(life); return nil })
	start(func() error { a.awaitConfiguration(life); return nil })
	for _, p := range a.pages {
		start(func() error { return p.Serve(life) })
	}
	unsubscribe := a.store.Subscribe(a.changed)
	defer unsubscribe()
	start(a.listener.Serve)
	a.serving.Met()
	a.log.Info("serving", "hbone", a.Addr(), "status", a.StatusAddr(), "metrics", a.MetricsAddr(), "admin", a.AdminAddr(),
		"identity", a.certs.URI(), "version", a.o.Version)

	if err := trim(); err != nil {
		a.log.Debug("memory that only the start has needed was not given back", "error", err)
	}

	var err error
	select {
	case err = <-failed:
	case <-stop.Done():
	}
	a.drain()
	end()
	parts.Wait()
	return errors.Join(err, a.close())
}

// drain ends what is open in order.
func (a *App) drain() {
	began := time.Now()
	a.serving.NotMet("draining")
	a.log.Info("draining", "delay", a.o.DrainDelay, "timeout", a.o.DrainTimeout)
	a.server.Drain()
	a.sched.Turn(a.l7.Drain)
	delay := time.NewTimer(min(a.o.DrainDelay, a.o.DrainTimeout))
	defer delay.Stop()
	<-delay.C
	if err := a.listener.Close(); err != nil {
		a.log.Warn("closing the listener failed", "error", err)
	}
	a.server.Leave() // the tunnels that came during the delay
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(a.o.DrainTimeout))
	defer cancel()
	err := a.server.Wait(ctx)
	cut := a.server.Close() // also who has connected and said nothing yet
	if err != nil {
		a.log.Warn("the drain timeout is over", "streams cut", cut)
	}
	a.log.Info("drained", "took", time.Since(began).Round(time.Millisecond))
}

// close ends what outlives the traffic.
func (a *App) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	a.listener.Wait()
	a.sched.Turn(a.l7.Close)
	a.tunnels.Close()
	err := a.closeTelemetry(ctx)
	a.sched.Close()
	return err
}

func (a *App) closeTelemetry(ctx context.Context) (err error) {
	if a.accessLog != nil {
		err = a.accessLog.Close(ctx)
	}
	if a.tracing != nil {
		err = errors.Join(err, a.tracing.Close(ctx))
	}
	return err
}

// abandon undoes what New did before it failed.
func (a *App) abandon(ctx context.Context) error {
	var err error
	if a.listener != nil {
		err = a.listener.Close()
	}
	for _, p := range a.pages {
		err = errors.Join(err, p.Close())
	}
	a.sched.Close()
	return errors.Join(err, a.closeTelemetry(ctx))
}

// changed is told of every new snapshot. It has open TCP and upgraded connections
// ask policy again, and lets go of tunnels and connections to endpoints that have left.
func (a *App) changed(was, is *mesh.Snapshot) {
	a.sched.Go(func(b *task.Batch) {
		a.l4.Recheck(b)
		a.l7.Recheck(b)
		gone := departed(was, is)
		if len(gone) == 0 {
			return
		}
		a.letGo(b, gone)
		// Who had chosen such an endpoint before may be connecting to it right now.
		a.sched.After(a.o.ConnectTimeout, lateDials{a, gone})
	})
}

// letGo ends tunnels and idle connections to addresses whose endpoints have left.
func (a *App) letGo(b *task.Batch, gone addrs) {
	a.l7.Retain(b, func(k upstream.Key) bool { return !gone.has(k.Addr.Addr()) })
	a.tunnels.Retain(func(addr netip.AddrPort) bool { return !gone.has(addr.Addr()) })
}

// lateDials are those that were under way when endpoints left.
type lateDials struct {
	a    *App
	gone addrs
}

// Wake lets go of what they made, except where there is somebody again.
func (l lateDials) Wake(b *task.Batch) {
	now := l.a.store.Load().Workloads
	maps.DeleteFunc(l.gone, func(addr netip.Addr, _ struct{}) bool { return now[addr] != nil })
	l.a.letGo(b, l.gone)
}
