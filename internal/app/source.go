package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/telemetry"
	"github.com/waypoint-mesh/waypoint/internal/translate"
	"github.com/waypoint-mesh/waypoint/internal/xds"
)

// source is where configuration comes from: it publishes to the store.
type source interface {
	// Load brings into force what is at hand. It is called once, then Run.
	Load() error
	// Run follows what changes until ctx ends.
	Run(ctx context.Context)
	// Whole is closed once there is a whole configuration.
	Whole() <-chan struct{}
	// tell fills in what the source knows of itself.
	tell(to *telemetry.Stats)
}

// folder is manifests as source.
type folder struct {
	*files.Source
	whole chan struct{} // closed
}

func (a *App) folder() source {
	f := folder{files.New(files.Options{
		Path: a.o.Config, Gateway: a.o.Gateway, Log: a.log,
		Translate: translate.Options{TrustDomain: a.o.Trust.Domain, TrustDomainAliases: a.o.Trust.Aliases, Node: a.o.Node},
	}, &a.store), make(chan struct{})}
	close(f.whole)
	return f
}

// Whole is closed: what Load brings is whole, or an error.
func (f folder) Whole() <-chan struct{} { return f.whole }

func (f folder) tell(to *telemetry.Stats) {
	s := f.Stats()
	to.Config.Updates, to.Config.LastSuccess = uint64(s.Edits), s.LastEdit
}

// controller is a controller as source.
type controller struct{ *xds.Source }

func (a *App) controller() (source, error) {
	instance, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this host, by which the controller is to know us: %w", err)
	}
	return controller{xds.New(xds.Options{
		Addr: a.o.XDS, Gateway: a.o.Gateway, Token: a.o.Token, Root: a.o.XDSRoot, Certificate: a.certs.Certificate,
		StateDir: a.o.StateDir, Instance: instance, Version: a.o.Version, Log: a.log, Waiting: a.configured.NotMet,
	}, &a.store)}, nil
}

func (c controller) tell(to *telemetry.Stats) {
	s := c.Stats()
	to.Config.Updates, to.Config.LastSuccess = s.Updates, s.Last
	to.Controller = telemetry.ControllerStats{Streams: s.Streams, Failures: s.Failures}
	if s.Connected {
		to.Controller.InStep = 1
	}
}

// awaitConfiguration has us get ready once there is a configuration.
func (a *App) awaitConfiguration(ctx context.Context) {
	select {
	case <-a.config.Whole():
		a.configured.Met()
	case <-ctx.Done():
	}
}

// gatewayName is which one we are. A controller may not have told us more yet.
func (a *App) gatewayName() (namespace, name string) {
	if namespace, name, ok := strings.Cut(a.o.Gateway, "/"); ok {
		return namespace, name
	}
	g := a.store.Load().Gateway
	return g.Namespace, g.Name
}

// gate turns connections away while there is no configuration: a client that is
// refused goes to another waypoint, one that is told 404 does not.
type gate struct {
	*hbone.Server
	whole <-chan struct{}
}

var errNothingToServe = errors.New("refused: there is no configuration yet")

// ServeConn implements proxy.Server.
func (g gate) ServeConn(tcp *net.TCPConn) error {
	select {
	case <-g.whole:
		return g.Server.ServeConn(tcp)
	default:
		return errors.Join(errNothingToServe, tcp.SetLinger(0), tcp.Close())
	}
}
