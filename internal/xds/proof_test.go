package xds_test

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/xds"
)

// TestProof shows what is not good enough, and what is said then.
func TestProof(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*testing.T, *meshtest.Mesh, *meshtest.Controller, *xds.Options)
		say    string
	}{
		{"another CA", func(_ *testing.T, m *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Root = m.Controller().Root
		}, "--xds-root"},
		{"no CA", func(t *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Root = filepath.Join(t.TempDir(), "none")
		}, "--xds-root"},
		{"no token", func(_ *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) { o.Token = "" }, "--token"},
		{"no token file", func(t *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Token = filepath.Join(t.TempDir(), "none")
		}, "--token"},
		{"an unknown token", func(t *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Token = write(t, "gibberish")
		}, "nobody knows this token"},
		{"no account's token", func(t *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Token = write(t, "gibberish")
		}, "it is not that of a Kubernetes service account"},
		{"another mesh's certificate", func(t *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Token, o.Certificate = "", certificateOf(t, time.Hour)
		}, "the controller does not accept our certificate, which is good until"},
		{"no certificate yet", func(_ *testing.T, _ *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Token, o.Certificate = "", func() (*tls.Certificate, error) { return nil, errors.New("the CA is away") }
		}, "as there is no --token: the CA is away"},
		{"an expired token", func(t *testing.T, _ *meshtest.Mesh, c *meshtest.Controller, o *xds.Options) {
			o.Token = write(t, c.Token(ours, -time.Minute))
		}, "expired"},
		{"another gateway's token", func(t *testing.T, _ *meshtest.Mesh, c *meshtest.Controller, o *xds.Options) {
			o.Token = write(t, c.Token("bank/waypoint", time.Hour))
		}, "by its proof the client is ServiceAccount bank/waypoint"},
		{"another gateway's certificate", func(_ *testing.T, m *meshtest.Mesh, _ *meshtest.Controller, o *xds.Options) {
			o.Token = ""
			o.Certificate = func() (*tls.Certificate, error) {
				return m.Certificate("spiffe://cluster.local/ns/bank/sa/waypoint"), nil
			}
		}, "by its proof the client is ServiceAccount bank/waypoint"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := meshtest.New(t)
			controller := m.Controller()
			controller.Update(ours, upsert(gateway()))
			o := of(controller)
			test.change(t, m, controller, &o)
			waiting := make(chan string, 100)
			o.Waiting = func(reason string) {
				select {
				case waiting <- reason:
				default:
				}
			}
			c := follow(t, m, o)
			m.Eventually("the reason "+test.say, func() bool { return strings.Contains(c.Stats().Problem, test.say) })
			if c.store.Load().Version != 0 {
				t.Error("a configuration was handed out")
			}
			m.Eventually("the readiness says so too", func() bool { return strings.Contains(<-waiting, test.say) })
		})
	}
}

func TestCertificate(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	controller.Update(ours, upsert(gateway()))
	o := of(controller)
	o.Token = ""
	o.Certificate = func() (*tls.Certificate, error) {
		return m.Certificate("spiffe://cluster.local/ns/shop/sa/waypoint"), nil
	}
	<-follow(t, m, o).Whole()
}

// TestCertificateRotated does as TestTokenRotated with the certificate of the mesh.
func TestCertificateRotated(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	controller.Update(ours, upsert(gateway(), service(1)))
	o := of(controller)
	o.Token = ""
	var now atomic.Pointer[tls.Certificate]
	// It is dated back by two minutes, so a tenth of its life is left in a second.
	now.Store(issue(t, m.CA, 14500*time.Millisecond))
	o.Certificate = func() (*tls.Certificate, error) { return now.Load(), nil }
	c := follow(t, m, o)
	<-c.Whole()
	now.Store(issue(t, m.CA, time.Hour))
	m.Eventually("a second stream", func() bool { return controller.Counts().Connected == 2 })
	c.awaitStep()
	counts := controller.Counts()
	if counts.Resources != 2 || len(counts.Refused) > 0 || strings.Contains(c.log.String(), "ended, and is opened anew") {
		t.Errorf("%+v", counts)
	}
}

// issue certifies the waypoint.
func issue(t *testing.T, ca *certs.CA, ttl time.Duration) *tls.Certificate {
	t.Helper()
	cert, err := ca.Issue(identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "waypoint"}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// certificateOf another mesh.
func certificateOf(t *testing.T, ttl time.Duration) func() (*tls.Certificate, error) {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert := issue(t, ca, ttl)
	return func() (*tls.Certificate, error) { return cert, nil }
}

// TestTokenRotated replaces a token that expires soon: the stream is opened anew
// with the new one, and nothing is sent again.
func TestTokenRotated(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	controller.Update(ours, upsert(gateway(), service(1)))
	o := of(controller)
	o.Token = write(t, controller.Token(ours, 3*time.Second))
	c := follow(t, m, o)
	<-c.Whole()
	if err := os.WriteFile(o.Token, []byte(controller.Token(ours, time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Eventually("a second stream", func() bool { return controller.Counts().Connected == 2 })
	c.awaitStep()
	counts := controller.Counts()
	if counts.Resources != 2 || len(counts.Refused) > 0 {
		t.Errorf("%+v", counts)
	}
	if strings.Contains(c.log.String(), "ended, and is opened anew") {
		t.Error("the old token was used until the server ended the stream")
	}
}

// TestTokenExpired goes on with an old token until the server ends it, and comes
// back once there is a new one.
func TestTokenExpired(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	controller.Update(ours, upsert(gateway(), service(1)))
	o := of(controller)
	o.Token = write(t, controller.Token(ours, time.Second))
	c := follow(t, m, o)
	<-c.Whole()
	snap := c.store.Load()
	m.Eventually("refused", func() bool { return len(controller.Counts().Refused) > 0 })
	if !strings.Contains(controller.Counts().Ended[0].Error(), "expired") || c.store.Load() != snap {
		t.Errorf("%v", controller.Counts().Ended)
	}
	if err := os.WriteFile(o.Token, []byte(controller.Token(ours, time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.awaitStep()
	if n := controller.Counts().Resources; n != 2 {
		t.Errorf("%d resources were sent", n)
	}
}

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
