package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

func newCA(t *testing.T) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// chain certifies somebody.
func chain(t *testing.T, ca *certs.CA, uri string, ttl time.Duration) []*x509.Certificate {
	t.Helper()
	id, err := identity.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(id, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return []*x509.Certificate{cert.Leaf}
}

// rootsOf reads what is behind a pointer, or fails.
func rootsOf(pem *[]byte, read *int) Roots {
	return func(context.Context) ([]byte, error) {
		*read++
		if *pem == nil {
			return nil, errors.New("the API server is away")
		}
		return *pem, nil
	}
}

const waypointURI = "spiffe://cluster.local/ns/shop/sa/waypoint"

func TestCertificates(t *testing.T) {
	ours, foreign := newCA(t), newCA(t)
	pem, read := ours.CertPEM(), 0
	a := New(Options{Roots: rootsOf(&pem, &read), Trust: identity.Trust{Domain: "cluster.local", Aliases: []string{"old.example"}}})
	server := chain(t, ours, waypointURI, time.Hour)[0]
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		want  string // in the error; empty: granted
	}{
		"of the mesh":           {chain: chain(t, ours, waypointURI, time.Hour)},
		"of the former domain":  {chain: chain(t, ours, "spiffe://old.example/ns/shop/sa/waypoint", time.Hour)},
		"of another mesh":       {chain: chain(t, foreign, waypointURI, time.Hour), want: "not signed by any of the mesh roots"},
		"with our root behind":  {chain: append(chain(t, foreign, waypointURI, time.Hour), ours.Root), want: "not signed by any of the mesh roots"},
		"ours behind a foreign": {chain: append(chain(t, foreign, waypointURI, time.Hour), server), want: "not signed by any of the mesh roots"},
		"of another domain":     {chain: chain(t, ours, "spiffe://other.example/ns/shop/sa/waypoint", time.Hour), want: `the trust domain of the mesh is "cluster.local"`},
		"expired":               {chain: chain(t, ours, waypointURI, -time.Second), want: "expired"},
		"the root itself":       {chain: []*x509.Certificate{ours.Root}, want: "certificate"},
		"none":                  {want: "no bearer token"},
	} {
		t.Run(name, func(t *testing.T) {
			grant, err := a.Authenticate(t.Context(), discovery.Peer{Chain: c.chain})
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q in it", err, c.want)
			case c.want == "" && (err != nil || grant.Gateway != shop || !grant.Until.Equal(c.chain[0].NotAfter)):
				t.Errorf("got %v, %v", grant, err)
			}
		})
	}
	if read != 1 {
		t.Errorf("the roots were read %d times within a moment", read)
	}
}

// TestRootsAreFollowed, and the last ones stay while there are none to be had.
func TestRootsAreFollowed(t *testing.T) {
	first, second := newCA(t), newCA(t)
	now, read := time.Now(), 0
	var pem []byte
	a := New(Options{Roots: rootsOf(&pem, &read), Trust: identity.Trust{Domain: "cluster.local"}, Now: func() time.Time { return now }})
	both := append(first.CertPEM(), second.CertPEM()...)
	for step, c := range []struct {
		roots         []byte
		after         time.Duration
		first, second bool
		read          int
	}{
		{nil, 0, false, false, 1},
		{first.CertPEM(), readAgain / 2, false, false, 1}, // floods do not reach the API server
		{first.CertPEM(), readAgain, true, false, 2},
		{both, readAgain, true, true, 3},
		{nil, readAgain, true, true, 4},
		{[]byte("no PEM"), readAgain, true, true, 5},
		{second.CertPEM(), readAgain, false, true, 6},
	} {
		pem, now = c.roots, now.Add(c.after)
		for ca, want := range map[*certs.CA]bool{first: c.first, second: c.second} {
			_, err := a.Authenticate(t.Context(), discovery.Peer{Chain: chain(t, ca, waypointURI, time.Hour)})
			if (err == nil) != want {
				t.Errorf("step %d: %v, want good %v", step, err, want)
			}
			if step < 2 && (status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "the API server is away")) {
				t.Errorf("step %d: %v", step, err)
			}
		}
		if read != c.read {
			t.Errorf("step %d: read %d times, want %d", step, read, c.read)
		}
	}
}

func TestRootsOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roots.pem")
	read := RootsOfFile(path)
	if _, err := read(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context()); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTokenCountsFirst: of both, and a bad token is not made up for.
func TestTokenCountsFirst(t *testing.T) {
	ca := newCA(t)
	pem, read := ca.CertPEM(), 0
	api := &apiServer{user: "system:serviceaccount:bank:waypoint"}
	a := New(Options{Audience: "ours", Review: api.review, Roots: rootsOf(&pem, &read), Trust: identity.Trust{Domain: "cluster.local"}})
	both := discovery.Peer{Token: jwt(`"exp":5000000000`), Chain: chain(t, ca, waypointURI, time.Hour)}
	if grant, err := a.Authenticate(t.Context(), both); err != nil || grant.Gateway.Namespace != "bank" {
		t.Errorf("%v, %v", grant, err)
	}
	both.Token = "garbage"
	if grant, err := a.Authenticate(t.Context(), both); err == nil {
		t.Errorf("granted %v", grant)
	}
}
