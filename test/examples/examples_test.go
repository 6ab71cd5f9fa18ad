// Package examples holds the manifests under examples/ to what they promise.
package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const root = "../../examples"

// TestValidate does what `waypoint validate` does: for the folder that the demo
// serves, and for all examples at once, which go together.
func TestValidate(t *testing.T) {
	validate(t, root)
	validate(t, filepath.Join(root, "mesh"))
}

func validate(t *testing.T, path string) {
	t.Helper()
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

// TestReadme validates the manifests that README.md begins with.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(readme), "```yaml\n")
	indented, _, ended := strings.Cut(rest, "```\n")
	if !begun || !ended {
		t.Fatal("README.md has no block of YAML")
	}
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(indented, "\n   ", "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	validate(t, path)
}
