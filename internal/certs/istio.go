package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/waypoint-mesh/waypoint/internal/bearer"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// IstioOptions of an [IstioCA].
type IstioOptions struct {
	Addr string // of the CA service, "host:port"; the host is what its certificate has to name
	// Root is a file with roots in PEM, followed: they vouch for the CA's own
	// server, and for the peers of the mesh beside the roots that the CA answers
	// with.
	Root string
	// Token is a file with the token of our service account, for the audience
	// istio-ca. It is read for every request.
	Token string
	// Cluster names the one of istiod's clusters that issued the token. Empty:
	// istiod's own.
	Cluster string
	// Identity is who we are to be. Nobody: the service account of the token, in
	// the trust domain of the mesh.
	Identity identity.ID
	Trust    identity.Trust
	TTL      time.Duration // asked for; the CA has the last word
	Timeout  time.Duration // of one request
	Log      *slog.Logger
}

// IstioCA is a certificate source that asks Istio's CA service, which istiod
// serves, and asks again at about half of each certificate's life. While the CA
// cannot be had, the certificate stays in force to its end.
type IstioCA struct {
	Current
	o   IstioOptions
	log *slog.Logger

	// Owned by Run.
	pauses  *backoff.ExponentialBackOff
	bundle  []*x509.Certificate // of the file, as last read without fault
	seen    sum                 // of the files, as last looked at
	cert    *tls.Certificate    // nil: none yet
	answers []*x509.Certificate // roots that came with cert
	inForce []*x509.Certificate // roots that were last put in force
}

// NewIstioCA makes a source that has nothing until Run is called.
func NewIstioCA(o IstioOptions) *IstioCA {
	s := &IstioCA{o: o, log: o.Log.With("ca", o.Addr), pauses: newPauses()}
	s.problem = errors.New("the CA at " + o.Addr + " has not been asked yet")
	return s
}

// Run obtains certificates until ctx ends. The error is of the watch on the files.
func (s *IstioCA) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.changed() // from now on: the first certificate is asked for anyway
	touched, followed := make(chan struct{}, 1), make(chan error)
	go func() {
		followed <- follow(ctx, s.log, func() {
			select {
			case touched <- struct{}{}:
			default: // it will be looked at anyway
			}
		}, s.o.Root, s.o.Token)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case err := <-followed: // ctx has ended, or there is no watch
			return err
		case <-touched:
			if s.look(ctx) {
				timer.Reset(0)
			}
		case <-timer.C:
			timer.Reset(s.renew(ctx))
		}
	}
}

// renew asks for a certificate, and returns after how long to ask for the next.
func (s *IstioCA) renew(ctx context.Context) time.Duration {
	err := s.obtain(ctx)
	if err == nil {
		s.pauses.Reset()
		return untilRenewal(s.cert.Leaf.NotAfter)
	}
	pause := s.pause()
	switch {
	case ctx.Err() != nil: // we are ending
	case s.cert == nil:
		s.log.Log(ctx, s.failed(err), "no certificate yet", "reason", err, "next try in", pause)
	default:
		s.log.Log(ctx, s.failed(err), "the certificate was not renewed and stays in force",
			"until", s.cert.Leaf.NotAfter.Format(time.RFC3339), "reason", err, "next try in", pause)
	}
	return pause
}

// pause is how long to wait after a try that failed: less and less, when the
// certificate comes to its end.
func (s *IstioCA) pause() time.Duration {
	pause := s.pauses.NextBackOff()
	if s.cert == nil {
		return pause
	}
	return min(pause, max(time.Until(s.cert.Leaf.NotAfter)/4, s.pauses.InitialInterval))
}

// obtain puts a new certificate in force.
func (s *IstioCA) obtain(ctx context.Context) error {
	if err := s.readBundle(); err != nil && s.bundle == nil { // else look reports it
		return err
	}
	t, err := bearer.Read(s.o.Token)
	if err != nil {
		return fmt.Errorf("the token for the CA: %w", err)
	}
	want, err := s.self(t)
	if err != nil {
		return err
	}
	cert, roots, err := s.request(ctx, t, want)
	if err != nil {
		return err
	}
	got, err := identity.FromCertificate(cert.Leaf)
	if err != nil {
		return fmt.Errorf("the CA's answer: %w", err)
	}
	if !s.o.Trust.Same(got, want) {
		return fmt.Errorf("the CA certified somebody else (another trust domain than ours, or the token of another service account?): %s, expected %s", got, want)
	}
	if err := Check(cert, s.trusted(roots)); err != nil {
		return fmt.Errorf("the CA's answer: %w", err)
	}
	s.cert, s.answers = cert, roots
	s.put()
	return nil
}

// self is who we ask to be.
func (s *IstioCA) self(t bearer.Token) (identity.ID, error) {
	if !s.o.Identity.IsZero() {
		return s.o.Identity, nil
	}
	if t.ServiceAccount == "" {
		return identity.ID{}, fmt.Errorf("the token for the CA: %s does not say whose it is, since it is not that of a Kubernetes service account: our identity has to be given", s.o.Token)
	}
	return identity.ID{TrustDomain: s.o.Trust.Domain, Namespace: t.Namespace, ServiceAccount: t.ServiceAccount}, nil
}

// look reads the files again, puts roots that changed in force, and reports
// whether to ask for a certificate at once: something changed, and the lack of
// a certificate may have to do with it, or the one we have is no longer of the
// mesh that the roots are of.
func (s *IstioCA) look(ctx context.Context) (now bool) {
	if !s.changed() {
		return false
	}
	if err := s.readBundle(); err != nil {
		s.log.Log(ctx, s.failed(err), "the roots were not taken over: the last good ones stay in force", "reason", err)
		return false
	}
	if s.cert == nil || s.Problem() != nil {
		s.pauses.Reset()
		now = true
	}
	if s.cert != nil && !slices.EqualFunc(s.inForce, s.trusted(s.answers), (*x509.Certificate).Equal) {
		s.put()
		now = now || Check(s.cert, s.bundle) != nil
	}
	return now
}

// changed reports whether the files are others than when it was last asked. One
// that cannot be read is as one without content.
func (s *IstioCA) changed() bool {
	root, _ := os.ReadFile(s.o.Root)
	t, _ := os.ReadFile(s.o.Token)
	sum := sumOf(root, t)
	was := s.seen
	s.seen = sum
	return sum != was
}

// readBundle reads the file with the roots.
func (s *IstioCA) readBundle() error {
	content, err := os.ReadFile(s.o.Root)
	if err != nil {
		return fmt.Errorf("the roots by which the CA is known: %w", err)
	}
	bundle, err := ParseCertificates(content)
	if err != nil {
		return fmt.Errorf("the roots by which the CA is known: %s: %w", s.o.Root, err)
	}
	s.bundle = bundle
	return nil
}

// put stores what we have.
func (s *IstioCA) put() {
	s.inForce = s.trusted(s.answers)
	s.Store(s.cert, s.inForce)
	s.announce(s.log)
}

// trusted is the roots of the file and those that the CA answered with, each once.
// While one CA takes over from another, either place may be the first to know.
func (s *IstioCA) trusted(answers []*x509.Certificate) []*x509.Certificate {
	all := slices.Clone(s.bundle)
	for _, root := range answers {
		if !slices.ContainsFunc(all, root.Equal) {
			all = append(all, root)
		}
	}
	return all
}
