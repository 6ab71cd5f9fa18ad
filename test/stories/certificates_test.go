package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// ofCA has a waypoint certified by a CA, for so long each time.
func ofCA(a *meshtest.Authority, ttl time.Duration) func(*app.Options) {
	return func(o *app.Options) {
		o.Cert, o.Key, o.Root = "", "", ""
		o.CA, o.CARoot, o.CAToken, o.CertTTL = a.Addr, a.Root, a.Token, ttl
	}
}

// ofAgent has a waypoint certified by a SPIFFE agent.
func ofAgent(t *testing.T, a *meshtest.Agent) func(*app.Options) {
	addr, err := certs.WorkloadAddr(a.Socket)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *app.Options) { o.Cert, o.Key, o.Root, o.WorkloadAPI = "", "", "", addr }
}

// loadWorld is what startLoad calls, and a TCP service.
var loadWorld = world(pod("echo", 21), pod("grpc", 22),
	service("echo", "10.0.0.1", port(8080, "http"), port(3306, "tcp")),
	service("grpc", "10.0.0.2", port(9000, "grpc")))

// inhabit starts what is in loadWorld.
func (s *stage) inhabit() []*meshtest.NodeProxy {
	s.t.Helper()
	s.HTTP("echo", s.Addr(21, 8080)).Handle(ok)
	s.TCP("echo", s.Addr(21, 3306), meshtest.Echo)
	s.GRPC("grpc", s.Addr(22, 9000))
	return []*meshtest.NodeProxy{s.node("echo", 21), s.node("grpc", 22)}
}

// renewed waits until the waypoint has put n certificates in force after the first.
func (s *stage) renewed(n float64) {
	s.t.Helper()
	s.Eventually(fmt.Sprintf("%v renewals", n), func() bool { return s.metric("waypoint_certificate_renewals_total", `result="ok"`) >= n })
}

// TestCertifiedByIstio: certificates that last for seconds, a CA that is away for
// longer than until the next renewal, and then another CA, while requests keep
// coming. None fails, and what is open stays open.
func TestCertifiedByIstio(t *testing.T) {
	t.Parallel()
	m := meshtest.New(t)
	istiod := m.Authority()
	s := newStageOn(m, t, loadWorld, ofCA(istiod, 6*time.Second))
	s.wp.AwaitReady()
	nodes := s.inhabit()
	oldCA, oldCert := s.CA, s.client.Cert

	open := s.open("10.0.0.1:3306")
	load := s.startLoad(func() string { return s.wp.Addr })
	goesOn := func(what string) {
		t.Helper()
		for _, n := range nodes { // all that is asked next needs new tunnels
			n.Drain()
		}
		get(t, s.Client(clientID).HTTP(s.wp.Addr), echo).want(t, 200, "ok")
		load.another(100)
		open.say(what)
		open.hear(what)
	}
	for n := range 2 {
		s.renewed(float64(n + 1))
		goesOn("another certificate")
	}

	istiod.Stop()
	s.Eventually("a renewal fails", func() bool { return s.metric("waypoint_certificate_renewals_total", `result="failed"`) > 0 })
	goesOn("without the CA")
	istiod.Start()
	s.renewed(3)
	goesOn("with the CA again")

	newCA, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	s.Trust(oldCA, newCA)
	istiod.WriteRoots()
	s.Eventually("both CAs are trusted", func() bool { return strings.Contains(s.wp.Log.String(), "roots=2") })
	s.CA = newCA
	istiod.Rotate()
	for _, n := range nodes {
		n.Rotate()
	}
	goesOn("both CAs are trusted")
	s.renewed(s.metric("waypoint_certificate_renewals_total", `result="ok"`) + 1)
	goesOn("certificates of the new CA")
	s.Trust(newCA)
	istiod.WriteRoots()
	s.Eventually("the new CA alone is trusted", func() bool {
		left := s.Client(clientID)
		left.Cert = oldCert
		conn, err := left.Dial(t.Context(), s.wp.Addr, "10.0.0.1:8080")
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	s.client.Cert = s.Certificate(clientID)
	goesOn("the new CA alone is trusted")
	load.stop()

	if ends := time.Unix(int64(s.metric("waypoint_certificate_expiry_timestamp_seconds", `certificate="workload"`)), 0); time.Until(ends) > 6*time.Second || time.Until(ends) <= 0 {
		t.Errorf("the certificate ends at %s, says its metric", ends)
	}
}

// TestCertifiedByAnAgent: an agent that renews, goes and comes, while requests keep
// coming.
func TestCertifiedByAnAgent(t *testing.T) {
	t.Parallel()
	m := meshtest.New(t)
	agent := m.Agent()
	s := newStageOn(m, t, loadWorld, ofAgent(t, agent))
	agent.Issue(m.Certificate(meshtest.WaypointID))
	s.wp.AwaitReady()
	nodes := s.inhabit()
	load := s.startLoad(func() string { return s.wp.Addr })
	for n := range 3 {
		if n == 1 {
			agent.Stop()
			s.Eventually("that is noticed", func() bool { return s.metric("waypoint_certificate_renewals_total", `result="failed"`) > 0 })
			load.another(100)
			agent.Start()
		}
		agent.Issue(m.Certificate(meshtest.WaypointID))
		s.renewed(float64(n + 1))
		for _, n := range nodes {
			n.Drain()
		}
		get(t, s.Client(clientID).HTTP(s.wp.Addr), echo).want(t, 200, "ok")
		load.another(100)
	}
	load.stop()
}

// TestReadyWithACertificate: a waypoint gets no traffic while it has none, or one
// that has ended, and says why.
func TestReadyWithACertificate(t *testing.T) {
	t.Parallel()
	m := meshtest.New(t)
	istiod := m.Authority()
	istiod.Handle(func(_ context.Context, c *meshtest.Certification) error {
		c.Identity.ServiceAccount = "other"
		return nil
	})
	s := newStageOn(m, t, loadWorld, ofCA(istiod, 3*time.Second))
	says := func(parts ...string) {
		t.Helper()
		s.Eventually(fmt.Sprintf("readiness says %q", parts), func() bool { return containsAll(s.wp.Ready(), parts) })
	}
	says("certificate: ", "certified somebody else")
	istiod.Handle(nil)
	s.wp.AwaitReady()
	istiod.Stop()
	says("certificate: ", "it expired at", "cannot be reached")
	istiod.Start()
	s.wp.AwaitReady()
}
