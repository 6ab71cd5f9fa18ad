// Package examples holds the manifests under examples/ to what they promise.
package examples

import (
	"path/filepath"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const root = "../../examples"

// TestValidate does what `waypoint validate` does: for the folder that the demo
// serves, and for all examples at once, which go together.
func TestValidate(t *testing.T) {
	for _, path := range []string{root, filepath.Join(root, "mesh")} {
		report, err := files.Validate(files.Options{Path: path, Translate: translate.Options{TrustDomain: "cluster.local"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range report.Problems {
			t.Errorf("%s", p)
		}
		if report.Gateway != "default/waypoint" {
			t.Errorf("%s: it is not clear as which waypoint to run it: %q", path, report.Gateway)
		}
	}
}
