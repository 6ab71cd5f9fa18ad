package control

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// churnRate is how many changes of endpoints a second there are elsewhere.
const churnRate = 10

// churn measures what endpoints of another namespace cost the waypoint.
func (b *bench) churn(ctx context.Context) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	quiet, err := b.cpuFor(ctx, b.running.ID, b.o.Span)
	if err != nil {
		return err
	}
	version, _, err := b.running.Snapshot(ctx)
	if err != nil {
		return err
	}
	theirs, err := b.id().CPU()
	if err != nil {
		return err
	}
	bytes, changes := b.relay.received.Load(), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { changes <- b.flap(ctx) }()
	busy, err := b.cpuFor(ctx, b.running.ID, b.o.Span)
	cancel()
	if err := errors.Join(err, <-changes); err != nil {
		return err
	}
	received := b.relay.received.Load() - bytes
	theirsAfter, err := b.id().CPU()
	if err != nil {
		return err
	}
	after, _, err := b.running.Snapshot(context.WithoutCancel(ctx))
	b.found(
		goal("endpoint churn elsewhere: bytes to the waypoint", float64(received), "B", 0),
		goal("endpoint churn elsewhere: updates of the waypoint", float64(after-version), "", 0),
		info("endpoint churn elsewhere: CPU of the waypoint", busy.Seconds()*1e3/b.o.Span.Seconds(), "ms/s"),
		info("without churn: CPU of the waypoint", quiet.Seconds()*1e3/b.o.Span.Seconds(), "ms/s"),
		info("endpoint churn elsewhere: CPU of the controller", (theirsAfter-theirs).Seconds()*1e3/b.o.Span.Seconds(), "ms/s"),
	)
	return err
}

// flap has an endpoint elsewhere come and go until ctx ends.
func (b *bench) flap(ctx context.Context) error {
	tick := time.NewTicker(time.Second / churnRate)
	defer tick.Stop()
	for up := false; ; up = !up {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := b.server.Client.Patch(ctx, slice(elsewhere, 0, up), client.MergeFrom(slice(elsewhere, 0, !up))); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
