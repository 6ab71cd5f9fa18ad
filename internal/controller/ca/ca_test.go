package ca

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"testing"
	"time"
)

// TestRotation goes through the life of a CA: at every moment, what is served with
// is trusted by those whose roots are a day old.
func TestRotation(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	state, changed, err := Rotate(State{}, start)
	if err != nil || !changed {
		t.Fatalf("a new CA: changed %v, %v", changed, err)
	}
	behind := state.Trusted // the roots of one who is a day late
	rotations := 0
	for now := start; now.Before(start.Add(3 * rootLife)); now = now.Add(overlap) {
		before := state
		if state, changed, err = Rotate(state, now); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before.Signing.Cert, state.Signing.Cert) {
			rotations++
		}
		if changed || rotations == 0 {
			verify(t, state, behind, now)
		}
		behind = state.Trusted
	}
	if rotations < 5 || rotations > 6 {
		t.Errorf("%d rotations in three lives of a root, want one in each half", rotations)
	}
	if n := bytes.Count(state.Trusted, []byte("BEGIN")); n > 3 {
		t.Errorf("%d roots are trusted at the end: expired ones stay", n)
	}
}

func verify(t *testing.T, s State, roots []byte, now time.Time) {
	t.Helper()
	leaf, err := s.Signing.issue([]string{"waypoint-controller.system.svc"}, now)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: "waypoint-controller.system.svc"}); err != nil {
		t.Fatalf("at %s: %v", now, err)
	}
}

// TestAfterALongOutage: a controller that comes back when its root has expired, or is
// about to, serves at once with one that has not. Who trusts the old one alone is cut
// off in any case, and to wait for the overlap would cut off the others too.
func TestAfterALongOutage(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, away := range map[string]time.Duration{
		"beyond its end":     rootLife + 24*time.Hour,
		"until a day before": rootLife - overlap/2,
	} {
		t.Run(name, func(t *testing.T) {
			state, _, err := Rotate(State{}, start)
			if err != nil {
				t.Fatal(err)
			}
			for now := start.Add(away); now.Before(start.Add(away + 2*overlap)); now = now.Add(lookEvery) {
				if state, _, err = Rotate(state, now); err != nil {
					t.Fatal(err)
				}
				verify(t, state, state.Trusted, now)
				verify(t, state, state.Trusted, now.Add(lookEvery-time.Second)) // until it is looked after again
			}
		})
	}
}

// TestTrustIsMended: a Secret that somebody restored without the roots to trust.
func TestTrustIsMended(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	whole, _, err := Rotate(State{}, now)
	if err != nil {
		t.Fatal(err)
	}
	mended, changed, err := Rotate(State{Signing: whole.Signing}, now)
	if err != nil || !changed || !bytes.Equal(mended.Trusted, whole.Trusted) {
		t.Errorf("changed %v, %v; want the signing root trusted, got\n%s", changed, err, mended.Trusted)
	}
	if _, changed, err = Rotate(mended, now); err != nil || changed {
		t.Errorf("what is mended changes again: %v, %v", changed, err)
	}
}

func TestWhatCannotBeReadStays(t *testing.T) {
	good, _, err := Rotate(State{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	broken := good
	broken.Signing.Key = []byte("no key")
	if after, changed, err := Rotate(broken, time.Now()); err == nil || changed || !bytes.Equal(after.Signing.Cert, broken.Signing.Cert) {
		t.Errorf("a broken state: changed %v, %v; want an error and nothing else", changed, err)
	}

	i := NewIssuer(slog.New(slog.DiscardHandler), "a.svc")
	if _, err := i.Certificate(nil); err == nil {
		t.Error("a certificate without a CA")
	}
	i.adopt(good)
	<-i.Ready()
	<-i.Changed()
	first, err := i.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	i.adopt(broken)
	again, err := i.Certificate(nil)
	if err != nil || again != first {
		t.Errorf("after a broken state another certificate, %v", err)
	}
	other, _, err := Rotate(State{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	i.adopt(other)
	if again, err = i.Certificate(nil); err != nil || again == first {
		t.Errorf("after a new CA the same certificate, %v", err)
	}
}
