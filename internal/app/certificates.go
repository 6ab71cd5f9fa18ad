package app

import (
	"context"
	"fmt"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// certificates is where our certificate and the roots of the mesh come from.
type certificates interface {
	identity.Source
	// Run renews them until ctx ends.
	Run(ctx context.Context) error
	// Identity is who the certificate says we are, and until when; an error if
	// there is none yet.
	Identity() (id identity.ID, notAfter time.Time, err error)
	// URI is the identity as a SPIFFE URI, empty if there is none yet.
	URI() string
	Stats() certs.Stats
	// Problem is why there is nothing newer, nil if there need not be.
	Problem() error
}

// caTimeout bounds one request to the CA.
const caTimeout = 10 * time.Second

// findCertificates chooses the source. Files are read at once, so that what is
// wrong with them shows; what others say is waited for while running.
func (a *App) findCertificates(context.Context) error {
	a.certified = a.ready.Require("certificate", "none yet")
	switch o := a.o; {
	case o.CA != "":
		a.certs = certs.NewIstioCA(certs.IstioOptions{
			Addr: o.CA, Root: o.CARoot, Token: o.CAToken, Cluster: o.ClusterID, Identity: o.Identity, Trust: o.Trust,
			TTL: o.CertTTL, Timeout: caTimeout, Log: a.log,
		})
	case o.WorkloadAPI != "":
		a.certs = certs.NewWorkloadAPI(certs.WorkloadOptions{Addr: o.WorkloadAPI, Identity: o.Identity, Trust: o.Trust, Log: a.log})
	default:
		files, err := certs.NewFiles(o.Cert, o.Key, o.Root, a.log)
		if err != nil {
			return err
		}
		if id, _, err := files.Identity(); err == nil && !o.Trust.Has(id.TrustDomain) {
			return fmt.Errorf("the certificate is of %s, and the trust domain is %s: name the one of the certificate with --trust-domain, or among --trust-domain-aliases", id, o.Trust.Domain)
		}
		a.certs = files
	}
	a.judgeCertificate() // files are there already
	return nil
}

// lookAgain is after how long the reason that there is no certificate is looked
// at again: it may be another one, of which no event tells.
const lookAgain = time.Second

// watchCertificate has us ready while we have a certificate that peers accept.
func (a *App) watchCertificate(ctx context.Context) {
	for {
		changed := a.certs.Changed()
		next := time.NewTimer(a.judgeCertificate())
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-changed:
			next.Stop()
		case <-next.C:
		}
	}
}

// judgeCertificate says whether the certificate has us ready, and returns after
// how long that may be otherwise.
func (a *App) judgeCertificate() time.Duration {
	_, notAfter, err := a.certs.Identity()
	left := time.Until(notAfter)
	if err == nil && left > 0 {
		a.certified.Met()
		return left
	}
	if err == nil {
		err = fmt.Errorf("it expired at %s", notAfter.Format(time.RFC3339))
	}
	if problem := a.certs.Problem(); problem != nil {
		err = fmt.Errorf("%w: %w", err, problem)
	}
	a.certified.NotMet(err.Error())
	return lookAgain
}
