package gatewayapi

import (
	"context"
	"log/slog"
	"path/filepath"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// startController starts what of the controller makes configuration and statuses of
// objects. It deploys nothing.
func (c *cluster) startController() *meshtest.Controller {
	c.t.Helper()
	log := slog.New(slog.NewTextHandler(c.log, nil))
	controller := c.mesh.Controller()
	var f *feed.Feed // the writer looks into it once it runs
	writer := status.NewWriter(status.Options{
		Client: c, ControllerName: gateway.ControllerName, FieldManager: gateway.FieldManager, Log: log,
		Report: func(key translate.Key) (feed.Report, bool) { return f.Report(key) },
	})
	f = feed.New(feed.Options{ControllerName: gateway.ControllerName, Sink: sink{controller, writer}, Log: log})
	informers := &informertest.FakeInformers{Scheme: c.Scheme()}
	follower := &feed.Follower{Feed: f, Cache: informers, Scheme: c.Scheme(), Mapper: c.RESTMapper(), Log: log}
	for _, start := range []func(context.Context) error{follower.Start, writer.Start} {
		c.mesh.Go(func(ctx context.Context) {
			if err := start(ctx); err != nil {
				c.t.Errorf("the controller ended with: %v", err)
			}
		})
	}
	<-f.Synced() // with nothing yet: from now on, what changes is told
	for _, kind := range feed.Kinds() {
		c.tell(informers, kind)
	}
	return controller
}

// sink hands on what the feed finds.
type sink struct {
	controller *meshtest.Controller
	writer     *status.Writer
}

func (s sink) Update(g discovery.Gateway, changes translate.Changes) (int, error) {
	s.controller.Update(g.String(), changes)
	return len(changes.Upserted) + len(changes.Removed), nil
}

func (s sink) Forget(g discovery.Gateway) { s.controller.Server().Forget(g) }

func (s sink) Touched(key translate.Key) { s.writer.Touched(key) }

// tell passes what happens to objects of a kind to their informer.
func (c *cluster) tell(informers *informertest.FakeInformers, kind client.Object) {
	c.t.Helper()
	gvk, err := apiutil.GVKForObject(kind, c.Scheme())
	c.must(err)
	list, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	c.must(err)
	events, err := c.Watch(c.t.Context(), list.(client.ObjectList))
	c.must(err)
	informer, err := informers.FakeInformerFor(c.t.Context(), kind)
	c.must(err)
	c.mesh.Go(func(ctx context.Context) {
		defer context.AfterFunc(ctx, events.Stop)()
		for event := range events.ResultChan() {
			switch obj := event.Object.(client.Object); event.Type {
			case watch.Added:
				informer.Add(obj)
			case watch.Modified:
				informer.Update(kind, obj) // what it was before does not matter, as long as it is another version
			case watch.Deleted:
				informer.Delete(obj)
			}
		}
	})
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) startWaypoint(controller *meshtest.Controller) {
	c.t.Helper()
	const name = Namespace + "/" + Waypoint
	c.waypoint = c.mesh.Waypoint("", func(o *app.Options) {
		o.Config, o.Gateway = "", name
		o.XDS, o.XDSRoot, o.Token = controller.Addr, controller.Root, controller.TokenFile(name)
		o.StateDir = filepath.Join(c.t.TempDir(), "state")
	})
}
