package waypoint

import (
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

func TestManifestsAreAccepted(t *testing.T) {
	dir := t.TempDir()
	m := Manifests{
		Pod: "127.0.0.2", Client: identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "client"},
		Policies: 3, Routes: 40, Services: 300,
	}
	if err := m.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := Edit(dir, 1); err != nil {
		t.Fatal(err)
	}
	report, err := files.Validate(files.Options{Path: dir, Translate: translate.Options{TrustDomain: "cluster.local"}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if len(report.Problems) > 0 {
		t.Errorf("%s", text.String())
	}
}

func TestRoutesAreSharedOut(t *testing.T) {
	d := Manifests{Routes: 40}.data()
	if len(d.Routes) != 3 || len(d.Routes[0].Rules) != maxRules || len(d.Routes[2].Rules) != 8 || d.Routes[2].Rules[7] != 39 {
		t.Errorf("%+v", d.Routes)
	}
}
