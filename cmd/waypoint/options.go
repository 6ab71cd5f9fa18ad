package main

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// options are the flags of `waypoint run`.
type options struct {
	config                        string
	xds, token, xdsRoot, stateDir string
	gateway                       string

	certificates       certificateOptions
	trustDomain        string
	trustDomainAliases []string

	listen, status, metrics, admin string

	drainDelay, drainTimeout time.Duration

	accessLog           string
	logLevel, logFormat string
	otlpEndpoint        string
	traceSampling       float64

	maxConnections   int
	maxConnectionAge time.Duration
	handshakeTimeout time.Duration
	idleTimeout      time.Duration
	tcpIdleTimeout   time.Duration
	detectTimeout    time.Duration
	maxHeaderBytes   int
	maxHeaders       int
	clientHeaders    string
	trustedHops      []string
	taskMode         string
	node             string
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "", "folder (recursive) or file of Kubernetes manifests to serve from; followed while running")
	f.StringVar(&o.xds, "xds", "", "controller to be configured by instead, HOST:PORT; its certificate has to name HOST")
	f.StringVar(&o.token, "token", "", "file with the token that proves to the controller who we are, re-read when it is renewed; default: --cert does")
	f.StringVar(&o.xdsRoot, "xds-root", "", "the controller's CA, PEM, re-read for each connection; default: the roots of the system")
	f.StringVar(&o.stateDir, "state-dir", "", "folder to keep the last configuration in, so that a restart serves without the controller; default: nowhere")
	f.StringVar(&o.gateway, "gateway", "", "which waypoint we are, NAMESPACE/NAME; default: the only Gateway of class waypoint in the folder")
	o.certificates.register(f)
	f.StringVar(&o.trustDomain, "trust-domain", "cluster.local", "trust domain of the mesh")
	f.StringSliceVar(&o.trustDomainAliases, "trust-domain-aliases", nil, "further names of the trust domain")
	f.StringVar(&o.listen, "listen", ":15008", "address for HBONE tunnels; both IP families where the host part is empty")
	f.StringVar(&o.status, "status", ":15021", "address of /healthz/ready and /healthz/live")
	f.StringVar(&o.metrics, "metrics", ":15020", "address of /metrics and /stats/prometheus")
	f.StringVar(&o.admin, "admin", "127.0.0.1:15000", "address of the admin pages")
	f.DurationVar(&o.drainDelay, "drain-delay", 5*time.Second, "on SIGTERM: how long new connections are still served")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 30*time.Second, "on SIGTERM: after how long what still runs is cut")
	f.StringVar(&o.accessLog, "access-log", "off", "access log on standard output: off, text or json")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json; the log goes to standard error")
	f.StringVar(&o.otlpEndpoint, "otlp-endpoint", "", "where to send traces, OTLP over gRPC: HOST:PORT or http://HOST:PORT in clear text, https://HOST:PORT; default: nowhere")
	f.Float64Var(&o.traceSampling, "trace-sampling", 1, "percentage of requests traced that arrive without a trace")
	f.IntVar(&o.maxConnections, "max-connections", 0, "tunnels open at once; 0: one for each 512 KiB of the memory limit (of the cgroup, or GOMEMLIMIT), any number without one")
	f.DurationVar(&o.maxConnectionAge, "max-connection-age", 0, "after about how long a tunnel is asked to reconnect, so that load spreads over replicas; 0: never")
	f.DurationVar(&o.handshakeTimeout, "handshake-timeout", 10*time.Second, "time for a TLS handshake")
	f.DurationVar(&o.idleTimeout, "idle-timeout", time.Hour, "after how long an idle HTTP connection is closed; 0: never")
	f.DurationVar(&o.tcpIdleTimeout, "tcp-idle-timeout", 0, "the same for TCP; 0: never")
	f.DurationVar(&o.detectTimeout, "detect-timeout", 200*time.Millisecond, "how long the first bytes on an undeclared port are waited for before it is taken for TCP")
	f.IntVar(&o.maxHeaderBytes, "max-header-bytes", 60<<10, "size of a request's header section; above: 431")
	f.IntVar(&o.maxHeaders, "max-headers", 1000, "number of header fields of a request; above: 431")
	f.StringVar(&o.clientHeaders, "client-headers", "on", "x-forwarded-for and x-forwarded-client-cert towards applications: on or off")
	f.StringSliceVar(&o.trustedHops, "trusted-hops", nil, "SPIFFE identities whose x-forwarded-for is believed for remoteIpBlocks")
	f.StringVar(&o.taskMode, "task-mode", task.Coroutines.String(), "what exchanges run on, for diagnosis: coroutines or goroutines")
	f.StringVar(&o.node, "node", "", "Node that we run on, for services that prefer near endpoints")
}

