package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Current is the certificate and the roots that a source last obtained. It
// implements identity.Source; the zero value has nothing yet.
type Current struct {
	mu      sync.Mutex
	cert    *tls.Certificate
	roots   *x509.CertPool
	changed chan struct{} // made when somebody asks, closed by the next Store

	rootNotAfter time.Time // the first of the roots to end
	stored       uint64
}

var _ identity.Source = (*Current)(nil)

// Store puts a pair in force. It has to have passed Check.
func (c *Current) Store(cert *tls.Certificate, roots []*x509.Certificate) {
	pool := x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cert, c.roots = cert, pool
	c.stored++
	c.rootNotAfter = time.Time{}
	for _, r := range roots {
		if c.rootNotAfter.IsZero() || r.NotAfter.Before(c.rootNotAfter) {
			c.rootNotAfter = r.NotAfter
		}
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Certificate returns the certificate in force.
func (c *Current) Certificate() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert == nil {
		return nil, errors.New("no certificate has been obtained yet")
	}
	return c.cert, nil
}

// Roots returns the roots in force, nil before the first Store.
func (c *Current) Roots() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roots
}

// Changed returns a channel that is closed by the next Store.
func (c *Current) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// Identity returns who the certificate in force says we are, and until when.
func (c *Current) Identity() (id identity.ID, notAfter time.Time, err error) {
	cert, err := c.Certificate()
	if err != nil {
		return identity.ID{}, time.Time{}, err
	}
	id, err = identity.FromCertificate(cert.Leaf)
	return id, cert.Leaf.NotAfter, err
}

// Stats says how a source is doing.
type Stats struct {
	NotAfter     time.Time // of the certificate in force; zero: there is none
	RootNotAfter time.Time // of the first root to end
	Renewals     uint64    // pairs put in force after the first
	Failures     uint64    // pairs that could not be
}

// Stats returns how the source is doing, apart from its failures.
func (c *Current) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert == nil {
		return Stats{}
	}
	return Stats{NotAfter: c.cert.Leaf.NotAfter, RootNotAfter: c.rootNotAfter, Renewals: c.stored - 1}
}

// Check says why no peer would accept cert: it states no identity, or does not
// lead to one of roots now, for either side of a connection.
func Check(cert *tls.Certificate, roots []*x509.Certificate) error {
	if len(roots) == 0 {
		return errors.New("no root certificate: want at least one PEM block CERTIFICATE")
	}
	id, err := identity.FromCertificate(cert.Leaf)
	if err != nil {
		return err
	}
	chain := make([]*x509.Certificate, len(cert.Certificate))
	for i, der := range cert.Certificate {
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return fmt.Errorf("certificate %d of the chain: %w", i+1, err)
		}
	}
	pool := x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := identity.VerifyChain(chain, pool, use); err != nil {
			return fmt.Errorf("our own certificate %s (valid %s to %s): %w", id,
				cert.Leaf.NotBefore.Format(time.RFC3339), cert.Leaf.NotAfter.Format(time.RFC3339), err)
		}
	}
	return nil
}
