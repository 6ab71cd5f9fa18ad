package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Source provides our certificate and the roots of the mesh, and tells of new
// ones. It is safe for concurrent use and does not block: what takes time
// happens before.
type Source interface {
	// Certificate returns the current certificate with Leaf set, or why there
	// is none.
	Certificate() (*tls.Certificate, error)
	// Roots returns the current roots of the mesh, nil if there are none.
	Roots() *x509.CertPool
	// Changed returns a channel that is closed when the certificate or the
	// roots change after this call.
	Changed() <-chan struct{}
}

// ALPN is the protocol of HBONE, the only one offered and accepted.
const ALPN = "h2"

// The key exchanges. The classic ones come first wherever a peer has them: a
// ztunnel sends a key share for them, whereas an answer with the ML-KEM hybrid
// costs a HelloRetryRequest, one round trip more on every handshake. A mesh
// under a post-quantum policy offers nothing but the hybrid, and gets it.
var (
	classicGroups = []tls.CurveID{tls.X25519, tls.CurveP256}
	otherGroups   = []tls.CurveID{tls.X25519MLKEM768, tls.CurveP384}
	clientGroups  = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256}
)

// ServerConfig returns the TLS configuration of a listener: TLS 1.3, ALPN h2,
// and a client certificate that chains to the roots of src, is good for client
// authentication, and states an identity of our trust domain or an alias.
func ServerConfig(src Source, trust Trust) *tls.Config {
	classic := baseConfig()
	classic.CurvePreferences = classicGroups
	classic.ClientAuth = tls.RequireAnyClientCert // verified below, with the roots of the moment
	classic.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return src.Certificate() }
	classic.VerifyConnection = func(cs tls.ConnectionState) error {
		id, err := verify(cs, src, x509.ExtKeyUsageClientAuth)
		if err == nil && !trust.Has(id.TrustDomain) {
			err = fmt.Errorf("peer %s is of a foreign trust domain: ours is %q with the aliases %q", id, trust.Domain, trust.Aliases)
		}
		return err
	}
	other := classic.Clone()
	other.CurvePreferences = otherGroups

	config := classic.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.ContainsFunc(hello.SupportedCurves, func(c tls.CurveID) bool { return slices.Contains(classicGroups, c) }) {
			return classic, nil
		}
		return other, nil
	}
	return config
}

// ClientConfig returns the TLS configuration for dialling a peer: TLS 1.3, ALPN
// h2, no server name, our certificate whenever one is asked for, and a peer
// certificate that chains to the roots of src, is good for server
// authentication, and states an identity that accept has no error for.
func ClientConfig(src Source, accept func(ID) error) *tls.Config {
	config := baseConfig()
	config.CurvePreferences = clientGroups
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return src.Certificate() }
	// The standard verification wants a server name. Ours, in VerifyConnection,
	// runs in every handshake and is what decides.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(cs tls.ConnectionState) error {
		id, err := verify(cs, src, x509.ExtKeyUsageServerAuth)
		if err != nil {
			return err
		}
		return accept(id)
	}
	return config
}

func baseConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{ALPN},
		// Connections are long-lived: resumption would save next to nothing,
		// and would outlive a change of roots.
		SessionTicketsDisabled: true,
		// Else the first 128 KiB of a connection go out in records of 1.2 KiB.
		DynamicRecordSizingDisabled: true,
	}
}

// verify checks the peer's certificate for use and returns who it states.
func verify(cs tls.ConnectionState, src Source, use x509.ExtKeyUsage) (ID, error) {
	if cs.NegotiatedProtocol != ALPN {
		return ID{}, fmt.Errorf("peer does not speak HBONE: it offered no ALPN protocol %q", ALPN)
	}
	if len(cs.PeerCertificates) == 0 {
		return ID{}, errors.New("peer sent no certificate")
	}
	leaf := cs.PeerCertificates[0]
	if leaf.IsCA { // X.509-SVID specification section 3.1
		return ID{}, errors.New("peer showed the certificate of a CA as its own")
	}
	id, err := FromCertificate(leaf)
	if err != nil {
		return ID{}, err
	}
	roots := src.Roots()
	if roots == nil {
		return ID{}, errors.New("no roots of the mesh are known yet")
	}
	if err := VerifyChain(cs.PeerCertificates, roots, use); err != nil {
		return ID{}, fmt.Errorf("certificate of %s (valid until %s): %w", id, leaf.NotAfter.Format(time.RFC3339), err)
	}
	return id, nil
}

// VerifyChain checks that chain, leaf first, leads to one of roots now and that
// the leaf is good for use.
func VerifyChain(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("not signed by any of the mesh roots (another mesh, or a root that was rotated away?): %w", err)
	}
	return err
}

// Peer returns the identity that the other side of a finished handshake proved.
func Peer(cs tls.ConnectionState) (ID, error) {
	if len(cs.PeerCertificates) == 0 {
		return ID{}, errors.New("peer sent no certificate")
	}
	return FromCertificate(cs.PeerCertificates[0])
}
