package conformance

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
	"time"
)

// tool is a program of somebody else.
type tool struct {
	t    *testing.T
	path string
}

// newTool finds it in PATH, or skips the test. debian is the package that has it.
func newTool(t *testing.T, name, debian string) tool {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: apt-get install %s", name, debian)
	}
	return tool{t, path}
}

// output runs the tool and returns its standard output. It has to end with 0
// within a minute.
func (c tool) output(stdin []byte, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%s %q: %v\n%s\n%s", c.path, args, err, &stderr, out[:min(len(out), 4<<10)])
	}
	return string(out)
}
