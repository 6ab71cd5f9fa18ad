package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// certificatesIn tells where a waypoint has its certificates.
func certificatesIn(dir *string) func(*app.Options) {
	return func(o *app.Options) { *dir = filepath.Dir(o.Cert) }
}

// rotated waits until the waypoint has put a certificate in force n times.
func (s *stage) rotated(n int) {
	s.t.Helper()
	s.Eventually(fmt.Sprintf("certificate number %d is in force", n), func() bool {
		return strings.Count(s.wp.Log.String(), "certificate in force") >= n
	})
}

// TestRotation: certificates and the CA itself change, A to A and B to B, while
// requests keep coming. None fails, and what is open stays open.
func TestRotation(t *testing.T) {
	t.Parallel()
	var dir string
	s := newStage(t, world(pod("echo", 21), pod("grpc", 22),
		service("echo", "10.0.0.1", port(8080, "http"), port(3306, "tcp")),
		service("grpc", "10.0.0.2", port(9000, "grpc"))), certificatesIn(&dir))
	s.HTTP("echo", s.Addr(21, 8080)).Handle(ok)
	s.TCP("echo", s.Addr(21, 3306), meshtest.Echo)
	s.GRPC("grpc", s.Addr(22, 9000))
	nodes := []*meshtest.NodeProxy{s.node("echo", 21), s.node("grpc", 22)}
	oldCA, oldCert := s.CA, s.client.Cert
	newCA, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}

	open := s.open("10.0.0.1:3306")
	load := s.startLoad(func() string { return s.wp.Addr })
	steps := 1
	step := func(what string, change func()) {
		t.Helper()
		change()
		s.WriteCertificate(dir, meshtest.WaypointID)
		steps++
		s.rotated(steps)
		for _, n := range nodes { // all that is asked next needs new tunnels
			n.Drain()
		}
		fresh := s.Client(clientID)
		get(t, fresh.HTTP(s.wp.Addr), echo).want(t, 200, "ok")
		load.another(100)
		open.say(what)
		open.hear(what)
	}
	step("another certificate", func() {})
	step("both CAs are trusted", func() { s.Trust(oldCA, newCA) })
	step("certificates of the new CA", func() {
		s.CA = newCA
		for _, n := range nodes {
			n.Rotate()
		}
	})
	step("the new CA alone is trusted", func() { s.Trust(newCA) })
	load.stop()

	// What the old CA has issued is of no use any more, except to who is in already.
	left := s.Client(clientID)
	left.Cert = oldCert
	if _, err := left.Dial(t.Context(), s.wp.Addr, "10.0.0.1:8080"); err == nil {
		t.Error("a client with a certificate of the old CA was let in")
	}
	if n := s.metric("waypoint_certificate_renewals_total", `result="ok"`); n < 4 {
		t.Errorf("waypoint_certificate_renewals_total is %v, expected at least 4", n)
	}
}

// TestHalfWrittenKey: files that do not fit together are not taken over; the last
// good ones stay in force, and that is said.
func TestHalfWrittenKey(t *testing.T) {
	t.Parallel()
	var dir string
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), certificatesIn(&dir))
	s.HTTP("echo", s.Addr(21, 8080)).Handle(ok)
	s.node("echo", 21)
	key := filepath.Join(dir, certs.KeyFile)
	whole, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the waypoint complains", func() bool { return strings.Contains(s.wp.Log.String(), "the last good ones stay in force") })
	get(t, s.Client(clientID).HTTP(s.wp.Addr), echo).want(t, 200, "ok")
	if n := s.metric("waypoint_certificate_renewals_total", `result="failed"`); n != 1 {
		t.Errorf("waypoint_certificate_renewals_total of failures is %v, expected 1", n)
	}
	s.WriteCertificate(dir, meshtest.WaypointID)
	s.rotated(2)
	get(t, s.Client(clientID).HTTP(s.wp.Addr), echo).want(t, 200, "ok")
}
