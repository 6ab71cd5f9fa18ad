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
	"syscall"
	"time"
)

// Process is a running program.
type Process struct {
	ID
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
	p.ID = ID(cmd.Process.Pid)
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
