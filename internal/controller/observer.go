package controller

import (
	"log/slog"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

// observer logs and counts what happens at the discovery server.
type observer struct {
	log    *slog.Logger
	meters *meters
}

// Updated implements discovery.Observer.
func (o observer) Updated(g discovery.Gateway, resources int) {
	if resources > 0 {
		o.log.Debug("the configuration of a Gateway's waypoints changed", slog.String("gateway", g.String()), slog.Int("resources", resources))
	}
}

// Connected implements discovery.Observer.
func (o observer) Connected(c discovery.Client) {
	o.log.Info("a waypoint connected", waypoint(c), slog.String("version", c.Version))
}

// Disconnected implements discovery.Observer.
func (o observer) Disconnected(c discovery.Client, err error) {
	o.log.Info("a waypoint disconnected", waypoint(c), slog.Duration("after", time.Since(c.Since)), slog.Any("reason", err))
}

// Refused implements discovery.Observer.
func (o observer) Refused(addr string, err error) {
	o.meters.refused.Inc()
	o.log.Warn("a client was turned away", slog.String("address", addr), slog.Any("reason", err))
}

// Pushed implements discovery.Observer.
func (o observer) Pushed(c discovery.Client, p discovery.Push) {
	o.meters.pushed(p)
	o.log.Debug("pushed", waypoint(c), slog.Int("resources", p.Resources), slog.Int("removed", p.Removed))
}

// Answered implements discovery.Observer.
func (o observer) Answered(c discovery.Client, after time.Duration, rejected []discovery.Rejection) {
	o.meters.answered(after, len(rejected))
	o.log.Debug("in force", waypoint(c), slog.Duration("after", after))
	for _, r := range rejected {
		o.log.Error("a waypoint refuses a resource, so its last version stays", waypoint(c),
			slog.String("resource", r.Key.String()), slog.String("reason", r.Reason))
	}
}

func waypoint(c discovery.Client) slog.Attr {
	return slog.Group("waypoint", slog.String("gateway", c.Gateway.String()), slog.String("pod", c.Name), slog.String("address", c.Addr))
}
