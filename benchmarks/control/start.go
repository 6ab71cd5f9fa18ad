package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Goals, in the units of the figures.
const (
	startGoal  = 10  // s
	memoryGoal = 250 // MiB
)

// coldStart starts the controller and the waypoint. No route has a status yet, so
// that the leader has all of them to write meanwhile.
func (b *bench) coldStart(ctx context.Context) error {
	began := time.Now()
	controller := make(chan error, 1)
	go func() { controller <- b.controller.Start(ctx) }()
	running, err := b.target.StartFrom(ctx, b.network, "--xds", b.relay.addr(), "--token", b.files.token, "--xds-root", b.files.root,
		"--gateway", namespace+"/"+waypoint)
	b.running = running
	took := time.Since(began)
	if err := errors.Join(err, <-controller); err != nil {
		return err
	}
	if _, services, err := running.Snapshot(ctx); err != nil || services < b.o.Services {
		return errors.Join(err, fmt.Errorf("the waypoint is ready with %d services, want %d", services, b.o.Services))
	}
	b.found(
		goal("cold start, until the waypoint is ready with everything", took.Seconds(), "s", startGoal),
		info("cold start, bytes to the waypoint", float64(b.relay.received.Load()), "B"),
	)
	if err := eventually(ctx, b.statuses); err != nil {
		return err
	}
	b.found(info("cold start, until every route has its status", time.Since(began).Seconds(), "s"))
	if err := b.settle(ctx); err != nil {
		return err
	}
	return b.memory("1 Gateway")
}

// memory reads what the programs have resident.
func (b *bench) memory(when string) error {
	now, err := inMiB(b.id().RSS)
	peak, err2 := inMiB(b.id().PeakRSS)
	ours, err3 := inMiB(b.running.RSS)
	b.found(
		goal("memory of the controller with "+when, now, "MiB", memoryGoal),
		goal("memory of the controller with "+when+", at most until then", peak, "MiB", memoryGoal),
		info("memory of the waypoint with "+when, ours, "MiB"),
	)
	return errors.Join(err, err2, err3)
}

// statuses fails while there is a route without a status.
func (b *bench) statuses(ctx context.Context) error {
	var routes gatewayv1.HTTPRouteList
	if err := b.server.Client.List(ctx, &routes, client.InNamespace(namespace)); err != nil {
		return err
	}
	without := 0
	for i := range routes.Items {
		if len(routes.Items[i].Status.Parents) == 0 {
			without++
		}
	}
	if without == 0 {
		return nil
	}
	// Listing thousands of routes costs the API server more than writing some.
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
	}
	return fmt.Errorf("%d routes of %d have no status", without, len(routes.Items))
}

// moreGateways makes Gateways in namespaces of their own, each with a service.
func (b *bench) moreGateways(ctx context.Context) error {
	if b.o.Gateways <= 1 {
		return nil
	}
	if err := each(ctx, b.o.Gateways-1, b.addGateway); err != nil {
		return err
	}
	if err := eventually(ctx, b.programmed); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	return b.memory(fmt.Sprintf("%d Gateways", b.o.Gateways))
}

func (b *bench) addGateway(ctx context.Context, i int) error {
	ns := fmt.Sprintf("team-%d", i)
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"istio.io/use-waypoint": waypoint}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}},
		gatewayOf(ns),
	} {
		if err := create(ctx, b.server.Client, o); err != nil {
			return err
		}
	}
	return b.addService(ctx, ns, 0, fmt.Sprintf("10.3.0.%d", i+1))
}

// programmed fails while a Gateway has not been seen by the controller.
func (b *bench) programmed(ctx context.Context) error {
	var gateways gatewayv1.GatewayList
	if err := b.server.Client.List(ctx, &gateways); err != nil {
		return err
	}
	for i := range gateways.Items {
		if len(gateways.Items[i].Status.Listeners) == 0 {
			return fmt.Errorf("no status on Gateway %s/%s", gateways.Items[i].Namespace, gateways.Items[i].Name)
		}
	}
	return nil
}
