package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTunnel(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.waypoint, "waypoint", "", "where the waypoint takes tunnels, HOST:PORT; a name is looked up once")
	f.StringVar(&o.waypointID, "waypoint-id", "", "SPIFFE identity that it has to prove; default: anybody's that the roots vouch for")
	f.StringVar(&o.cert, "cert", "", "our certificate, PEM; re-read when it changes")
	f.StringVar(&o.key, "key", "", "its private key, PEM")
	f.StringVar(&o.root, "root", "", "roots of the mesh, PEM")
	f.StringArrayVar(&o.forwards, "forward", nil, "LOCAL=TARGET: carry connections to the local address to TARGET; may be repeated")
	f.StringVar(&o.socks5, "socks5", "", "local address of a SOCKS5 proxy for any target")
	return cmd
}

func runTunnel(cmd *cobra.Command, o *tunnelFlags) error {
	forwards, err := o.check()
	if err != nil {
		return err
	}
	waypoint, err := o.destination(cmd.Context())
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	source, err := certs.NewFiles(o.cert, o.key, o.root, log)
	if err != nil {
		return err
	}
	var follower sync.WaitGroup
	defer follower.Wait()
	ctx, cancel := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	follower.Go(func() { follow(ctx, source, log) })
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	client, err := tunnel.Listen(ctx, tunnel.Options{
		Scheduler: sched, Waypoint: waypoint, Forwards: forwards, SOCKS5: o.socks5, Log: log,
		Tunnels: hbone.NewDialer(hbone.DialerConfig{Scheduler: sched, Source: source}),
	})
	if err != nil {
		return err
	}
	announce(cmd.OutOrStdout(), client.Addrs(), forwards)
	return client.Run(ctx)
}

// announce says what is carried where: the ports may have been chosen just now.
func announce(out io.Writer, addrs []net.Addr, forwards []tunnel.Forward) {
	for i, addr := range addrs {
		to := "any target, SOCKS5"
		if i < len(forwards) {
			to = forwards[i].Target.String()
		}
		fmt.Fprintf(out, "%s -> %s\n", addr, to)
	}
}

// follow takes over certificates that are renewed.
func follow(ctx context.Context, source *certs.Files, log *slog.Logger) {
	if err := source.Run(ctx); err != nil {
		log.Warn("certificates will not be renewed", "error", err)
	}
}

// check finds what is wrong with the flags, and reads the forwards.
func (o *tunnelFlags) check() ([]tunnel.Forward, error) {
	switch {
	case o.waypoint == "":
		return nil, cli.Usagef("--waypoint is needed: HOST:PORT, the port is usually 15008")
	case len(o.forwards) == 0 && o.socks5 == "":
		return nil, cli.Usagef("--forward LOCAL=TARGET or --socks5 LOCAL is needed")
	case o.cert == "" || o.key == "" || o.root == "":
		return nil, cli.Usagef("--cert, --key and --root are needed; 'waypoint certs --help' shows how to make some")
	case o.socks5 != "":
		if err := hostPort("socks5", o.socks5); err != nil {
			return nil, err
		}
	}
	return o.parseForwards()
}

func (o *tunnelFlags) parseForwards() ([]tunnel.Forward, error) {
	var forwards []tunnel.Forward
	for _, text := range o.forwards {
		local, to, ok := strings.Cut(text, "=")
		if !ok {
			return nil, cli.Usagef("--forward %q: expected LOCAL=TARGET, such as 127.0.0.1:8080=10.0.0.1:8080", text)
		}
		if err := hostPort("forward", local); err != nil {
			return nil, err
		}
		target, err := hbone.ParseTarget(to)
		if err != nil {
			return nil, cli.Usagef("--forward %q: %w", text, err)
		}
		forwards = append(forwards, tunnel.Forward{Local: local, Target: target})
	}
	return forwards, nil
}

// destination resolves the waypoint and whom to expect there.
func (o *tunnelFlags) destination(ctx context.Context) (hbone.Destination, error) {
	host, port, err := net.SplitHostPort(o.waypoint)
	if err != nil {
		return hbone.Destination{}, cli.Usagef("--waypoint: %q is not HOST:PORT", o.waypoint)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return hbone.Destination{}, fmt.Errorf("--waypoint: %w", err)
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return hbone.Destination{}, cli.Usagef("--waypoint: %w", err)
	}
	addr := netip.AddrPortFrom(ips[0].Unmap(), uint16(number))
	if o.waypointID == "" {
		return hbone.AnyPeer(addr), nil
	}
	id, err := identity.Parse(o.waypointID)
	if err != nil {
		return hbone.Destination{}, cli.Usagef("--waypoint-id: %w", err)
	}
	return hbone.NewDestination(addr, id), nil
}
