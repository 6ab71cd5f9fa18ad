// Package stories tells what a waypoint does as those around it see it: the
// client behind its node proxy, the destination's node proxy, the application,
// and who reads logs and metrics. Each story runs a whole waypoint over real
// sockets (package meshtest).
//
// A run tells them with exchanges as coroutines, as the product has them. With
// WAYPOINT_TEST_TASK_MODE=goroutines the same stories are told on goroutines.
package stories

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Stories wait more than they compute: a drain alone takes a second.
	if err := flag.Set("test.parallel", "8"); err != nil {
		os.Exit(2)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeProgram()
		os.Exit(code)
	}))
}
