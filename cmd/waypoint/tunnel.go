package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/tunnel"
)

// tunnelFlags are the flags of `waypoint tunnel`.
type tunnelFlags struct {
	waypoint, waypointID string
	cert, key, root      string
	forwards             []string
	socks5               string
}

func newTunnel() *cobra.Command {
	var o tunnelFlags
	cmd := &cobra.Command{
		Use:   "tunnel --waypoint HOST:PORT --cert FILE --key FILE --root FILE (--forward LOCAL=TARGET ... | --socks5 LOCAL)",
		Short: "Enter the mesh through a waypoint, without a node proxy",
		Long: `Accepts local TCP connections and carries each to a target in an HBONE stream to a waypoint,
half-closes included, as a ztunnel does for its pods. So curl, gRPC clients and browsers become
clients of the mesh, with the identity of the certificate.`,
		Example: `  waypoint tunnel --waypoint 127.0.0.1:15008 --cert client/cert.pem --key client/key.pem --root client/ca.pem \
    --forward 127.0.0.1:8080=10.0.0.1:8080
  curl http://127.0.0.1:8080/

  waypoint tunnel --waypoint 127.0.0.1:15008 --cert client/cert.pem --key client/key.pem --root client/ca.pem \
    --socks5 127.0.0.1:1080
  curl --proxy socks5h://127.0.0.1:1080 http://reviews.default.svc.cluster.local:8080/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTunnel(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.waypoint, "waypoint", "", "where the waypoint takes tunnels")
	f.StringVar(&o.waypointID, "waypoint-id", "", "SPIFFE identity that it has to prove; default: anybody's that the roots vouch for")
	f.StringVar(&o.cert, "cert", "", "our certificate, PEM")
	f.StringVar(&o.key, "key", "", "its private key, PEM")
	f.StringVar(&o.root, "root", "", "roots of the mesh, PEM")
	f.StringArrayVar(&o.forwards, "forward", nil, "LOCAL=TARGET: carry connections to the local address to TARGET; may be repeated")
	f.StringVar(&o.socks5, "socks5", "", "local address of a SOCKS5 proxy for any target")
	return cmd
}

func runTunnel(cmd *cobra.Command, o *tunnelFlags) error {
	forwards, err := o.parseForwards()
	if err != nil {
		return err
	}
	waypoint, err := o.destination(cmd.Context())
	if err != nil {
		return err
	}
	if o.cert == "" || o.key == "" || o.root == "" {
		return usagef("--cert, --key and --root are needed; 'waypoint certs --help' shows how to make some")
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	source, err := certs.NewFiles(o.cert, o.key, o.root, log)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	client, err := tunnel.Listen(ctx, tunnel.Options{
		Scheduler: sched, Waypoint: waypoint, Forwards: forwards, SOCKS5: o.socks5, Log: log,
		Tunnels: hbone.NewDialer(hbone.DialerConfig{Scheduler: sched, Source: source}),
	})
	if err != nil {
		return err
	}
	for i, addr := range client.Addrs() {
		to := "any target, SOCKS5"
		if i < len(forwards) {
			to = forwards[i].Target.String()
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s -> %s\n", addr, to)
	}
	return client.Run(ctx)
}

func (o *tunnelFlags) parseForwards() ([]tunnel.Forward, error) {
	if len(o.forwards) == 0 && o.socks5 == "" {
		return nil, usagef("--forward LOCAL=TARGET or --socks5 LOCAL is needed")
	}
	var forwards []tunnel.Forward
	for _, text := range o.forwards {
		local, to, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usagef("--forward %q: expected LOCAL=TARGET, such as 127.0.0.1:8080=10.0.0.1:8080", text)
		}
		target, err := hbone.ParseTarget(to)
		if err != nil {
			return nil, usagef("--forward %q: %w", text, err)
		}
		forwards = append(forwards, tunnel.Forward{Local: local, Target: target})
	}
	return forwards, nil
}

// destination resolves the waypoint and whom to expect there.
func (o *tunnelFlags) destination(ctx context.Context) (hbone.Destination, error) {
	if o.waypoint == "" {
		return hbone.Destination{}, usagef("--waypoint is needed: HOST:PORT, the port is usually 15008")
	}
	host, port, err := net.SplitHostPort(o.waypoint)
	if err != nil {
		return hbone.Destination{}, usagef("--waypoint: %q is not HOST:PORT", o.waypoint)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return hbone.Destination{}, fmt.Errorf("--waypoint: %w", err)
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return hbone.Destination{}, usagef("--waypoint: %w", err)
	}
	addr := netip.AddrPortFrom(ips[0].Unmap(), uint16(number))
	if o.waypointID == "" {
		return hbone.AnyPeer(addr), nil
	}
	id, err := identity.Parse(o.waypointID)
	if err != nil {
		return hbone.Destination{}, usagef("--waypoint-id: %w", err)
	}
	return hbone.NewDestination(addr, id), nil
}