// maxHeaderBytes is what the HTTP/2 window of a stream takes in: the rest of a
// larger head would not come before the first of it is read.
const maxHeaderBytes = 256 << 10

// check finds what is wrong with the flags before anything is started.
func (o *options) check() error {
	if err := o.checkSource(); err != nil {
		return err
	}
	if err := o.certificates.check(o.trustDomain); err != nil {
		return err
	}
	return errors.Join(
		checkGateway(o.gateway),
		cli.OneOf("access-log", o.accessLog, "off", "text", "json"),
		cli.OneOf("log-format", o.logFormat, "text", "json"),
		cli.OneOf("client-headers", o.clientHeaders, "on", "off"),
		cli.OneOf("task-mode", o.taskMode, task.Coroutines.String(), task.Goroutines.String()),
		hostPort("listen", o.listen), hostPort("status", o.status), hostPort("metrics", o.metrics), hostPort("admin", o.admin),
		o.checkNumbers(), o.checkCollector(),
	)
}

// checkSource finds what is wrong with where configuration is to come from.
func (o *options) checkSource() error {
	switch {
	case o.config == "" && o.xds == "":
		return cli.Usagef("--config is needed, a folder or file of manifests; or --xds, the address of a controller")
	case o.config != "" && o.xds != "":
		return cli.Usagef("--config and --xds exclude each other: configuration comes from manifests or from a controller")
	case o.xds == "" && (o.token != "" || o.xdsRoot != "" || o.stateDir != ""):
		return cli.Usagef("--token, --xds-root and --state-dir belong to --xds, which is not given")
	case o.xds == "":
		return nil
	case o.gateway == "":
		return cli.Usagef("--gateway NAMESPACE/NAME is needed with --xds: the controller has to be told which waypoint we are")
	}
	return hostPort("xds", o.xds)
}

func (o *options) checkCollector() error {
	if o.otlpEndpoint == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.otlpEndpoint); err == nil {
		return nil
	}
	if u, err := url.Parse(o.otlpEndpoint); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return nil
	}
	return cli.Usagef("--otlp-endpoint: %q is not HOST:PORT, http://HOST:PORT or https://HOST:PORT", o.otlpEndpoint)
}

func (o *options) checkNumbers() error {
	for name, d := range map[string]time.Duration{
		"drain-delay": o.drainDelay, "drain-timeout": o.drainTimeout, "max-connection-age": o.maxConnectionAge,
		"idle-timeout": o.idleTimeout, "tcp-idle-timeout": o.tcpIdleTimeout, "detect-timeout": o.detectTimeout,
	} {
		if d < 0 {
			return cli.Usagef("--%s: must not be negative, got %v", name, d)
		}
	}
	switch {
	case o.handshakeTimeout <= 0:
		return cli.Usagef("--handshake-timeout: must be positive, got %v", o.handshakeTimeout)
	case o.traceSampling < 0 || o.traceSampling > 100:
		return cli.Usagef("--trace-sampling: a percentage from 0 to 100, got %v", o.traceSampling)
	case o.maxConnections < 0:
		return cli.Usagef("--max-connections: must not be negative, got %d", o.maxConnections)
	case o.maxHeaderBytes < 1024 || o.maxHeaderBytes > maxHeaderBytes:
		return cli.Usagef("--max-header-bytes: from 1024 to %d, got %d", maxHeaderBytes, o.maxHeaderBytes)
	case o.maxHeaders < 10 || o.maxHeaders > 10000:
		return cli.Usagef("--max-headers: from 10 to 10000, got %d", o.maxHeaders)
	}
	return nil
}

// mode returns the task mode that was asked for.
func (o *options) mode() task.Mode {
	if o.taskMode == task.Goroutines.String() {
		return task.Goroutines
	}
	return task.Coroutines
}

// logger returns the log of the process and its level, which may be changed.
func (o *options) logger(cmd *cobra.Command) (*slog.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, nil, cli.Usagef("--log-level: %q is none of debug, info, warn, error", o.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), opts)), level, nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), opts)), level, nil
}

func hostPort(flag, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return cli.Usagef("--%s: %q is not HOST:PORT or :PORT", flag, value)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > 65535) {
		return cli.Usagef("--%s: %d is not a port from 0 to 65535", flag, n)
	}
	return nil
}
