package ca

import (
	"bytes"
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
	"time"
)

const (
	// rootLife is how long a root is good for, renewAfter when the next one is
	// made, and overlap how long that one is trusted before it signs.
	rootLife   = 5 * 365 * 24 * time.Hour
	renewAfter = rootLife / 2
	overlap    = 24 * time.Hour
	// leafLife of a serving certificate, which is renewed at half of it.
	leafLife = 24 * time.Hour
	// skew is how far certificates reach back, for clocks that are behind.
	skew = 5 * time.Minute
)

// Root is a certificate that signs, with its key. The zero Root is none.
type Root struct{ Cert, Key []byte } // PEM

// State is all there is to the CA.
type State struct {
	Signing Root
	// Next will sign once it has been trusted for long enough; there may be none.
	Next Root
	// Trusted holds all roots to trust, PEM, the newest first.
	Trusted []byte
}

// Rotate returns what the state has to be at a time, and whether that is another
// one. A state that cannot be read is an error: replacing it would cut every
// waypoint off from the controller, so that is for people to decide. A root that
// expires before it is looked after again, after a long outage, is not waited for:
// the next one signs at once.
func Rotate(s State, now time.Time) (State, bool, error) {
	if len(s.Signing.Cert) == 0 {
		root, err := newRoot(now)
		return State{Signing: root, Trusted: root.Cert}, true, err
	}
	signing, err := s.Signing.parse()
	if err != nil {
		return s, false, fmt.Errorf("the root that signs: %w", err)
	}
	if !bytes.Contains(s.Trusted, s.Signing.Cert) { // half of the Secret was lost
		s.Trusted = append(bytes.Clone(s.Signing.Cert), s.Trusted...)
		s, _, err = Rotate(s, now)
		return s, true, err
	}
	switch {
	case len(s.Next.Cert) > 0:
		next, err := s.Next.parse()
		switch {
		case err != nil:
			return s, false, fmt.Errorf("the root that signs next: %w", err)
		case ends(next, now):
			s.Next = Root{}
			return Rotate(s, now)
		case !ends(signing, now) && now.Before(next.Leaf.NotBefore.Add(skew+overlap)):
			return s, false, nil
		}
		s.Signing, s.Next = s.Next, Root{}
	case now.Before(signing.Leaf.NotBefore.Add(renewAfter)):
		return s, false, nil
	default:
		fresh, err := newRoot(now)
		if err != nil {
			return s, false, err
		}
		s.Trusted = append(bytes.Clone(fresh.Cert), s.Trusted...)
		if s.Next = fresh; ends(signing, now) {
			s.Signing, s.Next = fresh, Root{}
		}
	}
	s.Trusted, err = unexpired(s.Trusted, now)
	return s, true, err
}

// ends reports whether a root may expire before it is looked after again.
func ends(root tls.Certificate, now time.Time) bool {
	return !now.Before(root.Leaf.NotAfter.Add(-2 * lookEvery))
}

func newRoot(now time.Time) (Root, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Root{}, fmt.Errorf("key of a new root: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return Root{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"waypoint-controller"}, CommonName: fmt.Sprintf("waypoint-controller root %x", serial)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(rootLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Root{}, fmt.Errorf("a new root: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Root{}, fmt.Errorf("key of a new root: %w", err)
	}
	return Root{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return serial, nil
}

func (r Root) parse() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(r.Cert, r.Key)
	if err == nil && !pair.Leaf.IsCA {
		err = errors.New("not the certificate of a CA")
	}
	return pair, err
}

// issue makes a serving certificate for DNS names.
func (r Root) issue(names []string, now time.Time) (*tls.Certificate, error) {
	root, err := r.parse()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of a serving certificate: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: names[0]},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(leafLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              names,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, root.Leaf, key.Public(), root.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("a serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("a serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// unexpired drops roots that have expired.
func unexpired(roots []byte, now time.Time) ([]byte, error) {
	var kept []byte
	for block, rest := pem.Decode(roots); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a root to trust: %w", err)
		}
		if now.Before(cert.NotAfter) {
			kept = append(kept, pem.EncodeToMemory(block)...)
		}
	}
	return kept, nil
}
