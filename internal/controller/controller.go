package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/waypoint-mesh/waypoint/internal/controller/admission"
	"github.com/waypoint-mesh/waypoint/internal/controller/ca"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/refusal"
)

// Options is everything that the controller can be told.
type Options struct {
	Log     *slog.Logger
	Version string
	// Kubeconfig is the file that says how to reach the API server; empty: as the
	// pod's ServiceAccount, else as kubectl would.
	Kubeconfig string
	// Namespace is the one that we run in: the Lease is there, and what we keep.
	Namespace string
	// Waypoints is what all waypoints have in common.
	Waypoints gateway.Settings
	// RootNamespace of the mesh, see translate.Options.
	RootNamespace string
	// MeshRoots is a file with the roots of the mesh, PEM, by which waypoints that
	// have no token are known; empty: the ConfigMap Waypoints.CARoots of Namespace.
	MeshRoots string
	// Standalone: there is no istiod beside us, so that it is for us to say of every
	// Service and route that it has no waypoint; nil: found out.
	Standalone *bool
	// Discovery, Health and Metrics are addresses to listen on, of the latter two
	// "0": not at all.
	Discovery, Health, Metrics string
	// Webhook is the port that the API server asks for admission at.
	Webhook int
	// LeaseDuration is how long the leader may be silent before another replica
	// takes over; 0: 15 s.
	LeaseDuration time.Duration
}

// Run runs the controller until ctx ends. The error is why it ended before.
func Run(ctx context.Context, o Options) error {
	logger := logr.FromSlogHandler(o.Log.Handler())
	ctrl.SetLogger(logger)
	api, err := restConfig(o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("how to reach the API server: %w", err)
	}
	host, _, err := net.SplitHostPort(o.Waypoints.Controller)
	if err != nil {
		return fmt.Errorf("where waypoints reach us: %w", err)
	}
	issuer := ca.NewIssuer(o.Log, host, "waypoint-controller."+o.Namespace+".svc") // the latter for the API server
	m, err := newManager(o, api, logger, issuer)
	if err != nil {
		return fmt.Errorf("the API server at %s: %w", api.Host, err)
	}
	if err := assemble(ctx, o, m, issuer); err != nil {
		return err
	}
	return m.Start(ctx)
}

// restConfig: without a limit of its own to requests, since the API server has its
// priorities and fairness, and a limit here would only delay status.
func restConfig(kubeconfig string) (*rest.Config, error) {
	c, err := rest.InClusterConfig()
	if kubeconfig != "" || errors.Is(err, rest.ErrNotInCluster) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = kubeconfig
		c, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	}
	if err != nil {
		return nil, err
	}
	c.QPS = -1
	return c, nil
}

func newManager(o Options, api *rest.Config, logger logr.Logger, issuer *ca.Issuer) (manager.Manager, error) {
	scheme, err := feed.NewScheme()
	if err != nil {
		return nil, err
	}
	lease := o.LeaseDuration
	if lease == 0 {
		lease = 15 * time.Second
	}
	renew, retry := lease*2/3, lease/8
	return ctrl.NewManager(api, manager.Options{
		Scheme:                 scheme,
		Logger:                 logger,
		Cache:                  cacheOptions(o.Namespace),
		HealthProbeBindAddress: o.Health,
		WebhookServer: webhook.NewServer(webhook.Options{Port: o.Webhook, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion, c.GetCertificate = tls.VersionTLS13, issuer.Certificate
		}}}),
		Metrics: metricsserver.Options{BindAddress: o.Metrics},

		LeaderElection:                true,
		LeaderElectionID:              "waypoint-controller",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true, // so that another replica takes over at once
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
}

// cacheOptions keep out of memory what nobody looks at: of the kinds that we make,
// the objects that we did not; of every object, who wrote which field.
func cacheOptions(namespace string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{gateway.LabelManagedBy: gateway.ManagedBy})}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Namespaces: map[string]cache.Config{
				namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", ca.SecretName)},
			}},
			&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{
				namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{refusal.Label: "true"})},
			}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: {
				Field: fields.OneTermEqualSelector("metadata.name", admission.ConfigurationName),
			},
			&corev1.Pod{}:                            {Transform: feed.Trim},
			&appsv1.Deployment{}:                     ours,
			&corev1.ServiceAccount{}:                 ours,
			&autoscalingv2.HorizontalPodAutoscaler{}: ours,
			&policyv1.PodDisruptionBudget{}:          ours,
		},
	}
}
