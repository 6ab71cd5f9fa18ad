package meshtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// tlsConfig is that of a node proxy on either side of a tunnel: TLS 1.3, ALPN
// h2, no server name, and a peer with one identity of this mesh; if expected
// names any, one of those exactly. It is written apart from internal/identity,
// so that the two check each other.
func (m *Mesh) tlsConfig(cert *tls.Certificate, peerUse x509.ExtKeyUsage, expected ...identity.ID) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
		Certificates:       []tls.Certificate{*cert},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // for the names alone: VerifyConnection does all the rest
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf := state.PeerCertificates[0]
			intermediates := x509.NewCertPool()
			for _, cert := range state.PeerCertificates[1:] {
				intermediates.AddCert(cert)
			}
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: m.rootPool(), Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{peerUse},
			})
			if err != nil {
				return err
			}
			id, err := peerID(leaf)
			if err == nil && len(expected) > 0 && !slices.Contains(expected, id) {
				err = fmt.Errorf("meshtest: the peer is %s, expected %s", id, expected)
			}
			return err
		},
	}
}

func peerID(leaf *x509.Certificate) (identity.ID, error) {
	if len(leaf.URIs) != 1 {
		return identity.ID{}, fmt.Errorf("meshtest: the peer's certificate has %d URIs, expected one", len(leaf.URIs))
	}
	return identity.Parse(leaf.URIs[0].String())
}

// ID reads a SPIFFE URI.
func (m *Mesh) ID(uri string) identity.ID {
	m.t.Helper()
	id, err := identity.Parse(uri)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	return id
}

// Trust names the CAs that everybody of the mesh trusts from now on; so far it is
// [Mesh.CA] alone. Waypoints learn of it by [Mesh.WriteCertificate].
func (m *Mesh) Trust(cas ...*certs.CA) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trusted = cas
}

// rootPool is the roots of the CAs that are trusted now.
func (m *Mesh) rootPool() *x509.CertPool {
	m.mu.Lock()
	defer m.mu.Unlock()
	roots := x509.NewCertPool()
	for _, ca := range m.trusted {
		roots.AddCert(ca.Root)
	}
	return roots
}

func (m *Mesh) rootPEM() (bundle []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ca := range m.trusted {
		bundle = append(bundle, ca.CertPEM()...)
	}
	return bundle
}

// Certificate issues one for an identity, good for an hour.
func (m *Mesh) Certificate(uri string) *tls.Certificate {
	m.t.Helper()
	cert, err := m.CA.Issue(m.ID(uri), time.Hour)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	return cert
}

// Source is a certificate source for a waypoint in this process. Storing a new
// certificate in it is a rotation.
func (m *Mesh) Source(uri string) *certs.Current {
	m.t.Helper()
	source := new(certs.Current)
	source.Store(m.Certificate(uri), []*x509.Certificate{m.CA.Root})
	return source
}

// WriteCertificate writes a new certificate for an identity, its key and the
// mesh's roots into dir, under the names that `waypoint certs` gives them. Writing
// them again is a rotation.
func (m *Mesh) WriteCertificate(dir, uri string) {
	m.t.Helper()
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, certs.CAFile), m.rootPEM(), 0o644),
		certs.WritePair(dir, m.Certificate(uri)),
	)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
}

// OddCertificate issues one that no CA of a mesh should have issued: edit
// changes the template of a usual one for uri as it likes. A client with it is
// what an attacker, or a broken CA, comes with.
func (m *Mesh) OddCertificate(uri string, edit func(*x509.Certificate)) *tls.Certificate {
	m.t.Helper()
	cert, err := m.oddCertificate(uri, edit)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	return cert
}

func (m *Mesh) oddCertificate(uri string, edit func(*x509.Certificate)) (*tls.Certificate, error) {
	keyPEM, err := m.CA.KeyPEM()
	if err != nil {
		return nil, err
	}
	ca, err := tls.X509KeyPair(m.CA.CertPEM(), keyPEM)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:         []*url.URL{parsed},
	}
	edit(template)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// handshake bounds the time that a peer may take over it.
func handshake(conn *tls.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if err := conn.Handshake(); err != nil {
		return err
	}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		return errors.New("meshtest: the peer did not agree on ALPN h2")
	}
	return conn.SetDeadline(time.Time{})
}
