package controller

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/refusal"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// findings tells what the translators and the waypoints say of a Gateway.
func findings(f *feed.Feed, r *refusal.Known) func(client.ObjectKey) gateway.Findings {
	return func(key client.ObjectKey) gateway.Findings {
		found := gateway.Findings{
			Attached: make(map[gatewayv1.SectionName]int32),
			Refused:  r.At(discovery.Gateway{Namespace: key.Namespace, Name: key.Name}),
		}
		report, ok := f.Report(translate.Key{Kind: "Gateway", Namespace: key.Namespace, Name: key.Name})
		if !ok {
			return found
		}
		for _, l := range report.Listeners {
			found.Attached[gatewayv1.SectionName(l.Listener)] = int32(l.Routes)
		}
		found.Remarks = status.Remarks(report)
		return found
	}
}

// nudges are the Gateways whose findings may be others. Replicas that do not lead
// collect them, each once, for when they come to lead.
type nudges struct {
	due workqueue.TypedInterface[client.ObjectKey]
}

func newNudges() nudges { return nudges{workqueue.NewTyped[client.ObjectKey]()} }

// touched notes an object, if it is a Gateway.
func (n nudges) touched(key translate.Key) {
	if key.Kind == "Gateway" {
		n.due.Add(client.ObjectKey{Namespace: key.Namespace, Name: key.Name})
	}
}

// passTo hands them on. It runs on the leader, where somebody reads.
func (n nudges) passTo(gateways chan<- event.GenericEvent) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, n.due.ShutDown)
		defer stop()
		for {
			key, end := n.due.Get()
			if end {
				return nil
			}
			g := &gatewayv1.Gateway{}
			g.Namespace, g.Name = key.Namespace, key.Name
			select {
			case gateways <- event.GenericEvent{Object: g}:
			case <-ctx.Done():
				return nil
			}
			n.due.Done(key)
		}
	})
}
