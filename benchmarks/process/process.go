// Package process runs a program under measurement: it starts and stops it, and
// reads from /proc what it has cost.
package process

import (
	"bytes"
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
)

// Process is a running program.
type Process struct {
	cmd   *exec.Cmd
	log   *os.File
	Start time.Time     // just before exec
	Ready time.Duration // from Start until it answered its readiness check
	ended chan error
}

// Command is what to start.
type Command struct {
	Path  string
	Args  []string
	Env   []string // besides the environment
	Log   string   // file for what it prints
	Ready string   // URL that answers 200 once it is ready
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
	cmd.Stdout, cmd.Stderr = log, log
	// The program must not outlive us, however we end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Process{cmd: cmd, log: log, Start: time.Now(), ended: make(chan error, 1)}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() { p.ended <- cmd.Wait() }()
	if err := p.waitReady(ctx, c.Ready); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w; its output is in %s", c.Path, err, c.Log), p.Stop())
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
		if answers(ctx, url) {
			return nil
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("ended before it was ready: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("not ready at %s: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop ends the program: SIGTERM, and SIGKILL after a while.
func (p *Process) Stop() error {
	defer p.log.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-p.ended
	}
	return nil // how it ended is not what is measured
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU returns the user and system time used so far, of all threads, to 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	raw, err := p.read("stat")
	if err != nil {
		return 0, err
	}
	return parseStat(raw)
}

// clockTick is USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// parseStat takes utime and stime, fields 14 and 15, from /proc/PID/stat. The
// second field is the program's name in parentheses and may hold anything.
func parseStat(raw []byte) (time.Duration, error) {
	i := bytes.LastIndexByte(raw, ')')
	fields := strings.Fields(string(raw[i+1:]))
	if i < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("unexpected /proc/PID/stat: %q", raw)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * clockTick, nil
}

// RSS returns the resident memory in bytes.
func (p *Process) RSS() (int64, error) { return p.status("VmRSS:") }

// PeakRSS returns the most resident memory since the start or ResetPeak.
func (p *Process) PeakRSS() (int64, error) { return p.status("VmHWM:") }

// ResetPeak has PeakRSS count anew.
func (p *Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// Threads returns the number of threads.
func (p *Process) Threads() (int64, error) {
	raw, err := p.read("status")
	if err != nil {
		return 0, err
	}
	return statusField(raw, "Threads:")
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
