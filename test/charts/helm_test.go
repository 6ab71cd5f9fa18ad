package charts

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files and deployments/manifests")

const chart = "../../deployments/chart"

// helm runs it, without whatever the user has set up for theirs.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM is not set: make charts")
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/nonexistent")
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		return out.String() + fault.String(), err
	}
	return out.String(), nil
}

// render is what the chart makes of values, as it is installed by the pages.
func render(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "waypoint", chart, "--namespace=waypoint-system"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tidy(out)
}

var source = regexp.MustCompile(`(?m)\n*^---\n# Source: .*\n`)

// tidy leaves one separator between two objects, and out which template each is of.
func tidy(out string) string {
	return strings.TrimLeft(source.ReplaceAllString(out, "\n---\n"), "-\n")
}

// compare holds content against a file, or writes the file. with says how.
func compare(t *testing.T, path, content, with string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != content {
		t.Errorf("%s is not what the chart renders to: run `%s` and read the diff\n%s", path, with, firstDifference(string(golden), content))
	}
}

func firstDifference(was, is string) string {
	before, after := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range before {
		if i >= len(after) || before[i] != after[i] {
			return "in the file: " + before[i] + "\nthe chart:   " + strings.Join(after[min(i, len(after)):min(i+1, len(after))], "")
		}
	}
	return "the chart has more"
}
