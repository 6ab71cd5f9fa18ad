package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzParseAnswer: whatever a CA answers is read without harm, and what is taken is
// for our key.
func FuzzParseAnswer(f *testing.F) {
	ca, err := NewCA()
	if err != nil {
		f.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	leaf, err := ca.Sign(key.Public(), web, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(encode("CERTIFICATE", leaf.Raw)), "", string(ca.CertPEM()))
	f.Add(string(encode("CERTIFICATE", leaf.Raw)), string(ca.CertPEM()), string(ca.CertPEM())+string(ca.CertPEM()))
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, first, second, last string) {
		cert, roots, err := parseAnswer([]string{first, second, last}, key)
		if err != nil {
			return
		}
		if len(roots) == 0 || !key.PublicKey.Equal(cert.Leaf.PublicKey) || !slices.Equal(cert.Leaf.Raw, cert.Certificate[0]) {
			t.Errorf("%d roots, the certificate is %v", len(roots), cert.Leaf)
		}
	})
}

func TestParseAnswerOfAChain(t *testing.T) {
	root, err := NewCA()
	must(t, err)
	second, err := NewCA()
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	leaf, err := root.Sign(key.Public(), web, time.Hour)
	must(t, err)
	own, between := string(encode("CERTIFICATE", leaf.Raw)), string(second.CertPEM())
	for name, chain := range map[string][]string{
		"one a piece": {own, between, string(root.CertPEM()) + string(second.CertPEM())},
		"in one":      {own + between, string(root.CertPEM()) + string(second.CertPEM())},
		"unended":     {strings.TrimSpace(own), between, string(root.CertPEM()) + string(second.CertPEM())},
	} {
		cert, roots, err := parseAnswer(chain, key)
		if err != nil || len(cert.Certificate) != 2 || len(roots) != 2 {
			t.Errorf("%s: %v, %d roots, %v", name, cert, len(roots), err)
		}
	}
}

func TestUntilRenewal(t *testing.T) {
	for _, life := range []time.Duration{0, 10 * time.Second, 24 * time.Hour} {
		left := max(life, time.Second)
		for range 100 {
			if pause := untilRenewal(time.Now().Add(life)); pause < left*39/100 || pause > left/2 {
				t.Errorf("of %s: after %s", life, pause)
			}
		}
	}
}

// TestPausesNearTheEnd: tries come closer together, when the certificate comes to
// its end.
func TestPausesNearTheEnd(t *testing.T) {
	ca, err := NewCA()
	must(t, err)
	s := &IstioCA{pauses: newPauses()}
	for range 20 {
		s.pauses.NextBackOff()
	}
	if pause := s.pause(); pause < 15*time.Second {
		t.Errorf("without a certificate: %s", pause)
	}
	for life, most := range map[time.Duration]time.Duration{time.Minute: 15 * time.Second, -time.Minute: 500 * time.Millisecond} {
		s.cert, err = ca.Issue(web, life)
		must(t, err)
		if pause := s.pause(); pause > most {
			t.Errorf("with %s left: %s", life, pause)
		}
	}
}
