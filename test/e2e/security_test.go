package e2e

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// mustToken is one of the API server's.
func (s *story) mustToken(namespace, account, audience string) string {
	s.Helper()
	token, err := s.server.Token(s.Context(), namespace, account, audience, 3600)
	if err != nil {
		s.Fatal(err)
	}
	return token
}

// turnedAway waits until a waypoint is told why, and the controller says so too.
func (s *story) turnedAway(c *waypoint, want string) {
	s.Helper()
	s.Eventually("it is told why", func() error {
		if reason := fmt.Sprint(c.reason.Load()); !strings.Contains(reason, want) {
			return fmt.Errorf("got %q, want %q in it", reason, want)
		}
		return nil
	})
	if c.store.Load().Version != 0 {
		s.Error("it has a configuration")
	}
	quoted := strings.ReplaceAll(want, `"`, `\"`) // as the log has it
	s.Eventually("the controller's log says it", func() error {
		for line := range strings.Lines(s.controller.Log.String()) {
			if strings.Contains(line, "a client was turned away") && strings.Contains(line, quoted) {
				return nil
			}
		}
		return fmt.Errorf("no line of %q", quoted)
	})
}

// TestTokens shows every token that is not the right one to the real API server, and
// then the right one.
func TestTokens(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.Apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: other, namespace: NS}")
	s.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-other}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: waypoint, namespace: NS-other}")
	s.gatewaySays("Accepted True Accepted", "")
	s.Eventually("the account is there", func() error { return s.Get("waypoint", &corev1.ServiceAccount{}) })

	good := s.mustToken(s.ns, "waypoint", gateway.TokenAudience)
	head, rest, _ := strings.Cut(good, ".")
	_, signature, _ := strings.Cut(rest, ".")
	claims := func(text string) string {
		return head + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(text, "NS", s.ns))) + "." + signature
	}
	for name, c := range map[string]struct{ token, want string }{
		"another account":      {s.mustToken(s.ns, "other", gateway.TokenAudience), "by its proof the client is ServiceAccount " + s.ns + "/other"},
		"another namespace":    {s.mustToken(s.ns+"-other", "waypoint", gateway.TokenAudience), "by its proof the client is ServiceAccount " + s.ns + "-other/waypoint"},
		"another audience":     {s.mustToken(s.ns, "waypoint", "istio-ca"), `for the audience "istio-ca", wanted is "` + gateway.TokenAudience},
		"the API server's own": {s.mustToken(s.ns, "waypoint", ""), `for the audience "https://kubernetes.default.svc", wanted is "`},
		"expired":              {claims(`{"sub":"system:serviceaccount:NS:waypoint","aud":"` + gateway.TokenAudience + `","exp":1000000000}`), "it expired at 2001-09-09T01:46:40Z"},
		"forged":               {claims(`{"sub":"system:serviceaccount:NS:waypoint","aud":"` + gateway.TokenAudience + `","exp":4000000000}`), "the API server does not accept the token: invalid bearer token"},
		"no token":             {"", "neither a bearer token nor a client certificate: start the waypoint with --token FILE"},
		"garbage":              {"garbage", "the token is no JWT, or does not expire: mount a projected ServiceAccount token"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{t, s.world, s.ns}
			s.turnedAway(s.connectWith(c.token, nil), c.want)
		})
	}
	s.connectWith(good, nil).whole(s)
}

// TestTokenOfADeletedAccount is refused, and the Gateway's new account's is not.
func TestTokenOfADeletedAccount(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.gatewaySays("Accepted True Accepted", "")
	s.Eventually("the account is there", func() error { return s.Get("waypoint", &corev1.ServiceAccount{}) })
	old := s.mustToken(s.ns, "waypoint", gateway.TokenAudience)
	var account corev1.ServiceAccount
	if err := s.Get("waypoint", &account); err != nil {
		t.Fatal(err)
	}
	s.Delete(&corev1.ServiceAccount{}, "waypoint")
	s.Eventually("the account is made again", func() error {
		var now corev1.ServiceAccount
		if err := s.Get("waypoint", &now); err != nil || now.UID == account.UID {
			return fmt.Errorf("%v", err)
		}
		return nil
	})
	s.turnedAway(s.connectWith(old, nil), "the API server does not accept the token")
	s.connect("waypoint", gateway.TokenAudience).whole(s)
}

// TestCertificates: a waypoint without a token is known by its certificate of the
// mesh, and gets its own Gateway's configuration alone.
func TestCertificates(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.gatewaySays("Accepted True Accepted", "")
	mesh, foreign := newCA(t), newCA(t)
	roots := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.SystemNamespace, Name: "istio-ca-root-cert"},
		Data:       map[string]string{"root-cert.pem": string(mesh.CertPEM())},
	}
	s.turnedAway(s.connectWith("", s.certificate(mesh, "waypoint")), `configmaps "istio-ca-root-cert" not found`)
	if err := s.server.Client.Create(t.Context(), roots); err != nil {
		t.Fatal(err)
	}
	s.connectWith("", s.certificate(mesh, "waypoint")).whole(s)
	s.turnedAway(s.connectWith("", s.certificate(mesh, "other")), "by its proof the client is ServiceAccount "+s.ns+"/other")
	s.turnedAway(s.connectWith("", s.certificate(foreign, "waypoint")), "not signed by any of the mesh roots")
}

func newCA(t *testing.T) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// certificate of an account of the story.
func (s *story) certificate(ca *certs.CA, account string) *tls.Certificate {
	s.Helper()
	cert, err := ca.Issue(identity.ID{TrustDomain: "cluster.local", Namespace: s.ns, ServiceAccount: account}, time.Hour)
	if err != nil {
		s.Fatal(err)
	}
	return cert
}
