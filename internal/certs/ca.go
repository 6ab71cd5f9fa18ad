package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

const (
	caTTL = 10 * 365 * 24 * time.Hour
	// clockSkew is how far certificates reach back, for peers whose clock is
	// behind ours.
	clockSkew = 2 * time.Minute
)

// CA is a throw-away certificate authority: an ECDSA P-256 key and a self-signed
// certificate, without revocation or records. It is safe for concurrent use.
type CA struct {
	Root *x509.Certificate
	key  crypto.Signer
}

// NewCA makes a CA with a new key, valid for ten years.
func NewCA() (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of a new CA: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"Waypoint throw-away CA"}, CommonName: fmt.Sprintf("%x", serial)},
		NotBefore:             time.Now().Add(-clockSkew),
		NotAfter:              time.Now().Add(caTTL),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of a new CA: %w", err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of a new CA: %w", err)
	}
	return &CA{Root: root, key: key}, nil
}

// LoadCA reads what CertPEM and KeyPEM wrote.
func LoadCA(certPEM, keyPEM []byte) (*CA, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("not the certificate and key of a CA")
	}
	return &CA{Root: pair.Leaf, key: key}, nil
}

// CertPEM returns the CA's certificate.
func (ca *CA) CertPEM() []byte { return encode("CERTIFICATE", ca.Root.Raw) }

// KeyPEM returns the CA's private key as PKCS #8.
func (ca *CA) KeyPEM() ([]byte, error) { return encodeKey(ca.key) }

// Issue makes a certificate with a new key for id, good for both sides of a
// connection and valid for ttl.
func (ca *CA) Issue(id identity.ID, ttl time.Duration) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key for %s: %w", id, err)
	}
	leaf, err := ca.Sign(key.Public(), id, ttl)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// Sign makes a certificate as Issue does, for the key of somebody else. Its
// subject is empty and its URI SAN therefore critical, RFC 5280 section 4.1.2.6,
// as istiod's are.
func (ca *CA) Sign(key crypto.PublicKey, id identity.ID, ttl time.Duration) (*x509.Certificate, error) {
	uri, err := checkedURI(id)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if now.Add(ttl).After(ca.Root.NotAfter) {
		return nil, fmt.Errorf("a lifetime of %s reaches beyond that of the CA, which ends %s", ttl, ca.Root.NotAfter.Format(time.RFC3339))
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(ttl),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{uri},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Root, key, ca.key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", id, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", id, err)
	}
	return leaf, nil
}

// checkedURI refuses an identity whose parts do not make a SPIFFE URI that reads
// back as the same.
func checkedURI(id identity.ID) (*url.URL, error) {
	if _, err := identity.Parse(id.String()); err != nil {
		return nil, err
	}
	return url.Parse(id.String())
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return serial, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("PRIVATE KEY", der), nil
}
