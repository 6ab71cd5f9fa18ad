package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

var (
	client = identity.ID{TrustDomain: "cluster.local", Namespace: "a", ServiceAccount: "client"}
	server = identity.ID{TrustDomain: "cluster.local", Namespace: "b", ServiceAccount: "server"}
	trust  = identity.Trust{Domain: "cluster.local", Aliases: []string{"old.local"}}
)

func newCA(t testing.TB) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func source(t testing.TB, ca *certs.CA, id identity.ID, roots ...*certs.CA) *certs.Current {
	t.Helper()
	cert, err := ca.Issue(id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s := new(certs.Current)
	s.Store(cert, rootsOf(append(roots, ca)...))
	return s
}

func rootsOf(cas ...*certs.CA) []*x509.Certificate {
	var roots []*x509.Certificate
	for _, ca := range cas {
		roots = append(roots, ca.Root)
	}
	return roots
}

// handshake connects the two over a socket and returns what each side says.
func handshake(t testing.TB, clientConfig, serverConfig *tls.Config) (state tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		s := tls.Server(c, serverConfig)
		err = s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tc := tls.Client(c, clientConfig)
	clientErr = tc.Handshake()
	if clientErr == nil {
		_, clientErr = tc.Read(make([]byte, 1)) // a TLS 1.3 client learns here that it was refused
	}
	state = tc.ConnectionState()
	c.Close()
	return state, clientErr, <-done
}

func only(ids ...identity.ID) func(identity.ID) error {
	return func(got identity.ID) error { return trust.Check(got, ids) }
}

func TestHandshake(t *testing.T) {
	ca := newCA(t)
	state, cErr, sErr := handshake(t, identity.ClientConfig(source(t, ca, client), only(server)), identity.ServerConfig(source(t, ca, server), trust))
	if cErr != nil || sErr != nil {
		t.Fatalf("client: %v, server: %v", cErr, sErr)
	}
	if state.CurveID != tls.X25519 || state.DidResume || state.NegotiatedProtocol != "h2" || state.ServerName != "" {
		t.Errorf("curve %v, protocol %q, server name %q", state.CurveID, state.NegotiatedProtocol, state.ServerName)
	}
	if id, err := identity.Peer(state); err != nil || id != server {
		t.Errorf("Peer = %v, %v; want %v", id, err, server)
	}
}

func TestHandshakeRefuses(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	stranger := client
	stranger.TrustDomain = "elsewhere"
	for _, row := range []struct {
		name           string
		client, server *certs.Current
		accept         identity.ID
		want           string
	}{
		{"client of another CA", source(t, other, client, ca), source(t, ca, server), server, "not signed by any of the mesh roots"},
		{"client of a foreign trust domain", source(t, ca, stranger), source(t, ca, server), server, "foreign trust domain"},
		{"server of another CA", source(t, ca, client), source(t, other, server, ca), server, "not signed by any of the mesh roots"},
		{"server is somebody else", source(t, ca, client), source(t, ca, server), client, "another workload"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, cErr, sErr := handshake(t, identity.ClientConfig(row.client, only(row.accept)), identity.ServerConfig(row.server, trust))
			if err := errors.Join(cErr, sErr); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("client: %v, server: %v; want %q", cErr, sErr, row.want)
			}
		})
	}
}

func TestServerWantsAllOfIt(t *testing.T) {
	ca := newCA(t)
	for name, change := range map[string]func(*tls.Config){
		"no ALPN":        func(c *tls.Config) { c.NextProtos = nil },
		"http/1.1":       func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
		"no certificate": func(c *tls.Config) { c.GetClientCertificate = nil },
		"TLS 1.2":        func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
	} {
		config := identity.ClientConfig(source(t, ca, client), only(server))
		change(config)
		config.VerifyConnection = nil
		if _, _, err := handshake(t, config, identity.ServerConfig(source(t, ca, server), trust)); err == nil {
			t.Errorf("%s: the server accepted it", name)
		}
	}
}

