package certs_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// source is what tests of all sources look at.
type source interface {
	identity.Source
	Run(ctx context.Context) error
	Identity() (identity.ID, time.Time, error)
	Stats() certs.Stats
	Problem() error
}

// run runs a source until the test ends.
func run(t *testing.T, s source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
	})
}

// office is a mesh with a CA, and a source that asks it.
type office struct {
	*certs.IstioCA
	t   *testing.T
	m   *meshtest.Mesh
	ca  *meshtest.Authority
	log meshtest.Buffer
}

// newOffice starts both. change may change the options of the source, and what the
// CA does, first.
func newOffice(t *testing.T, change func(*office, *certs.IstioOptions)) *office {
	t.Helper()
	m := meshtest.New(t)
	of := &office{t: t, m: m, ca: m.Authority()}
	o := certs.IstioOptions{
		Addr: of.ca.Addr, Root: of.ca.Root, Token: of.ca.Token,
		Trust: identity.Trust{Domain: "cluster.local", Aliases: []string{"old.example"}},
		TTL:   time.Hour, Timeout: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(&of.log, nil)),
	}
	if change != nil {
		change(of, &o)
	}
	of.IstioCA = certs.NewIstioCA(o)
	run(t, of.IstioCA)
	return of
}

// certified waits for the first certificate.
func (of *office) certified() {
	of.t.Helper()
	of.m.Eventually("there is a certificate", func() bool { return leaf(of) != nil })
}

// leaf is the certificate in force, nil if there is none.
func leaf(s source) *x509.Certificate {
	cert, err := s.Certificate()
	if err != nil {
		return nil
	}
	return cert.Leaf
}

// fails waits until the source has nothing newer, for a reason that says all parts.
func fails(t *testing.T, m *meshtest.Mesh, s source, says ...string) {
	t.Helper()
	m.Eventually("a try has failed", func() bool { return s.Stats().Failures > 0 && s.Problem() != nil })
	for _, part := range says {
		if problem := s.Problem(); problem == nil || !strings.Contains(problem.Error(), part) {
			t.Errorf("it does not say %q: %v", part, problem)
		}
	}
}

func poolOf(cas ...*certs.CA) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca.Root)
	}
	return pool
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestIstioCA(t *testing.T) {
	of := newOffice(t, func(_ *office, o *certs.IstioOptions) { o.Cluster = "west" })
	of.certified()
	id, notAfter, err := of.Identity()
	if left := time.Until(notAfter); err != nil || id.String() != meshtest.WaypointID || left > time.Hour || left < time.Hour-time.Minute {
		t.Errorf("we are %v until %v, %v", id, notAfter, err)
	}
	if !of.Roots().Equal(poolOf(of.m.CA)) {
		t.Error("the roots are not those of the CA")
	}
	stats := of.Stats()
	if !stats.NotAfter.Equal(notAfter) || !stats.RootNotAfter.Equal(of.m.CA.Root.NotAfter) || stats.Renewals != 0 || stats.Failures != 0 || of.Problem() != nil {
		t.Errorf("stats are %+v, the problem %v", stats, of.Problem())
	}

	call := of.ca.Calls()[0]
	token, err := os.ReadFile(of.ca.Token)
	must(t, err)
	if call.Token != strings.TrimSpace(string(token)) || call.Cluster != "west" || call.TTL != time.Hour {
		t.Errorf("the CA was asked with %+v", call)
	}
	asked := call.Request
	if len(asked.Subject.Names) != 0 || len(asked.URIs) != 1 || asked.URIs[0].String() != meshtest.WaypointID ||
		asked.PublicKey.(*ecdsa.PublicKey).Curve != elliptic.P256() {
		t.Errorf("the CA was asked for %v, %v with a key %T", asked.Subject, asked.URIs, asked.PublicKey)
	}
}

// TestIstioCAWithoutACluster: istiod takes an unknown name for a reason to refuse,
// so none is sent by default.
func TestIstioCAWithoutACluster(t *testing.T) {
	of := newOffice(t, nil)
	of.certified()
	if cluster := of.ca.Calls()[0].Cluster; cluster != "" {
		t.Errorf("the cluster is named: %q", cluster)
	}
}

func TestIstioCARenews(t *testing.T) {
	t.Parallel()
	of := newOffice(t, func(_ *office, o *certs.IstioOptions) { o.TTL = 4 * time.Second })
	of.certified()
	for range 2 {
		before := leaf(of)
		of.m.Eventually("it is renewed", func() bool { return leaf(of) != before })
		if time.Now().After(before.NotAfter) {
			t.Error("the certificate ended before there was another")
		}
		if now := leaf(of); now == before || now.PublicKey.(*ecdsa.PublicKey).Equal(before.PublicKey) {
			t.Errorf("it is the same certificate or key again")
		}
	}
	if stats := of.Stats(); stats.Renewals < 2 || stats.Failures != 0 {
		t.Errorf("stats are %+v", stats)
	}
}

