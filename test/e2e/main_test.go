package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// world is what all tests share: an API server takes seconds to start. Tests keep
// to namespaces of their own.
type world struct {
	server     *apiserver.Server
	controller *apiserver.Controller
	audit      string // file with what the controller asked the API server for
}

// shared is nil where there are no programs to run.
var shared *world

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
	w := new(world)
	defer w.stop()
	if err := w.start(bin, dir); err != nil {
		fmt.Fprintf(os.Stderr, "the API server does not start: %v\n%s", err, w.server.Logs())
		return 1
	}
	shared = w
	code := m.Run()
	if flag.Lookup("test.run").Value.String() == "" { // some tests do not use all rights
		if err := checkRights(context.Background(), w.server.Client, w.audit); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "--- log of the controller\n%s", w.controller.Log)
	}
	return code
}

// start starts everything, and fails if that takes long.
func (w *world) start(bin, dir string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	flags, audit, err := auditFlags(dir)
	if err != nil {
		return err
	}
	w.audit = audit
	if w.server, err = apiserver.Start(ctx, bin, dir, flags...); err != nil {
		return err
	}
	if err := w.server.Install(ctx); err != nil {
		return err
	}
	if w.controller, err = w.server.NewController(os.Getenv("WAYPOINT_CONTROLLER")); err != nil {
		return err
	}
	if err := w.startController(ctx); err != nil {
		return err
	}
	return w.controller.PointWebhook(ctx)
}

func (w *world) startController(ctx context.Context) error {
	return w.controller.Start(ctx, "--log-level=debug")
}

func (w *world) stop() {
	if w.controller != nil {
		_ = w.controller.Kill() // it may have ended
	}
	w.server.Stop()
}

// needWorld skips a test where there is no API server.
func needWorld(t *testing.T) *world {
	t.Helper()
	if shared == nil {
		t.Skip("WAYPOINT_E2E_BIN is not set: make e2e")
	}
	return shared
}
