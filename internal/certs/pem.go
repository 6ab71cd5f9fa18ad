package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// ParsePair reads a certificate with its intermediates, its key and the roots
// from PEM, and checks that they work together.
func ParsePair(certPEM, keyPEM, rootsPEM []byte) (*tls.Certificate, []*x509.Certificate, error) {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate and key (half written?): %w", err)
	}
	roots, err := ParseCertificates(rootsPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("roots: %w", err)
	}
	if err := Check(&cert, roots); err != nil {
		return nil, nil, err
	}
	return &cert, roots, nil
}

// ParseCertificates reads all PEM blocks CERTIFICATE. Anything else between
// them is an error, so that a truncated file is not taken for a shorter one.
func ParseCertificates(in []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		block, rest := pem.Decode(in)
		if block == nil {
			break
		}
		in = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %q, want CERTIFICATE only", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("no PEM block CERTIFICATE")
	}
	if bytes.Contains(in, []byte("-----BEGIN")) {
		return nil, fmt.Errorf("an incomplete PEM block follows certificate %d (half written?)", len(certs))
	}
	return certs, nil
}