// TestIstioCARefuses: whatever a CA answers is told as what it is likely to mean,
// and a new token is tried at once.
func TestIstioCARefuses(t *testing.T) {
	means := map[codes.Code]string{
		codes.Unauthenticated:    "does not accept the token in",
		codes.PermissionDenied:   "refuses to certify us",
		codes.InvalidArgument:    "does not sign what we ask for (a lifetime of 1h0m0s",
		codes.FailedPrecondition: "does not sign what we ask for",
		codes.OutOfRange:         "does not sign what we ask for",
		codes.Unimplemented:      "is not Istio's CA, which istiod has at port 15012",
		codes.DeadlineExceeded:   "did not answer within",
		codes.Unavailable:        "cannot be reached",
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			of := newOffice(t, func(of *office, _ *certs.IstioOptions) {
				of.ca.Handle(func(context.Context, *meshtest.Certification) error { return status.Error(code, "as the test says") })
			})
			want, ok := means[code]
			if !ok {
				want = code.String()
			}
			fails(t, of.m, of, want, "as the test says")
			of.ca.Handle(nil)
			of.ca.WriteToken(of.ca.NewToken(meshtest.WaypointID, 2*time.Hour, "istio-ca"))
			of.certified()
			if of.Problem() != nil {
				t.Errorf("there is a certificate, and a problem: %v", of.Problem())
			}
		})
	}
}

func TestIstioCAOfBadTokens(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		token func(of *office) string
		says  string
	}{
		"expired":           {func(of *office) string { return of.ca.NewToken(meshtest.WaypointID, -time.Minute, "istio-ca") }, "it expired at"},
		"another audience":  {func(of *office) string { return of.ca.NewToken(meshtest.WaypointID, time.Hour, "vault") }, `for the audience "vault", wanted is "istio-ca"`},
		"no JWT":            {func(*office) string { return "secret" }, "does not say whose it is"},
		"nothing":           {func(*office) string { return "" }, "does not hold one token and nothing else"},
		"two":               {func(*office) string { return "a b" }, "does not hold one token and nothing else"},
		"of somebody funny": {func(*office) string { return "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YS9iOmMifQ.e30" }, "the path has to be /ns/NAMESPACE/sa/SERVICE-ACCOUNT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := newOffice(t, func(of *office, _ *certs.IstioOptions) { of.ca.WriteToken(row.token(of)) })
			fails(t, of.m, of, row.says)
			if problem := of.Problem().Error(); !strings.Contains(problem, of.ca.Token) && name != "of somebody funny" {
				t.Errorf("it does not name the file: %s", problem)
			}
			of.ca.WriteToken(of.ca.NewToken(meshtest.WaypointID, time.Hour, "istio-ca"))
			of.certified()
		})
	}
}

// TestIstioCAOfMissingFiles: they may be mounted later.
func TestIstioCAOfMissingFiles(t *testing.T) {
	for _, name := range []string{"istio-token", "root-cert.pem"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var path string
			of := newOffice(t, func(of *office, _ *certs.IstioOptions) {
				path = filepath.Join(filepath.Dir(of.ca.Token), name)
				must(t, os.Rename(path, path+".later"))
			})
			fails(t, of.m, of, path, "no such file")
			must(t, os.Rename(path+".later", path))
			of.certified()
		})
	}
}

// TestIstioCAOfAGivenIdentity: it need not be known from the token.
func TestIstioCAOfAGivenIdentity(t *testing.T) {
	of := newOffice(t, func(of *office, o *certs.IstioOptions) { o.Identity = of.m.ID(meshtest.WaypointID) })
	of.certified()
}

func TestIstioCAOfWrongAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		answer func(*office, *meshtest.Certification)
		says   string
	}{
		"somebody else": {
			func(_ *office, c *meshtest.Certification) { c.Identity.ServiceAccount = "admin" },
			"certified somebody else (another trust domain than ours, or the token of another service account?): spiffe://cluster.local/ns/default/sa/admin, expected " + meshtest.WaypointID,
		},
		"a foreign trust domain": {func(_ *office, c *meshtest.Certification) { c.Identity.TrustDomain = "evil.example" }, "certified somebody else"},
		"ended already":          {func(_ *office, c *meshtest.Certification) { c.TTL = -time.Minute }, "expired"},
		"no roots":               {func(_ *office, c *meshtest.Certification) { c.Chain = []string{"x"} }, "a chain of 1"},
		"nonsense":               {func(of *office, c *meshtest.Certification) { c.Chain = []string{"x", string(of.m.CA.CertPEM())} }, "certificate: no PEM block"},
		"bad roots":              {func(of *office, c *meshtest.Certification) { c.Chain = []string{string(of.m.CA.CertPEM()), "x"} }, "roots: no PEM block"},
		"another key": {func(of *office, c *meshtest.Certification) {
			c.Chain = []string{string(of.m.CA.CertPEM()), string(of.m.CA.CertPEM())}
		}, "for another key than ours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := newOffice(t, func(of *office, _ *certs.IstioOptions) {
				of.ca.Handle(func(_ context.Context, c *meshtest.Certification) error { row.answer(of, c); return nil })
			})
			fails(t, of.m, of, row.says)
			if leaf(of) != nil {
				t.Error("it was taken over")
			}
		})
	}
}

