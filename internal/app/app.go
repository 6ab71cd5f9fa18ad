package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"

	"github.com/waypoint-mesh/waypoint/internal/admin"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/l4"
	"github.com/waypoint-mesh/waypoint/internal/l7"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/proxy"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/telemetry"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// App is one waypoint.
type App struct {
	o     Options
	log   *slog.Logger
	sched *task.Scheduler

	// Where configuration and identity come from.
	certs  certificates
	store  mesh.Store
	config source

	// What is told of the traffic.
	metrics   *telemetry.Metrics
	accessLog *telemetry.AccessLog // nil: off
	tracing   *telemetry.Tracing   // nil: off
	live      telemetry.Live

	// The data path, from the way out to the way in.
	tunnels  *hbone.Dialer
	upstream *upstream.Dialer
	l4       *l4.Forwarder
	l7       *l7.Forwarder
	proxy    *proxy.Proxy
	server   *hbone.Server
	listener *proxy.Listener

	// What people and Kubernetes look at.
	ready                          admin.Readiness
	configured, certified, serving *admin.Condition
	pages                          []*admin.Server
}

// New binds every port, reads certificates and configuration for the first time,
// and puts the parts together. Nothing is served before Run.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{o: o, log: o.Log, sched: task.NewScheduler(o.TaskMode)}
	a.serving = a.ready.Require("serving", "not listening yet")
	for _, step := range []func(context.Context) error{
		a.findCertificates, a.readConfiguration, a.startTelemetry, a.buildDataPath, a.bind,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.abandon(ctx))
		}
	}
	return a, nil
}

func (a *App) readConfiguration(context.Context) (err error) {
	a.configured = a.ready.Require("configuration", "none yet")
	if a.o.XDS == "" {
		a.config = a.folder()
	} else if a.config, err = a.controller(); err != nil {
		return err
	}
	if err := a.config.Load(); err != nil {
		return err
	}
	select {
	case <-a.config.Whole():
		a.configured.Met() // from the first moment that we serve
	default: // awaitConfiguration will tell
	}
	return nil
}

func (a *App) startTelemetry(ctx context.Context) (err error) {
	a.metrics = telemetry.NewMetrics(telemetry.Options{
		Version: a.o.Version, Commit: a.o.Commit, Go: runtime.Version(), Known: a.knows, Stats: a.stats, Log: a.log,
	})
	if a.o.AccessLog != "off" {
		if a.accessLog, err = telemetry.NewAccessLog(a.o.AccessLogOutput, a.o.AccessLog); err != nil {
			return err
		}
	}
	if a.o.OTLPEndpoint != "" {
		namespace, name := a.gatewayName()
		a.tracing, err = telemetry.NewTracing(ctx, telemetry.TraceOptions{
			Endpoint: a.o.OTLPEndpoint, Percent: a.o.TraceSampling, Service: name + "." + namespace, Version: a.o.Version,
			Gateway: telemetry.GatewayTags{Name: name, Namespace: namespace}, Log: a.log,
		})
	}
	return err
}

func (a *App) observer() flow.Observer {
	list := flow.Observers{}
	if a.tracing != nil { // first: it completes the trace context that others write down
		list = append(list, a.tracing)
	}
	list = append(list, a.metrics)
	if a.accessLog != nil {
		list = append(list, a.accessLog)
	}
	return append(list, &a.live)
}

