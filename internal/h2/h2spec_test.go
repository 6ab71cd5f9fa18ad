package h2

import (
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// TestH2spec runs every case of h2spec, the conformance tester, against a server
// of this package that answers requests with a small body.
func TestH2spec(t *testing.T) {
	h2spec := os.Getenv("H2SPEC")
	if h2spec == "" {
		t.Skip("set H2SPEC to the h2spec program to run it (make tools builds .cache/bin/h2spec)")
	}
	bothModes(t, func(t *testing.T, sched *task.Scheduler) {
		addr := listen(t, sched, Config{}, answerSmall)
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), h2spec, "-h", host, "-p", port, "--strict").CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		t.Logf("%s", out[max(0, len(out)-120):])
	})
}

// answerSmall reads the request and answers it with a few bytes.
func answerSmall(t *task.Task, s *Stream) {
	if _, err := readAll(t, s); err != nil {
		return
	}
	if err := s.WriteHead(t.Batch(), &Head{Status: 200, Fields: []Field{{"content-type", "text/plain"}}}, false); err != nil {
		return
	}
	if err := task.WriteAll(t, s, []byte("a small body\n")); err != nil {
		return
	}
	_ = s.CloseWrite(t.Batch())
}
