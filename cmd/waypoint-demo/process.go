package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a real waypoint: the program as users run it.
type process struct {
	ready time.Duration // from its start until it was ready

	cmd    *exec.Cmd
	access *lines // standard output: the access log
	log    *lines // standard error
	ended  chan struct{}
	err    error // how it ended; valid once ended is closed
}

// endWithin is how long a waypoint may take to end before it is killed.
const endWithin = 10 * time.Second

// startProcess starts path and waits until readyURL answers 200.
func startProcess(ctx context.Context, web *http.Client, readyURL, path string, args ...string) (*process, error) {
	p := &process{
		cmd:    exec.Command(path, args...),
		access: new(lines), log: new(lines),
		ended: make(chan struct{}),
	}
	p.cmd.SysProcAttr = apart()
	p.cmd.Env = append(os.Environ(), "OTEL_BSP_SCHEDULE_DELAY=100") // spans are sent after 100 ms, not 5 s
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := p.launch(stdout, stderr); err != nil {
		return nil, failf("starting %s (not built? run `make build`): %w", path, err)
	}
	if err := p.awaitReady(ctx, web, readyURL); err != nil {
		p.end()
		return nil, failf("%w; it said:\n%s", err, p.log.tail(20))
	}
	p.ready = time.Since(start)
	return p, nil
}

// launch starts the process and waits for it, both on one thread: Linux takes
// the end of the thread that started a process for the end of its parent.
func (p *process) launch(stdout, stderr io.Reader) error {
	started := make(chan error, 1)
	go func() {
		pinned()
		started <- p.cmd.Start()
		if p.cmd.Process == nil {
			return
		}
		var reading sync.WaitGroup
		reading.Go(func() { p.access.readFrom(stdout) })
		reading.Go(func() { p.log.readFrom(stderr) })
		reading.Wait()
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return <-started
}

// awaitReady asks often: a process has no other way to say so.
func (p *process) awaitReady(ctx context.Context, web *http.Client, url string) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(endWithin)
	for getStatus(ctx, web, url) != http.StatusOK {
		select {
		case <-p.ended:
			return fmt.Errorf("the waypoint ended before it was ready: %w", p.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-patience:
			return fmt.Errorf("the waypoint is not ready after %v", endWithin)
		case <-tick.C:
		}
	}
	return nil
}

// getStatus returns that of the answer to a GET, 0 if there is none.
func getStatus(ctx context.Context, web *http.Client, url string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	resp, err := web.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// terminate sends SIGTERM: the waypoint drains.
func (p *process) terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// wait waits for its end and returns the exit code.
func (p *process) wait(ctx context.Context) (int, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(endWithin):
		return 0, fmt.Errorf("the waypoint has not ended after %v", endWithin)
	}
}

// end has the process end, in order if it can.
func (p *process) end() {
	if err := p.terminate(); err != nil {
		return // it has ended
	}
	select {
	case <-p.ended:
	case <-time.After(endWithin):
		p.cmd.Process.Kill() //nolint:errcheck // it may end just now
		<-p.ended
	}
}

// keptLines bounds what is kept of a log: the load of one step is a few thousand lines.
const keptLines = 2000

// lines is the end of a log, line by line.
type lines struct {
	mu   sync.Mutex
	kept []string
}

func (l *lines) readFrom(r io.Reader) {
	for scan := bufio.NewScanner(r); scan.Scan(); {
		l.mu.Lock()
		if len(l.kept) == keptLines {
			l.kept = append(l.kept[:0], l.kept[keptLines/2:]...)
		}
		l.kept = append(l.kept, scan.Text())
		l.mu.Unlock()
	}
}

// find returns the last line that contains text, empty if there is none.
func (l *lines) find(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.kept) - 1; i >= 0; i-- {
		if strings.Contains(l.kept[i], text) {
			return l.kept[i]
		}
	}
	return ""
}

// tail returns the last n lines.
func (l *lines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.kept[max(0, len(l.kept)-n):], "\n")
}

// folder makes a temporary one that goes at the end.
func (s *stage) folder() string {
	dir, err := os.MkdirTemp("", "waypoint-demo-")
	if err != nil {
		s.Fatalf("%w", err)
	}
	s.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.Errorf("%w", err)
		}
	})
	return dir
}
