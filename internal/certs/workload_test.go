package certs_test

import (
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// ward is a mesh with a SPIFFE agent, and a source that follows it.
type ward struct {
	*certs.WorkloadAPI
	m     *meshtest.Mesh
	agent *meshtest.Agent
	log   meshtest.Buffer
}

// newWard starts both. change may change the options of the source, and what the
// agent says, first.
func newWard(t *testing.T, change func(*ward, *certs.WorkloadOptions)) *ward {
	t.Helper()
	m := meshtest.New(t)
	w := &ward{m: m, agent: m.Agent()}
	addr, err := certs.WorkloadAddr(w.agent.Socket)
	must(t, err)
	o := certs.WorkloadOptions{
		Addr: addr, Trust: identity.Trust{Domain: "cluster.local"}, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	if change != nil {
		change(w, &o)
	}
	w.WorkloadAPI = certs.NewWorkloadAPI(o)
	run(t, w.WorkloadAPI)
	return w
}

// issue has the agent say who we are, with a new certificate.
func (w *ward) issue() *tls.Certificate {
	cert := w.m.Certificate(meshtest.WaypointID)
	w.agent.Issue(cert)
	return cert
}

func (w *ward) takesOver(cert *tls.Certificate) {
	w.m.Eventually("the certificate is in force", func() bool {
		now := leaf(w)
		return now != nil && now.Equal(cert.Leaf)
	})
}

func TestWorkloadAPI(t *testing.T) {
	w := newWard(t, nil)
	if w.Problem() == nil {
		t.Error("there is nothing yet, and no reason for that")
	}
	cert := w.issue()
	w.takesOver(cert)
	if id, notAfter, err := w.Identity(); err != nil || id.String() != meshtest.WaypointID || !notAfter.Equal(cert.Leaf.NotAfter) {
		t.Errorf("we are %v until %v, %v", id, notAfter, err)
	}
	if !w.Roots().Equal(poolOf(w.m.CA)) || w.Problem() != nil {
		t.Errorf("the roots are others, or there is a problem: %v", w.Problem())
	}
	w.takesOver(w.issue())
	if stats := w.Stats(); stats.Renewals != 1 || stats.Failures != 0 {
		t.Errorf("stats are %+v", stats)
	}
}

func TestWorkloadAPIRotates(t *testing.T) {
	w := newWard(t, func(w *ward, _ *certs.WorkloadOptions) { w.issue() })
	a := w.m.CA
	b, err := certs.NewCA()
	must(t, err)
	w.m.Trust(a, b)
	w.takesOver(w.issue())
	if !w.Roots().Equal(poolOf(a, b)) {
		t.Error("both are to be trusted")
	}
	w.m.CA = b
	w.m.Trust(b)
	w.takesOver(w.issue())
	if !w.Roots().Equal(poolOf(b)) {
		t.Error("the new CA alone is to be trusted")
	}
}

// TestWorkloadAPIOfAnAgentThatIsAway: what it has said stays in force, and to hear
// the same again is no renewal.
func TestWorkloadAPIOfAnAgentThatIsAway(t *testing.T) {
	w := newWard(t, func(w *ward, _ *certs.WorkloadOptions) { w.issue() })
	w.m.Eventually("there is a certificate", func() bool { return leaf(w) != nil })
	before := leaf(w)
	w.agent.Stop()
	w.m.Eventually("that is noticed", func() bool { return w.Problem() != nil })
	if leaf(w) != before {
		t.Error("the certificate did not stay in force")
	}
	w.agent.Start()
	w.m.Eventually("the agent is heard again", func() bool { return w.Problem() == nil })
	if leaf(w) != before || w.Stats().Renewals != 0 {
		t.Errorf("it was taken over again: %+v", w.Stats())
	}
	w.takesOver(w.issue())
}

func TestWorkloadAPIOfNoAgent(t *testing.T) {
	w := newWard(t, func(w *ward, _ *certs.WorkloadOptions) { w.agent.Stop() })
	fails(t, w.m, w, "the agent cannot be reached", w.agent.Socket)
	w.agent.Start()
	w.takesOver(w.issue())
}

func TestWorkloadAPIRefuses(t *testing.T) {
	for code, says := range map[codes.Code]string{
		codes.PermissionDenied: "no identity for this process",
		codes.InvalidArgument:  "InvalidArgument", // for which the library gives up
		codes.Unimplemented:    "is not the Workload API",
		codes.Internal:         "Internal",
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			w := newWard(t, func(w *ward, _ *certs.WorkloadOptions) { w.agent.Refuse(status.Error(code, "as the test says")) })
			fails(t, w.m, w, says, "as the test says")
			w.takesOver(w.issue())
			if w.Problem() != nil {
				t.Errorf("there is a certificate, and a problem: %v", w.Problem())
			}
		})
	}
}

func TestWorkloadAPIPicks(t *testing.T) {
	const other = "spiffe://cluster.local/ns/default/sa/other"
	tests := []struct {
		name     string
		identity string // asked for
		offered  []string
		is, says string
	}{
		{"the first", "", []string{other, meshtest.WaypointID}, other, ""},
		{"the one asked for", meshtest.WaypointID, []string{other, meshtest.WaypointID}, meshtest.WaypointID, ""},
		{"none that is asked for", meshtest.WaypointID, []string{other}, "", "no identity " + meshtest.WaypointID + " for this process (no entry registered for it?): it offers " + other},
		{"another mesh", "", []string{"spiffe://prod.example/ns/default/sa/waypoint"}, "", `of another trust domain than the mesh, which is "cluster.local"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, func(w *ward, o *certs.WorkloadOptions) {
				if tt.identity != "" {
					o.Identity = w.m.ID(tt.identity)
				}
				var offered []*tls.Certificate
				for _, id := range tt.offered {
					offered = append(offered, w.m.Certificate(id))
				}
				w.agent.Issue(offered...)
			})
			if tt.says != "" {
				fails(t, w.m, w, tt.says)
				return
			}
			w.m.Eventually("there is a certificate", func() bool { return leaf(w) != nil })
			if id, _, err := w.Identity(); err != nil || id.String() != tt.is {
				t.Errorf("we are %v, %v, expected %s", id, err, tt.is)
			}
		})
	}
}

// TestWorkloadAPIOfWhatHasEnded: what no peer would take does not replace what is
// good.
func TestWorkloadAPIOfWhatHasEnded(t *testing.T) {
	w := newWard(t, nil)
	good := w.issue()
	w.takesOver(good)
	ended, err := w.m.CA.Issue(w.m.ID(meshtest.WaypointID), -time.Minute)
	must(t, err)
	w.agent.Issue(ended)
	fails(t, w.m, w, "expired")
	w.takesOver(good)
}

func TestWorkloadAddr(t *testing.T) {
	for text, want := range map[string]string{
		"/run/spire/agent.sock":        "unix:///run/spire/agent.sock",
		"unix:///run/spire/agent.sock": "unix:///run/spire/agent.sock",
		"tcp://127.0.0.1:8081":         "tcp://127.0.0.1:8081",
		"agent.sock":                   "",
		"tcp://localhost:8081":         "", // the specification wants an address
	} {
		if got, err := certs.WorkloadAddr(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
