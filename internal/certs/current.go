package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Current is the certificate and the roots that a source last obtained, and how
// the source is doing since. It implements identity.Source; the zero value has
// nothing yet.
type Current struct {
	now atomic.Pointer[pair] // read by every handshake and request

	mu       sync.Mutex    // guards all below
	changed  chan struct{} // made when somebody asks, closed by the next Store
	stored   uint64
	failures uint64
	problem  error // why the source has nothing newer; nil: it need not
}

var _ identity.Source = (*Current)(nil)

// pair is a certificate, what it says, and the roots that came with it. It does
// not change.
type pair struct {
	cert         *tls.Certificate
	roots        *x509.CertPool
	rootCount    int
	rootNotAfter time.Time // the first of the roots to end
	id           identity.ID
	uri          string // of id
	idErr        error
}

func newPair(cert *tls.Certificate, roots []*x509.Certificate) *pair {
	p := &pair{cert: cert, roots: x509.NewCertPool(), rootCount: len(roots)}
	for _, r := range roots {
		p.roots.AddCert(r)
		if p.rootNotAfter.IsZero() || r.NotAfter.Before(p.rootNotAfter) {
			p.rootNotAfter = r.NotAfter
		}
	}
	p.id, p.idErr = identity.FromCertificate(cert.Leaf)
	p.uri = p.id.String()
	return p
}

// Store puts a pair in force. It has to have passed Check.
func (c *Current) Store(cert *tls.Certificate, roots []*x509.Certificate) {
	c.now.Store(newPair(cert, roots))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored++
	c.problem = nil
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

var errNone = errors.New("no certificate has been obtained yet")

// Certificate returns the certificate in force.
func (c *Current) Certificate() (*tls.Certificate, error) {
	p := c.now.Load()
	if p == nil {
		return nil, errNone
	}
	return p.cert, nil
}

// Roots returns the roots in force, nil before the first Store.
func (c *Current) Roots() *x509.CertPool {
	if p := c.now.Load(); p != nil {
		return p.roots
	}
	return nil
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
	p := c.now.Load()
	if p == nil {
		return identity.ID{}, time.Time{}, errNone
	}
	return p.id, p.cert.Leaf.NotAfter, p.idErr
}

// URI returns who we are as a SPIFFE URI, "" if there is no certificate. It is
// asked for every request.
func (c *Current) URI() string {
	if p := c.now.Load(); p != nil {
		return p.uri
	}
	return ""
}

// Stats says how a source is doing.
type Stats struct {
	NotAfter     time.Time // of the certificate in force; zero: there is none
	RootNotAfter time.Time // of the first root to end
	Renewals     uint64    // pairs put in force after the first
	Failures     uint64    // pairs that could not be
}

// Stats returns how the source is doing.
func (c *Current) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{Failures: c.failures, Renewals: max(c.stored, 1) - 1}
	if p := c.now.Load(); p != nil {
		s.NotAfter, s.RootNotAfter = p.cert.Leaf.NotAfter, p.rootNotAfter
	}
	return s
}

// Problem returns why there is nothing newer than what is in force, nil if there
// need not be.
func (c *Current) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// failed notes that a pair could not be put in force, and returns the level to log
// that at: a reason that stays the same is no news.
func (c *Current) failed(err error) slog.Level {
	c.mu.Lock()
	defer c.mu.Unlock()
	level := slog.LevelWarn
	if c.problem != nil && c.problem.Error() == err.Error() {
		level = slog.LevelDebug
	}
	c.failures++
	c.problem = err
	return level
}

// settled notes that what is in force is what there should be.
func (c *Current) settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = nil
}

// announce logs what is in force.
func (c *Current) announce(log *slog.Logger) {
	p := c.now.Load()
	log.Info("certificate in force", "identity", p.uri, "until", p.cert.Leaf.NotAfter.Format(time.RFC3339), "roots", p.rootCount)
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
