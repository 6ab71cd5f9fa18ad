// Package examples holds the manifests under examples/ to what they promise.
package examples

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const root = "../../examples"

// TestValidate does for each example what `waypoint validate` does: a folder of
// manifests is one example, a file of its own another.
func TestValidate(t *testing.T) {
	for _, path := range examples(t) {
		name, _ := filepath.Rel(root, path)
		t.Run(name, func(t *testing.T) {
			report, err := files.Validate(files.Options{Path: path, Translate: translate.Options{TrustDomain: "cluster.local"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range report.Problems {
				t.Errorf("%s", p)
			}
			if report.Gateway != "default/waypoint" {
				t.Errorf("it is not clear as which waypoint to run it: %q", report.Gateway)
			}
		})
	}
}

// examples are the folder that the demo runs, and each file of features.
func examples(t *testing.T) (paths []string) {
	t.Helper()
	paths = append(paths, filepath.Join(root, "mesh"))
	err := filepath.WalkDir(filepath.Join(root, "features"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".yaml") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
