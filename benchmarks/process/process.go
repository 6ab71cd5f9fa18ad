// Package process runs a program under measurement: it starts and stops it, and
// reads from /proc what it has cost.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a running program.
type Process struct {
	cmd   *exec.Cmd
	log   *os.File
	http  *http.Client
	Start time.Time     // just before exec
	Ready time.Duration // from Start until it answered its readiness check
	ended chan struct{} // closed when it has ended

	how     error // set before ended is closed
	stopped bool
}

// Command is what to start.
type Command struct {
	Path   string
	Args   []string
	Env    []string   // besides the environment
	Log    string     // file for standard error
	Output string     // file for standard output; none: it is dropped
	Ready  string     // URL that answers 200 once it is ready; none: at once
	Files  []*os.File // passed on, as descriptors 3 and up
}

// readyWithin bounds a start. Envoy with 5,000 routes takes a few seconds.
const readyWithin = 60 * time.Second

// Run starts c and waits until it is ready.
func Run(ctx context.Context, c Command) (*Process, error) {
	log, err := os.Create(c.Log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stderr = log
	if c.Output != "" {
		out, err := os.Create(c.Output)
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		defer out.Close() // the program has its own by then
		cmd.Stdout = out
	}
	cmd.ExtraFiles = c.Files
	// The program must not outlive us, however we end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Process{cmd: cmd, log: log, http: &http.Client{Timeout: 5 * time.Second}, Start: time.Now(), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		p.how = cmd.Wait()
		close(p.ended)
	}()
	if c.Ready == "" {
		return p, nil
	}
	if err := p.waitReady(ctx, c.Ready); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w; it wrote: %s", c.Path, err, p.Tail()), p.Stop())
	}
	p.Ready = time.Since(p.Start)
	return p, nil
}

// waitReady polls, because a process has no other way to say so. The interval is
// the resolution of Ready.
func (p *Process) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if p.answers(ctx, url) {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("ended before it was ready: %w", p.how)
		case <-ctx.Done():
			return fmt.Errorf("not ready at %s: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}

func (p *Process) answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop ends the program at once: what it would do to end in order is not measured.
// Stopping again does nothing.
func (p *Process) Stop() error {
	if p.stopped {
		return nil
	}
	p.stopped = true
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended // how it ended is no news: it was killed
	return errors.Join(err, p.log.Close())
}

// Tail returns the last of what it wrote to standard error.
func (p *Process) Tail() string {
	const most = 2 << 10
	raw, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-most):])
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU returns the user and system time used so far, of all threads, ended ones
// included. It is exact, where /proc/PID/stat counts in ticks of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(cpuClock(p.PID()), &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", p.PID(), err)
	}
	return time.Duration(ts.Nano()), nil
}

// cpuClock returns the clock of a process's CPU time, as clock_getcpuclockid(3)
// makes it of the process id.
func cpuClock(pid int) int32 {
	const scheduled = 2 // time that the scheduler gave, of the whole process
	return ^int32(pid)<<3 | scheduled
}

// RSS returns the resident memory in bytes.
func (p *Process) RSS() (int64, error) { return p.status("VmRSS:") }

// PeakRSS returns the most resident memory since the start or ResetPeak.
func (p *Process) PeakRSS() (int64, error) { return p.status("VmHWM:") }

// ResetPeak has PeakRSS count anew.
func (p *Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

func (p *Process) status(field string) (int64, error) {
	raw, err := p.read("status")
	if err != nil {
		return 0, err
	}
	kib, err := statusField(raw, field)
	return kib << 10, err
}

func statusField(raw []byte, field string) (int64, error) {
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc/PID/status", field)
}

func (p *Process) read(name string) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID(), name))
}