// TestIstioCAOfAnAlias: while a mesh changes its trust domain, its CA may be ahead.
func TestIstioCAOfAnAlias(t *testing.T) {
	of := newOffice(t, func(of *office, _ *certs.IstioOptions) {
		of.ca.Handle(func(_ context.Context, c *meshtest.Certification) error {
			c.Identity.TrustDomain = "old.example"
			return nil
		})
	})
	of.certified()
	if id, _, err := of.Identity(); err != nil || id.TrustDomain != "old.example" {
		t.Errorf("we are %v, %v", id, err)
	}
}

func TestIstioCAThatIsSlow(t *testing.T) {
	of := newOffice(t, func(of *office, o *certs.IstioOptions) {
		o.Timeout = 100 * time.Millisecond
		of.ca.Handle(func(ctx context.Context, _ *meshtest.Certification) error { <-ctx.Done(); return ctx.Err() })
	})
	fails(t, of.m, of, of.ca.Addr, "did not answer within 100ms")
	of.ca.Handle(nil)
	of.certified()
}

// TestIstioCAEndsInACall: nobody waits for a CA that does not answer.
func TestIstioCAEndsInACall(t *testing.T) {
	asked := make(chan struct{})
	newOffice(t, func(of *office, o *certs.IstioOptions) {
		o.Timeout = time.Hour
		of.ca.Handle(func(ctx context.Context, _ *meshtest.Certification) error {
			close(asked)
			<-ctx.Done()
			return ctx.Err()
		})
	})
	<-asked
}

// TestIstioCAThatIsAway: away for longer than until the renewal, and back before
// the certificate ends.
func TestIstioCAThatIsAway(t *testing.T) {
	t.Parallel()
	of := newOffice(t, func(_ *office, o *certs.IstioOptions) { o.TTL = 8 * time.Second })
	of.certified()
	of.ca.Stop()
	before := leaf(of)
	fails(t, of.m, of, "cannot be reached", of.ca.Addr)
	if leaf(of) != before {
		t.Error("the certificate did not stay in force")
	}
	of.m.Eventually("the log says so", func() bool {
		return strings.Contains(of.log.String(), "the certificate was not renewed and stays in force")
	})
	of.ca.Start()
	of.m.Eventually("it is renewed", func() bool { return leaf(of) != before })
	if time.Now().After(before.NotAfter) {
		t.Error("the certificate has ended before there was another")
	}
	if of.Problem() != nil {
		t.Errorf("it is renewed, and there is a problem: %v", of.Problem())
	}
}

// TestIstioCARotates: the mesh goes from one CA to both to the other, as the file
// with the roots says.
func TestIstioCARotates(t *testing.T) {
	of := newOffice(t, nil)
	of.certified()
	a, first := of.m.CA, leaf(of)
	b, err := certs.NewCA()
	must(t, err)

	of.m.Trust(a, b)
	of.ca.WriteRoots()
	of.m.Eventually("both are trusted", func() bool { return of.Roots().Equal(poolOf(a, b)) })
	if leaf(of) != first || len(of.ca.Calls()) != 1 {
		t.Error("the certificate was renewed for it")
	}
	of.m.CA = b
	of.ca.Rotate()
	of.m.Trust(b)
	of.ca.WriteRoots()
	of.m.Eventually("we are certified by the new CA, and it alone is trusted", func() bool {
		return leaf(of).CheckSignatureFrom(b.Root) == nil && of.Roots().Equal(poolOf(b))
	})
}

// TestIstioCARotatesWithoutTheCA: peers with certificates of another CA may come
// before we can have one.
func TestIstioCARotatesWithoutTheCA(t *testing.T) {
	of := newOffice(t, nil)
	of.certified()
	other, err := certs.NewCA()
	must(t, err)
	of.ca.Stop()
	of.m.Trust(of.m.CA, other)
	of.ca.WriteRoots()
	of.m.Eventually("both are trusted", func() bool { return of.Roots().Equal(poolOf(of.m.CA, other)) })
}

func TestIstioCAOfBadRoots(t *testing.T) {
	of := newOffice(t, nil)
	of.certified()
	first, roots := leaf(of), of.Roots()
	must(t, os.WriteFile(of.ca.Root, []byte("nothing"), 0o600))
	fails(t, of.m, of, of.ca.Root, "no PEM block CERTIFICATE")
	if leaf(of) != first || !of.Roots().Equal(roots) {
		t.Error("what was good did not stay in force")
	}
	of.ca.WriteRoots()
	of.m.Eventually("all is well again", func() bool { return of.Problem() == nil })
}

func TestIstioCAThatIsAnother(t *testing.T) {
	of := newOffice(t, func(of *office, _ *certs.IstioOptions) {
		other, err := certs.NewCA()
		must(t, err)
		must(t, os.WriteFile(of.ca.Root, other.CertPEM(), 0o600))
	})
	fails(t, of.m, of, "does not prove to be the CA", of.ca.Root, "x509: ")
	if len(of.ca.Calls()) != 0 {
		t.Error("it was shown our token")
	}
	of.ca.WriteRoots()
	of.certified()
}
