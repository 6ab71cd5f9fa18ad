package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// traceFor is how long system calls are counted.
const traceFor = 500 * time.Millisecond

// syscalls counts the target's system calls while run goes on, where strace is
// installed.
func syscalls(ctx context.Context, b *Bench, i *target.Instance, run *load.Run, r *report.Round) error {
	strace, err := exec.LookPath("strace")
	if err != nil || b.Short {
		return nil
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, strace, "-qq", "-c", "-f", "-p", strconv.Itoa(int(i.ID)))
	cmd.Stderr = &out // where it prints its counts when it is interrupted
	if err := cmd.Start(); err != nil {
		return err
	}
	sample, err := run.Measure(ctx, traceFor)
	ended := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait())
	if err != nil {
		return err
	}
	calls, err := parseStrace(out.String())
	if err != nil {
		return errors.Join(fmt.Errorf("strace: %w", err), ended)
	}
	if sample.Requests > 0 {
		r.Set(report.Syscalls, float64(calls)/float64(sample.Requests))
	}
	return nil
}

// parseStrace returns the number of calls from the last line of strace -c, whose
// fourth column it is.
func parseStrace(out string) (int64, error) {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 5 && f[len(f)-1] == "total" {
			return strconv.ParseInt(f[3], 10, 64)
		}
	}
	return 0, fmt.Errorf("no total in %q", out)
}
