package xds_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/translate"
	"github.com/waypoint-mesh/waypoint/internal/xds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ours = "shop/waypoint"

// client is a source that follows a controller.
type client struct {
	*xds.Source
	*meshtest.Mesh
	store mesh.Store
	log   meshtest.Buffer
	end   func() // of Run; returns when it has
}

// follow starts a source.
func follow(t testing.TB, m *meshtest.Mesh, o xds.Options) *client {
	t.Helper()
	c := &client{Mesh: m}
	o.Gateway, o.Instance, o.Version = ours, "waypoint-1", "test"
	o.Log = slog.New(slog.NewTextHandler(&c.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.Source = xds.New(o, &c.store)
	if err := c.Load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	c.end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			t.Logf("the log of the source:\n%s", c.log.String())
		}
	})
	return c
}

// of are the usual options for a controller.
func of(c *meshtest.Controller) xds.Options {
	return xds.Options{Addr: c.Addr, Root: c.Root, Token: c.TokenFile(ours)}
}

// await waits for something to be so in the snapshot.
func (c *client) await(what string, so func(*mesh.Snapshot) bool) {
	c.Eventually(what, func() bool { return so(c.store.Load()) })
}

// awaitStep waits until all that the controller has is in force.
func (c *client) awaitStep() {
	c.Eventually("in step", func() bool { return c.Stats().Connected })
}

func upsert(messages ...proto.Message) (c translate.Changes) {
	for _, m := range messages {
		c.Upserted = append(c.Upserted, api.Of(m))
	}
	return c
}

func remove(messages ...proto.Message) (c translate.Changes) {
	for _, m := range messages {
		c.Removed = append(c.Removed, api.Of(m).Key)
	}
	return c
}

func gateway() *waypointv1.Gateway {
	return &waypointv1.Gateway{Namespace: "shop", Name: "waypoint", Hostname: "waypoint.shop.svc.cluster.local"}
}

func host(name string) string { return name + ".shop.svc.cluster.local" }

// service is one that the gateway fronts, with an address of its own.
func service(n int) *workload.Service {
	s := other(n)
	s.Waypoint = &workload.GatewayAddress{Destination: &workload.GatewayAddress_Hostname{
		Hostname: &workload.NamespacedHostname{Namespace: "shop", Hostname: gateway().Hostname},
	}}
	return s
}

// other is one that it does not front.
func other(n int) *workload.Service {
	name := fmt.Sprintf("s%d", n)
	return &workload.Service{
		Name: name, Namespace: "shop", Hostname: host(name),
		Addresses: []*workload.NetworkAddress{{Address: []byte{10, 1, byte(n >> 8), byte(n)}}},
		Ports:     []*workload.Port{{ServicePort: 80, TargetPort: 8080, AppProtocol: workload.AppProtocol_HTTP11}},
	}
}

func key(s *workload.Service) string { return s.ResourceName() }

// pod serves services.
func pod(n int, services ...*workload.Service) *workload.Workload {
	w := &workload.Workload{
		Uid: workload.PodUID("Kubernetes", "shop", fmt.Sprintf("pod-%d", n)), Name: fmt.Sprintf("pod-%d", n), Namespace: "shop",
		Addresses: [][]byte{{10, 2, byte(n >> 8), byte(n)}},
		Services:  make(map[string]*workload.PortList),
	}
	for _, s := range services {
		w.Services[key(s)] = &workload.PortList{Ports: []*workload.Port{{ServicePort: 80, TargetPort: 8080}}}
	}
	return w
}

// route sends what has a path below prefix, on one service, to another.
func route(name string, from, to *workload.Service, prefix string) *waypointv1.Route {
	return &waypointv1.Route{
		Kind: waypointv1.RouteKind_HTTP_ROUTE, Namespace: "shop", Name: name,
		Parents: []*waypointv1.RouteParent{{Target: &waypointv1.RouteParent_Service{Service: &waypointv1.ServiceRef{Namespace: "shop", Hostname: from.Hostname}}}},
		Rules: []*waypointv1.RouteRule{{
			Matches: []*waypointv1.RouteMatch{{Kind: &waypointv1.RouteMatch_Http{Http: &waypointv1.HttpMatch{Path: &waypointv1.HttpMatch_Prefix{Prefix: prefix}}}}},
			Backends: []*waypointv1.Backend{{
				Target: &waypointv1.Backend_Service{Service: &waypointv1.ServiceRef{Namespace: "shop", Hostname: to.Hostname}}, Port: 80, Weight: 1,
			}},
		}},
	}
}

// broken makes a route one that does not compile.
func broken(r *waypointv1.Route) *waypointv1.Route {
	r.Rules[0].Matches[0].GetHttp().Path = &waypointv1.HttpMatch_Regex{Regex: "("}
	return r
}

// policy denies everything on a service.
func policy(name string, s *workload.Service) *waypointv1.AuthorizationPolicy {
	return &waypointv1.AuthorizationPolicy{
		Namespace: "shop", Name: name, Action: waypointv1.AuthorizationPolicy_ALLOW,
		Targets: []*waypointv1.AuthorizationPolicy_Target{{Kind: &waypointv1.AuthorizationPolicy_Target_Service{
			Service: &waypointv1.ServiceRef{Namespace: "shop", Hostname: s.Hostname},
		}}},
	}
}

func mustGateway(t testing.TB) discovery.Gateway {
	t.Helper()
	g, err := discovery.ParseGateway(ours)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
