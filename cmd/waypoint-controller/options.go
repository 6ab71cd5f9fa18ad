package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/internal/controller"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// options are the flags.
type options struct {
	kubeconfig, namespace string

	image, address     string
	ca, caRoots        string
	meshRoots          string
	trustDomain        string
	trustDomainAliases []string
	clusterDomain      string
	clusterID          string
	rootNamespace      string
	revisions          []string
	standalone         string

	discovery, health, metrics string
	webhook                    int
	lease                      time.Duration
	logLevel, logFormat        string
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server; default: as the pod's ServiceAccount, else $KUBECONFIG, else ~/.kube/config")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that we run in; default: $POD_NAMESPACE")
	f.StringVar(&o.image, "waypoint-image", "", "image of the waypoints, needed")
	f.StringVar(&o.address, "address", "", "where waypoints reach us, HOST:PORT; default: waypoint-controller.NAMESPACE.svc:15012")
	f.StringVar(&o.ca, "ca", "istiod.istio-system.svc:15012", "where waypoints get their certificates: a service that speaks Istio's CA protocol, HOST:PORT")
	f.StringVar(&o.caRoots, "ca-roots", "istio-ca-root-cert", "ConfigMap in each namespace with the roots of that service, key root-cert.pem")
	f.StringVar(&o.meshRoots, "mesh-roots", "", "file with the roots of the mesh, PEM, by which waypoints are known that show a certificate and no token; default: the ConfigMap of --ca-roots in our namespace")
	f.StringVar(&o.trustDomain, "trust-domain", "cluster.local", "trust domain of the mesh")
	f.StringSliceVar(&o.trustDomainAliases, "trust-domain-aliases", nil, "further names of the trust domain")
	f.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "domain of the names of Services")
	f.StringVar(&o.clusterID, "cluster-id", "Kubernetes", "name of the cluster in the mesh, as istiod calls it")
	f.StringVar(&o.rootNamespace, "root-namespace", "istio-system", "namespace of the policies for a whole GatewayClass")
	f.StringSliceVar(&o.revisions, "revisions", nil, "values of istio.io/rev, of a Gateway or else its namespace, whose Gateways are served, such as the revision that this is and its tags; without a label it is default; default: all Gateways")
	f.StringVar(&o.standalone, "standalone", "auto", "whether there is no istiod, so that it is for us to say of Services which waypoint they have: true, false, or auto, by its GatewayClass istio-waypoint")
	f.StringVar(&o.discovery, "discovery", ":15012", "address that waypoints get their configuration from")
	f.IntVar(&o.webhook, "webhook-port", 15017, "port that the API server asks for admission at")
	f.StringVar(&o.health, "health", ":15021", "address of /healthz and /readyz")
	f.StringVar(&o.metrics, "metrics", ":15020", "address of /metrics")
	f.DurationVar(&o.lease, "lease", 15*time.Second, "how long the leader may be silent before another replica takes over")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json; the log goes to standard error")
}

// settings turns the flags into what the controller is told.
func (o *options) settings(cmd *cobra.Command) (controller.Options, error) {
	log, err := o.logger(cmd)
	if err != nil {
		return controller.Options{}, err
	}
	switch {
	case o.image == "":
		err = errors.New("--waypoint-image is needed: the image that waypoints run")
	case o.namespace == "":
		err = errors.New("--namespace or $POD_NAMESPACE is needed: the namespace that we run in")
	case o.lease < time.Second:
		err = fmt.Errorf("--lease: must be 1s or more, got %v", o.lease)
	}
	var standalone *bool
	if o.standalone != "auto" {
		alone, parseErr := strconv.ParseBool(o.standalone)
		if parseErr != nil {
			err = fmt.Errorf("--standalone: must be true, false or auto, got %q", o.standalone)
		}
		standalone = &alone
	}
	if o.address == "" {
		o.address = "waypoint-controller." + o.namespace + ".svc:15012"
	}
	return controller.Options{
		Log: log, Version: version, Kubeconfig: o.kubeconfig, Namespace: o.namespace,
		Waypoints: gateway.Settings{
			Image: o.image, Controller: o.address, CA: o.ca, ClusterID: o.clusterID, CARoots: o.caRoots,
			TrustDomain: o.trustDomain, TrustDomainAliases: o.trustDomainAliases, ClusterDomain: o.clusterDomain, Revisions: o.revisions,
		},
		RootNamespace: o.rootNamespace, Standalone: standalone, MeshRoots: o.meshRoots,
		Discovery: o.discovery, Health: o.health, Metrics: o.metrics, Webhook: o.webhook, LeaseDuration: o.lease,
	}, err
}

func (o *options) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", o.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), opts)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is none of text, json", o.logFormat)
}