func TestKeyExchange(t *testing.T) {
	ca := newCA(t)
	for _, row := range []struct {
		offered []tls.CurveID
		want    tls.CurveID
	}{
		{[]tls.CurveID{tls.X25519MLKEM768, tls.X25519}, tls.X25519},
		{[]tls.CurveID{tls.X25519MLKEM768, tls.CurveP256}, tls.CurveP256},
		{[]tls.CurveID{tls.X25519MLKEM768}, tls.X25519MLKEM768},
		{[]tls.CurveID{tls.CurveP384}, tls.CurveP384},
	} {
		config := identity.ClientConfig(source(t, ca, client), only(server))
		config.CurvePreferences = row.offered
		state, cErr, sErr := handshake(t, config, identity.ServerConfig(source(t, ca, server), trust))
		if cErr != nil || sErr != nil || state.CurveID != row.want {
			t.Errorf("offered %v: %v (client: %v, server: %v), want %v", row.offered, state.CurveID, cErr, sErr, row.want)
		}
	}
	// Our client towards a destination under a post-quantum policy.
	config := identity.ServerConfig(source(t, ca, server), trust)
	config.GetConfigForClient = nil
	config.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	if _, cErr, sErr := handshake(t, identity.ClientConfig(source(t, ca, client), only(server)), config); cErr != nil || sErr != nil {
		t.Errorf("post-quantum server: client: %v, server: %v", cErr, sErr)
	}
}

func TestRootRotation(t *testing.T) {
	a, b := newCA(t), newCA(t)
	c, s := source(t, a, client), source(t, a, server)
	clientConfig, serverConfig := identity.ClientConfig(c, only(server)), identity.ServerConfig(s, trust)
	ok := func(step string, want bool) {
		t.Helper()
		if _, cErr, sErr := handshake(t, clientConfig, serverConfig); (cErr == nil && sErr == nil) != want {
			t.Errorf("%s: client: %v, server: %v", step, cErr, sErr)
		}
	}
	issue := func(ca *certs.CA, id identity.ID) *tls.Certificate {
		cert, err := ca.Issue(id, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	ok("A", true)
	s.Store(issue(a, server), rootsOf(a, b))
	c.Store(issue(a, client), rootsOf(a, b))
	ok("A+B", true)
	c.Store(issue(b, client), rootsOf(a, b))
	ok("A+B, client renewed", true)
	s.Store(issue(b, server), rootsOf(b))
	ok("B", true)
	c.Store(issue(a, client), rootsOf(a, b))
	ok("B, client of A", false)
}

// leaf makes a certificate with exactly these bytes as its subject alternative
// names, and usages as given.
func leaf(t testing.TB, isCA bool, use []x509.ExtKeyUsage, names ...asn1.RawValue) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: use,
		IsCA: isCA, BasicConstraintsValid: true,
	}
	if len(names) > 0 {
		san, err := asn1.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: san}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Skipf("the standard library refuses it already: %v", err)
	}
	return cert
}

func uri(s string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(s)}
}

func dns(s string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte(s)}
}

func TestFromCertificate(t *testing.T) {
	good := client.String()
	for _, row := range []struct {
		name  string
		names []asn1.RawValue
		ok    bool
	}{
		{"one", []asn1.RawValue{uri(good)}, true},
		{"with a DNS name", []asn1.RawValue{dns("x.example"), uri(good)}, true},
		{"none", nil, false},
		{"DNS only", []asn1.RawValue{dns("x.example")}, false},
		{"two", []asn1.RawValue{uri(good), uri(server.String())}, false},
		{"the same twice", []asn1.RawValue{uri(good), uri(good)}, false},
		{"second not SPIFFE", []asn1.RawValue{uri(good), uri("https://x.example/")}, false},
		{"NUL", []asn1.RawValue{uri(good + "\x00.evil")}, false},
		{"empty fragment", []asn1.RawValue{uri(good + "#")}, false},
		{"escape", []asn1.RawValue{uri("spiffe://cluster.local/ns/a/sa/cl%69ent")}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			id, err := identity.FromCertificate(leaf(t, false, nil, row.names...))
			if (err == nil) != row.ok || row.ok && id != client {
				t.Errorf("FromCertificate = %v, %v; want ok %v", id, err, row.ok)
			}
		})
	}
}

func TestExtendedKeyUsage(t *testing.T) {
	cert := leaf(t, true, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, uri(client.String()))
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	chain := []*x509.Certificate{cert}
	if err := identity.VerifyChain(chain, pool, x509.ExtKeyUsageServerAuth); err != nil {
		t.Errorf("as a server: %v", err)
	}
	if err := identity.VerifyChain(chain, pool, x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("a certificate for servers only passed as a client's")
	}
}

func BenchmarkHandshake(b *testing.B) {
	ca := newCA(b)
	clientConfig, serverConfig := identity.ClientConfig(source(b, ca, client), only(server)), identity.ServerConfig(source(b, ca, server), trust)
	for b.Loop() {
		if _, cErr, sErr := handshake(b, clientConfig, serverConfig); cErr != nil || sErr != nil {
			b.Fatal(cErr, sErr)
		}
	}
}
