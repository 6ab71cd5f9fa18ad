package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// Network is what the programs of one run have in common: a /24 of 127.0.0.0/8 of
// their own, which needs no privileges on Linux, and certificates of one CA.
type Network struct {
	prefix netip.Addr // its address 0
	dir    string     // for certificates, configurations and logs
}

// Service accounts of who makes requests: one that the policies let in, and one that
// they do not.
const (
	Client   = "client"
	Stranger = "stranger"
)

const (
	trustDomain     = "cluster.local"
	waypointAccount = "waypoint"
	nodeAccount     = "reviews"
)

func workload(account string) identity.ID {
	return identity.ID{TrustDomain: trustDomain, Namespace: "default", ServiceAccount: account}
}

// hbonePort is where node proxies listen; it is fixed by the protocol.
const hbonePort = 15008

// NewNetwork claims a network and makes its certificates in dir. The listener is
// that of the node proxy: whoever holds it holds the network.
func NewNetwork(ctx context.Context, dir string) (*Network, *net.TCPListener, error) {
	ca, err := certs.NewCA()
	if err != nil {
		return nil, nil, err
	}
	for _, account := range []string{waypointAccount, nodeAccount, Client, Stranger} {
		if err := issue(ca, filepath.Join(dir, account), workload(account)); err != nil {
			return nil, nil, err
		}
	}
	var errs error
	for third := range 200 {
		n := &Network{prefix: netip.AddrFrom4([4]byte{127, 88, byte(third), 0}), dir: dir}
		l, err := wire.Listen(ctx, netip.AddrPortFrom(n.Pod(), hbonePort).String())
		if err == nil {
			return n, l, nil
		}
		errs = err
	}
	return nil, nil, fmt.Errorf("no free network in 127.88.0.0/16 (not Linux?): %w", errs)
}

func issue(ca *certs.CA, dir string, id identity.ID) error {
	const validity = 24 * time.Hour
	cert, err := ca.Issue(id, validity)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		certs.WritePair(dir, cert),
		os.WriteFile(filepath.Join(dir, certs.CAFile), ca.CertPEM(), 0o644))
}

func (n *Network) host(last byte) netip.Addr {
	a := n.prefix.As4()
	a[3] = last
	return netip.AddrFrom4(a)
}

// Pod is the address of the destination, where its node proxy listens.
func (n *Network) Pod() netip.Addr { return n.host(21) }

func (n *Network) waypoint() netip.Addr { return n.host(1) }

func (n *Network) files(account string) string { return filepath.Join(n.dir, account) }

// ClientTLS returns the load tool's configuration, as a service account.
func (n *Network) ClientTLS(account string) (*tls.Config, error) {
	s, err := source(n.files(account))
	if err != nil {
		return nil, err
	}
	trust, want := identity.Trust{Domain: trustDomain}, []identity.ID{workload(waypointAccount)}
	return identity.ClientConfig(s, func(got identity.ID) error { return trust.Check(got, want) }), nil
}

// NodeFiles is the folder of the node proxy's certificate, for ServerTLS.
func (n *Network) NodeFiles() string { return n.files(nodeAccount) }

// ServerTLS returns the configuration of a node proxy whose files are in dir.
func ServerTLS(dir string) (*tls.Config, error) {
	s, err := source(dir)
	if err != nil {
		return nil, err
	}
	return identity.ServerConfig(s, identity.Trust{Domain: trustDomain}), nil
}

func source(dir string) (identity.Source, error) {
	return certs.NewFiles(filepath.Join(dir, certs.CertFile), filepath.Join(dir, certs.KeyFile), filepath.Join(dir, certs.CAFile), slog.New(slog.DiscardHandler))
}