func (a *App) buildDataPath(context.Context) error {
	budget, handshakes, observer := h2.NewBudget(windows(memoryLimit())), wire.NewHandshakes(0), a.observer()
	a.tunnels = hbone.NewDialer(hbone.DialerConfig{
		Scheduler: a.sched, Source: a.certs, Trust: a.o.Trust, Handshakes: handshakes, Budget: budget,
		ConnectTimeout: a.o.ConnectTimeout,
	})
	a.upstream = upstream.NewDialer(a.sched, a.tunnels, a.o.ConnectTimeout, wire.Options{})
	a.l4 = l4.New(l4.Options{Scheduler: a.sched, Store: &a.store, Observer: observer, Dial: a.dialTCP, IdleTimeout: a.o.TCPIdleTimeout})
	a.l7 = l7.New(l7.Options{
		Scheduler: a.sched, Store: &a.store, Observer: observer, Dial: a.dialHTTP, Identity: a.certs.URI, Budget: budget,
		ClientHeaders: a.o.ClientHeaders,
		TrustedHop:    func(id identity.ID) bool { return slices.Contains(a.o.TrustedHops, id) },
		Limits:        l7.Limits{MaxHeaderBytes: a.o.MaxHeaderBytes, MaxHeaders: a.o.MaxHeaders, IdleTimeout: idleOrNever(a.o.IdleTimeout)},
	})
	a.proxy = proxy.New(proxy.Options{
		Scheduler: a.sched, Store: &a.store, Observer: observer, L4: a.l4, L7: a.l7, DetectTimeout: a.o.DetectTimeout,
	})
	a.server = hbone.NewServer(hbone.ServerConfig{
		Scheduler: a.sched, TLS: identity.ServerConfig(a.certs, a.o.Trust), Handshakes: handshakes,
		HandshakeTimeout: a.o.HandshakeTimeout, MaxAge: a.o.MaxConnectionAge, IdleTimeout: a.o.IdleTimeout, Budget: budget,
	}, a.proxy)
	return nil
}

// bind listens on every port, so that what is wrong with one shows at once.
func (a *App) bind(ctx context.Context) error {
	tcp, err := wire.Listen(ctx, a.o.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s (another waypoint running, or no such address?): %w", a.o.Listen, err)
	}
	limit := memoryLimit()
	connections := maxConnections(a.o.MaxConnections, limit)
	a.log.Debug("limits", "memory", limit, "connections", connections)
	a.listener = proxy.NewListener(tcp, gate{a.server, a.config.Whole()}, connections, a.log)
	adminPages := admin.Handler(admin.Options{
		Store: &a.store, Level: a.o.Level, Watch: a.live.Watch, Metrics: a.metrics.Handler(), Ready: &a.ready,
	})
	for _, page := range []struct {
		name, addr string
		handler    http.Handler
	}{
		{"status", a.o.Status, admin.StatusHandler(&a.ready)},
		{"metrics", a.o.Metrics, admin.MetricsHandler(a.metrics.Handler())},
		{"admin", a.o.Admin, adminPages},
	} {
		s, err := admin.Listen(page.name, page.addr, page.handler, a.log)
		if err != nil {
			return fmt.Errorf("--%s: %w", page.name, err)
		}
		a.pages = append(a.pages, s)
	}
	return nil
}

// dialHTTP opens a stream that requests of many clients will share.
func (a *App) dialHTTP(t *task.Task, ep *mesh.Endpoint) (task.Stream, error) {
	return a.upstream.Open(t, ep, nil)
}

// dialTCP opens a stream for one connection, and tells the node proxy whose.
func (a *App) dialTCP(t *task.Task, ep *mesh.Endpoint, f *flow.Flow) (task.Stream, error) {
	fields := []upstream.Field{{Name: "forwarded", Value: forwarded(f)}}
	return a.upstream.Open(t, ep, fields)
}

func forwarded(f *flow.Flow) string {
	v := fmt.Sprintf("for=%q", f.PeerAddr)
	if f.Service != nil {
		v += ";host=" + f.Service.Host
	}
	return v
}

// knows reports whether a service is still there, by which its metrics are kept.
func (a *App) knows(namespace, host string) bool {
	return a.store.Load().Services[namespace+"/"+host] != nil
}

// Addr returns where HBONE is listened on.
func (a *App) Addr() netip.AddrPort { return addrPort(a.listener.Addr()) }

// StatusAddr returns where the health checks are.
func (a *App) StatusAddr() netip.AddrPort { return addrPort(a.pages[0].Addr()) }

// MetricsAddr returns where the metrics are.
func (a *App) MetricsAddr() netip.AddrPort { return addrPort(a.pages[1].Addr()) }

// AdminAddr returns where the admin pages are.
func (a *App) AdminAddr() netip.AddrPort { return addrPort(a.pages[2].Addr()) }

func addrPort(addr net.Addr) netip.AddrPort {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return tcp.AddrPort()
}
