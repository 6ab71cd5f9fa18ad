package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/admission"
	"github.com/waypoint-mesh/waypoint/internal/controller/authn"
	"github.com/waypoint-mesh/waypoint/internal/controller/ca"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/refusal"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// assemble adds everything that runs to a manager.
func assemble(ctx context.Context, o Options, m manager.Manager, issuer *ca.Issuer) error {
	if err := authority(ctx, o, m, issuer); err != nil {
		return err
	}
	c, err := configuration(o, m)
	if err != nil {
		return err
	}
	toGateways, toAdmission := make(chan event.GenericEvent), make(chan event.GenericEvent)
	m.GetWebhookServer().Register(admission.Path, admission.Webhook(&admission.Handler{
		Gateway: c.feed.Gateway, Any: c.feed.Any, Fronts: c.feed.Fronts,
	}))
	return errors.Join(
		m.Add(serve(o, issuer, c.feed, c.server)),
		m.Add(c.refusals),
		c.refusals.Follow(ctx, m.GetCache()),
		m.Add(onRoots(issuer, toGateways, toAdmission)),
		m.Add(c.nudges.passTo(toGateways)),
		gateway.Setup(m, gateway.Options{
			Settings: o.Waypoints, Roots: issuer.Roots, Again: toGateways, Findings: findings(c.feed, c.refused),
		}),
		admission.Register(m, gateway.FieldManager, issuer.Roots, toAdmission),
		m.AddHealthzCheck("alive", healthz.Ping),
		c.meters.register(ctx, c.feed, c.server, c.refused),
		m.AddReadyzCheck("configuration", closed(c.feed.Synced(), "the API server's objects have not been read yet")),
		m.AddReadyzCheck("certificate", closed(issuer.Ready(), "there is no CA yet: the leader makes it")),
	)
}

// authority: the leader keeps the CA, every replica issues from it.
func authority(ctx context.Context, o Options, m manager.Manager, issuer *ca.Issuer) error {
	if err := issuer.Follow(ctx, m.GetCache()); err != nil {
		return err
	}
	return m.Add(&ca.Keeper{
		Client: m.GetClient(), Live: m.GetAPIReader(), Namespace: o.Namespace, Log: o.Log, Gone: issuer.Gone(),
	})
}

// configured is what turns objects into configuration and statuses.
type configured struct {
	feed     *feed.Feed
	server   *discovery.Server
	refused  *refusal.Known
	refusals *refusal.Share
	nudges   nudges
	meters   *meters
}

// configuration: every replica follows the API server and serves; the leader writes
// statuses.
func configuration(o Options, m manager.Manager) (c configured, err error) {
	c.nudges, c.meters = newNudges(), newMeters()
	var f *feed.Feed // the others look into it once it runs
	writer := status.NewWriter(status.Options{
		Client: m.GetClient(), ControllerName: gateway.ControllerName, FieldManager: gateway.FieldManager, Log: o.Log,
		Report:   func(key translate.Key) (feed.Report, bool) { return f.Report(key) },
		Refusals: func(key translate.Key) []status.Refusal { return c.refused.Of(key) },
	})
	c.refused = refusal.NewKnown(func(key translate.Key) { writer.Touched(key); c.nudges.touched(key) })
	c.refusals = refusal.NewShare(refusal.Options{
		Known: c.refused, Rejections: func(g discovery.Gateway) []discovery.Rejection { return c.server.Rejections(g) },
		Client: m.GetClient(), Namespace: o.Namespace, Name: "waypoint-controller-refused-" + string(uuid.NewUUID()),
		FieldManager: gateway.FieldManager, Elected: m.Elected(), Log: o.Log,
	})
	clients := authn.New(authn.Options{
		Audience: gateway.TokenAudience,
		Review: func(ctx context.Context, review *authenticationv1.TokenReview) error {
			return m.GetClient().Create(ctx, review)
		},
		Roots: meshRoots(o, m), Trust: identity.Trust{Domain: o.Waypoints.TrustDomain, Aliases: o.Waypoints.TrustDomainAliases},
	})
	c.server = discovery.New(discovery.Options{
		Authenticate: clients.Authenticate, Observer: observer{o.Log, c.meters},
		Known:    func(g discovery.Gateway) bool { return f.Gateway(g) },
		Rejected: c.refusals.Changed,
	})
	f = feed.New(feed.Options{
		ControllerName: gateway.ControllerName, Serves: o.Waypoints.Serves, Standalone: o.Standalone,
		Log: o.Log, Sink: sink{c.server, writer, c.nudges},
		Translate: translate.Options{
			TrustDomain: o.Waypoints.TrustDomain, TrustDomainAliases: o.Waypoints.TrustDomainAliases,
			ClusterDomain: o.Waypoints.ClusterDomain, ClusterID: o.Waypoints.ClusterID, RootNamespace: o.RootNamespace,
		},
	})
	follow := &feed.Follower{Feed: f, Cache: m.GetCache(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), Log: o.Log}
	c.feed = f
	return c, errors.Join(m.Add(writer), m.Add(follow))
}

// meshRoots are those by which the certificates of waypoints are known: of the file
// that was named, else where each waypoint has them too.
func meshRoots(o Options, m manager.Manager) authn.Roots {
	if o.MeshRoots != "" {
		return authn.RootsOfFile(o.MeshRoots)
	}
	return authn.RootsOfConfigMap(m.GetAPIReader(), client.ObjectKey{Namespace: o.Namespace, Name: o.Waypoints.CARoots})
}

// sink hands on what the feed finds.
type sink struct {
	*discovery.Server
	writer *status.Writer
	nudges nudges
}

// Touched implements feed.Sink.
func (s sink) Touched(key translate.Key) {
	s.writer.Touched(key)
	s.nudges.touched(key)
}

// everywhere runs on every replica.
type everywhere func(context.Context) error

func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection has it run on every replica.
func (everywhere) NeedLeaderElection() bool { return false }

// serve serves waypoints, once there is something to serve and to serve it with.
func serve(o Options, issuer *ca.Issuer, f *feed.Feed, server *discovery.Server) everywhere {
	return func(ctx context.Context) error {
		for _, ready := range []<-chan struct{}{issuer.Ready(), f.Synced()} {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil
			}
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Discovery)
		if err != nil {
			return err
		}
		running := discovery.NewGRPC(&tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: issuer.Certificate})
		server.Register(running)
		stop := context.AfterFunc(ctx, running.Stop) // waypoints go to another replica
		defer stop()
		o.Log.Info("serving waypoints", slog.String("address", listener.Addr().String()))
		return running.Serve(listener)
	}
}

// onRoots tells those who pass the roots on when they are others. It runs on the
// leader, since they do.
func onRoots(issuer *ca.Issuer, listeners ...chan<- event.GenericEvent) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-issuer.Changed():
			case <-ctx.Done():
				return nil
			}
			for _, l := range listeners {
				select {
				case l <- event.GenericEvent{Object: &gatewayv1.Gateway{}}:
				case <-ctx.Done():
					return nil
				}
			}
		}
	})
}

// closed is a check that fails until a channel is closed.
func closed(c <-chan struct{}, otherwise string) healthz.Checker {
	return func(*http.Request) error {
		select {
		case <-c:
			return nil
		default:
			return errors.New(otherwise)
		}
	}
}
