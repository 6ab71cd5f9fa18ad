package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/control"
)

// TestControlBenchmark runs the benchmark of the control plane on a small mesh. It
// looks at function, and at what does not depend on the machine: churn elsewhere
// costs a waypoint nothing.
func TestControlBenchmark(t *testing.T) {
	w := needWorld(t)
	program := os.Getenv("WAYPOINT")
	if program == "" {
		t.Skip("WAYPOINT, the waypoint program, is not set: make e2e")
	}
	report, err := control.Run(t.Context(), w.server, w.controller, control.Options{
		Services: 10, Routes: 50, Edits: 10, Span: 500 * time.Millisecond, Gateways: 3,
		Waypoint: program, Dir: t.TempDir(), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range report.Figures {
		t.Logf("%s: %.4g %s", f.What, f.Value, f.Unit)
		if strings.HasPrefix(f.What, "endpoint churn elsewhere") && f.Goal != nil {
			seen++
			if !f.Met() {
				t.Errorf("%s: %g, want 0", f.What, f.Value)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d figures of churn have a goal, want bytes and updates", seen)
	}
}
