package authn

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Roots reads the roots of the mesh, PEM.
type Roots func(context.Context) ([]byte, error)

// RootsOfFile reads them from a file.
func RootsOfFile(path string) Roots {
	return func(context.Context) ([]byte, error) { return os.ReadFile(path) }
}

// RootsKey is where Istio has them in the ConfigMap that it puts into each
// namespace.
const RootsKey = "root-cert.pem"

// RootsOfConfigMap reads them from the API server.
func RootsOfConfigMap(api client.Reader, name client.ObjectKey) Roots {
	return func(ctx context.Context) ([]byte, error) {
		var m corev1.ConfigMap
		if err := api.Get(ctx, name, &m); err != nil {
			return nil, err
		}
		if m.Data[RootsKey] == "" {
			return nil, fmt.Errorf("ConfigMap %s has no %s", name, RootsKey)
		}
		return []byte(m.Data[RootsKey]), nil
	}
}

// meshRoots are the roots as they were last read without fault.
type meshRoots struct {
	mu    sync.Mutex // guards all below, also while they are read: one does it for all
	pem   []byte
	pool  *x509.CertPool // nil: never
	err   error          // of the last try
	again time.Time      // when to read them again
}

// readAgain is for how long the roots count as read, or as not to be had. A new root
// is in the mesh long before anything is signed with it.
const readAgain = 5 * time.Second

func (a *Authenticator) byCertificate(ctx context.Context, chain []*x509.Certificate) (discovery.Grant, error) {
	if a.o.Roots == nil || len(chain) == 0 {
		return discovery.Grant{}, errors.New("no bearer token: start the waypoint with --token FILE")
	}
	roots, err := a.roots.get(ctx, a.o.Roots, a.o.Now())
	if err != nil {
		return discovery.Grant{}, status.Errorf(codes.FailedPrecondition, "the roots of the mesh, by which to know the client's certificate, cannot be read (without them, --token FILE proves who a waypoint is): %v", err)
	}
	if err := identity.VerifyChain(chain, roots, x509.ExtKeyUsageClientAuth); err != nil {
		return discovery.Grant{}, fmt.Errorf("the certificate is of no use: %w", err)
	}
	id, err := identity.FromCertificate(chain[0])
	switch {
	case err != nil:
		return discovery.Grant{}, err
	case !a.o.Trust.Has(id.TrustDomain):
		return discovery.Grant{}, fmt.Errorf("the certificate is of %s, and the trust domain of the mesh is %q with the aliases %q", id, a.o.Trust.Domain, a.o.Trust.Aliases)
	}
	return discovery.Grant{Gateway: discovery.Gateway{Namespace: id.Namespace, Name: id.ServiceAccount}, Until: chain[0].NotAfter}, nil
}

// get returns the roots, read again if that is some time ago. While they cannot be
// read, the last ones count.
func (r *meshRoots) get(ctx context.Context, read Roots, now time.Time) (*x509.CertPool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.again) {
		r.again = now.Add(readAgain)
		r.err = r.load(ctx, read)
	}
	if r.pool == nil {
		return nil, r.err
	}
	return r.pool, nil
}

func (r *meshRoots) load(ctx context.Context, read Roots) error {
	text, err := read(ctx)
	if err != nil || bytes.Equal(text, r.pem) {
		return err
	}
	pool, err := parseRoots(text)
	if err == nil {
		r.pem, r.pool = text, pool
	}
	return err
}

func parseRoots(text []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(root)
		found++
	}
	if found == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return pool, nil
}
