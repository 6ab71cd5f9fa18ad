package main

import (
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

func newRun() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "run (--config PATH | --xds ADDR --gateway NAMESPACE/NAME) " +
			"(--cert FILE --key FILE --root FILE | --ca ADDR --ca-root FILE --ca-token FILE | --workload-api SOCKET)",
		Short: "Serve as a waypoint",
		Long: `Serves HBONE tunnels as the configuration says, and follows its changes. Ready once the
first configuration and certificate are there: GET /healthz/ready on the status port.

Configuration comes from a folder of manifests, or from a controller. Should the controller be
away, it serves on as it was, after a restart too if there is a --state-dir.

The certificate comes from files, from Istio's CA or from a SPIFFE agent, and is renewed without
cutting anything. Should the CA or the agent be away, it serves on until the certificate ends.

On SIGTERM or SIGINT it drains and exits 0. What is wrong with an object is logged, shown at
/snapshot of the admin port, and found beforehand by 'waypoint validate'.`,
		Example: `  # Certificates for a first try, then a waypoint for the manifests in a folder
  waypoint certs --out certs --id spiffe://cluster.local/ns/default/sa/waypoint
  waypoint run --config mesh/ --cert certs/cert.pem --key certs/key.pem --root certs/ca.pem

  # One of several Gateways in the folder, with an access log
  waypoint run --config mesh/ --gateway shop/waypoint --access-log json ...

  # Beside a controller, as its Deployments do
  waypoint run --xds waypoint-controller.waypoint-system.svc:15012 --gateway shop/waypoint \
    --token /var/run/secrets/tokens/waypoint --xds-root /var/run/configmaps/ca.pem --state-dir /var/lib/waypoint ...

  # Certified by istiod, as a pod with Istio's projected token and root certificate
  waypoint run --ca istiod.istio-system.svc:15012 --ca-token /var/run/secrets/tokens/istio-token \
    --ca-root /var/run/secrets/istio/root-cert.pem ...`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &o) },
	}
	cmd.Flags().SortFlags = false
	o.register(cmd.Flags())
	return cmd
}

func run(cmd *cobra.Command, o *options) error {
	if err := o.check(); err != nil {
		return err
	}
	settings, err := o.settings(cmd)
	if err != nil {
		return err
	}
	app.AdoptMemoryLimit(settings.Log)
	stop, cancel := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	a, err := app.New(stop, settings)
	if err != nil {
		return unclearGateway(err)
	}
	return a.Run(stop)
}

// unclearGateway makes it a usage error that --gateway is missing or names none.
func unclearGateway(err error) error {
	if _, ok := errors.AsType[*files.GatewayError](err); ok {
		return cli.Usage(err)
	}
	return err
}

// connectTimeout is Istio's default (meshConfig.connectTimeout).
const connectTimeout = 10 * time.Second

// settings turns the flags into what the waypoint is told.
func (o *options) settings(cmd *cobra.Command) (app.Options, error) {
	log, level, err := o.logger(cmd)
	if err != nil {
		return app.Options{}, err
	}
	var hops []identity.ID
	for _, hop := range o.trustedHops {
		id, err := identity.Parse(hop)
		if err != nil {
			return app.Options{}, cli.Usagef("--trusted-hops: %w", err)
		}
		hops = append(hops, id)
	}
	settings := app.Options{
		Version: version, Commit: commit, Log: log, Level: level,
		Config: o.config, XDS: o.xds, Token: o.token, XDSRoot: o.xdsRoot, StateDir: o.stateDir, Gateway: o.gateway,
		Trust:  identity.Trust{Domain: o.trustDomain, Aliases: o.trustDomainAliases},
		Listen: o.listen, Status: o.status, Metrics: o.metrics, Admin: o.admin,
		DrainDelay: o.drainDelay, DrainTimeout: o.drainTimeout,
		AccessLog: o.accessLog, AccessLogOutput: cmd.OutOrStdout(),
		OTLPEndpoint: o.otlpEndpoint, TraceSampling: o.traceSampling,
		MaxConnections: o.maxConnections, MaxConnectionAge: o.maxConnectionAge,
		HandshakeTimeout: o.handshakeTimeout, ConnectTimeout: connectTimeout,
		IdleTimeout: o.idleTimeout, TCPIdleTimeout: o.tcpIdleTimeout, DetectTimeout: o.detectTimeout,
		MaxHeaderBytes: o.maxHeaderBytes, MaxHeaders: o.maxHeaders,
		ClientHeaders: o.clientHeaders == "on", TrustedHops: hops, TaskMode: o.mode(), Node: o.node,
	}
	err = o.certificates.apply(&settings)
	return settings, err
}
