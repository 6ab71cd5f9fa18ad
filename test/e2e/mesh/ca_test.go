package mesh

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// caClient is a certificate source with the files that a pod has.
type caClient struct {
	*certs.IstioCA
	s     *lab.Story
	roots string // file
}

// istiodAddr is the name in its certificate, which pods complete by their search
// domains. This process has none, and is told by itself: istiod is on the node.
const istiodAddr = "istiod.istio-system.svc:15012"

var nodeIP = [4]byte{10, 244, 0, 1}

// knowIstiod answers every question for an address with the node's.
func knowIstiod(t *testing.T) {
	t.Helper()
	before := net.DefaultResolver // the one that grpc asks
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			_ = answer(ours) // whoever asked asks again
		}()
		return theirs, nil
	}}
	t.Cleanup(func() { net.DefaultResolver = before })
}

// answer answers one question of DNS as over TCP, RFC 1035 section 4.2.2.
func answer(conn net.Conn) error {
	var size uint16
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return err
	}
	packet := make([]byte, size)
	if _, err := io.ReadFull(conn, packet); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		return err
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: nodeIP},
		}}
	}
	packet, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...))
	return err
}

// askCA starts one with a token, and the options that change says.
func askCA(s *lab.Story, token string, change func(*certs.IstioOptions)) *caClient {
	s.Helper()
	knowIstiod(s.T)
	var roots corev1.ConfigMap
	s.Eventually("istiod publishes its roots", func() error { return s.Get("istio-ca-root-cert", &roots) })
	dir := s.TempDir()
	c := &caClient{s: s, roots: filepath.Join(dir, "root-cert.pem")}
	tokenFile := filepath.Join(dir, "token")
	if err := errors.Join(os.WriteFile(c.roots, []byte(roots.Data["root-cert.pem"]), 0o600), os.WriteFile(tokenFile, []byte(token), 0o600)); err != nil {
		s.Fatal(err)
	}
	o := certs.IstioOptions{
		Addr: istiodAddr, Root: c.roots, Token: tokenFile, Trust: identity.Trust{Domain: "cluster.local"},
		TTL: 20 * time.Second, Timeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	c.IstioCA = certs.NewIstioCA(o)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	return c
}

// renewed waits until there was one more renewal than before, and returns how many.
func (c *caClient) renewed(before uint64) (now uint64) {
	c.s.Helper()
	c.s.Eventually("the certificate is renewed", func() error {
		if now = c.Stats().Renewals; now <= before {
			return fmt.Errorf("%d times so far: %w", now, c.Problem())
		}
		return nil
	})
	return now
}

// says waits until there is no certificate for a reason.
func (c *caClient) says(want string) {
	c.s.Helper()
	c.s.Eventually("the reason that there is no certificate", func() error {
		if problem := c.Problem(); c.Stats().Failures == 0 || problem == nil || !strings.Contains(problem.Error(), want) {
			return fmt.Errorf("got %v, want %q in it", problem, want)
		}
		return nil
	})
}

// accountToken is one of the API server for an account of the story.
func accountToken(s *lab.Story, account, audience string) string {
	s.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = s.NS, account
	if err := s.Client.SubResource("token").Create(s.Context(), sa, request); err != nil {
		s.Fatal(err)
	}
	return request.Status.Token
}

const gatekeeper = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: gatekeeper, namespace: NS}\n"

// TestIstiodCertifies: a certificate from the real CA, renewed, over an absence of the
// CA, while its roots are followed.
func TestIstiodCertifies(t *testing.T) {
	s := lab.NewStory(t)
	s.Apply(gatekeeper)
	c := askCA(s, accountToken(s, "gatekeeper", "istio-ca"), nil)
	renewals := c.renewed(0)
	id, notAfter, err := c.Identity()
	if want := (identity.ID{TrustDomain: "cluster.local", Namespace: s.NS, ServiceAccount: "gatekeeper"}); err != nil || id != want {
		t.Errorf("certified as %s, %v", id, err)
	}
	if left := time.Until(notAfter); left > 20*time.Second {
		t.Errorf("it is good for %s, asked for were 20s", left)
	}
	istio := verify(t, c, s.Mesh.CA)

	s.Down("istiod", func() {
		c.says("cannot be reached")
		if left := time.Until(notAfter); left > 0 {
			verify(t, c, s.Mesh.CA) // it is in force as long as it is good
		}
	})
	renewals = c.renewed(renewals)
	s.Eventually("there is no problem any more", c.Problem)

	// A root that is to come is trusted beside the one that signs.
	next, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	changed := c.Changed()
	if err := os.WriteFile(c.roots, append(istio, next.CertPEM()...), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changed
	s.Eventually("the next root is trusted", func() error { return trusts(c, next) })
	verify(t, c, s.Mesh.CA)
	c.renewed(renewals)
	if err := trusts(c, next); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
}

// verify checks that the source trusts a CA, and returns that in PEM.
func verify(t *testing.T, c *caClient, ca *certs.CA) []byte {
	t.Helper()
	cert, err := c.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if err := identity.VerifyChain([]*x509.Certificate{cert.Leaf}, c.Roots(), x509.ExtKeyUsageServerAuth); err != nil {
		t.Errorf("our own certificate: %v", err)
	}
	if err := trusts(c, ca); err != nil {
		t.Errorf("istiod's CA: %v", err)
	}
	return ca.CertPEM()
}

func trusts(c *caClient, ca *certs.CA) error {
	peer, err := ca.Issue(identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}, time.Hour)
	if err != nil {
		return err
	}
	return identity.VerifyChain([]*x509.Certificate{peer.Leaf}, c.Roots(), x509.ExtKeyUsageClientAuth)
}

// TestIstiodRefuses: what its CA does not do, and what we say of it.
func TestIstiodRefuses(t *testing.T) {
	s := lab.NewStory(t)
	s.Apply(gatekeeper)
	good := accountToken(s, "gatekeeper", "istio-ca")
	for name, c := range map[string]struct {
		token  string
		change func(*certs.IstioOptions)
		want   string
	}{
		"another audience": {token: accountToken(s, "gatekeeper", "vault"), want: `it is for the audience "vault", wanted is "istio-ca"`},
		"forged":           {token: good[:strings.LastIndex(good, ".")] + ".c2ln", want: "another cluster issued it?"},
		"garbage":          {token: "garbage", want: "does not say whose it is"},
		"somebody else": {token: good, change: func(o *certs.IstioOptions) {
			o.Identity = identity.ID{TrustDomain: "cluster.local", Namespace: "istio-system", ServiceAccount: "istiod"}
		}, want: "the CA certified somebody else"},
		"another trust domain": {token: good, change: func(o *certs.IstioOptions) { o.Trust.Domain = "other.example" }, want: "the CA certified somebody else"},
		"too long a life":      {token: good, change: func(o *certs.IstioOptions) { o.TTL = 10 * 365 * 24 * time.Hour }, want: "a lifetime of 87600h0m0s above its maximum?"},
		"another mesh's roots": {token: good, change: func(o *certs.IstioOptions) { o.Root = otherRoots(t) }, want: "does not prove to be the CA"},
		"another port":         {token: good, change: func(o *certs.IstioOptions) { o.Addr = "istiod.istio-system.svc:15013" }, want: "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			of := *s
			of.T = t
			askCA(&of, c.token, c.change).says(c.want)
		})
	}
}

// otherRoots is a file with those of another mesh.
func otherRoots(t *testing.T) string {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(path, ca.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
