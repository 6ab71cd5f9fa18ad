package e2e

import (
	"fmt"
	"os"
	"testing"
)

// world is shared by all tests: an API server takes seconds to start. Tests keep
// to namespaces of their own. It is nil where there are no programs to run.
var world *cluster

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	bin := os.Getenv("WAYPOINT_E2E_BIN")
	if bin == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "waypoint-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	c, err := start(bin, dir)
	defer c.stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "the API server does not start: %v\n%s", err, c.logs())
		return 1
	}
	world = c
	code := m.Run()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "--- log of the controller\n%s", c.controllerLog())
	}
	return code
}

// needWorld skips a test where there is no API server.
func needWorld(t *testing.T) *cluster {
	t.Helper()
	if world == nil {
		t.Skip("WAYPOINT_E2E_BIN is not set: make e2e")
	}
	return world
}
