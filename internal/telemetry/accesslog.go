package telemetry

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// The access log's buffer. Half of it at most is being written while the other
// half fills: at 500 bytes a line some 2,000 requests may end during one write.
const (
	logBuffer = 1 << 20
	logFull   = 64 << 10 // written at once
	logDelay  = 100 * time.Millisecond
)

// LogStats counts lines since the start.
type LogStats struct{ Written, Dropped uint64 }

// AccessLog writes one line per flow. Lines are built by whoever ends the flow,
// into a buffer that one goroutine empties every 100 ms, or as soon as 64 KiB
// are waiting. If the writer is too slow, lines are dropped and counted: the log
// of a mesh must never be what holds it up.
type AccessLog struct {
	out    io.Writer
	json   bool
	news   chan struct{} // there are lines
	full   chan struct{} // there are many
	closed chan struct{}
	done   chan struct{}
	close  sync.Once

	written, dropped atomic.Uint64

	mu      sync.Mutex
	waiting []byte
	lines   uint64 // in waiting
}

// NewAccessLog starts a log in the format "text" or "json". Close ends it.
func NewAccessLog(out io.Writer, format string) (*AccessLog, error) {
	if format != "text" && format != "json" {
		return nil, fmt.Errorf("access log format %q: it has to be text or json", format)
	}
	l := &AccessLog{
		out: out, json: format == "json",
		news: make(chan struct{}, 1), full: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l, nil
}

// Start implements [flow.Observer].
func (*AccessLog) Start(*flow.Flow) {}

// Progress implements [flow.Observer].
func (*AccessLog) Progress(*flow.Flow) {}

// Done implements [flow.Observer].
func (l *AccessLog) Done(f *flow.Flow) {
	s := scratches.Get().(*scratch)
	if l.json {
		s.writeJSON(f)
	} else {
		s.writeText(f)
	}
	l.add(s.line)
	s.release()
}

// Stats returns how many lines there were.
func (l *AccessLog) Stats() LogStats { return LogStats{l.written.Load(), l.dropped.Load()} }

// Close writes what is waiting and ends the log; the writer stays open. It gives
// up when ctx ends, since a blocked pipe can keep a write for ever.
func (l *AccessLog) Close(ctx context.Context) error {
	l.close.Do(func() { close(l.closed) })
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("access log: the last lines were not taken: %w", context.Cause(ctx))
	}
}

func (l *AccessLog) add(line []byte) {
	l.mu.Lock()
	if len(l.waiting)+len(line) > logBuffer/2 {
		l.mu.Unlock()
		l.dropped.Add(1)
		return
	}
	l.waiting = append(l.waiting, line...)
	l.lines++
	n := len(l.waiting)
	l.mu.Unlock()
	if n == len(line) {
		notify(l.news)
	}
	if n >= logFull && n-len(line) < logFull {
		notify(l.full)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take swaps the buffers.
func (l *AccessLog) take(empty []byte) (batch []byte, lines uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, lines = l.waiting, l.lines
	l.waiting, l.lines = empty[:0], 0
	return batch, lines
}

func (l *AccessLog) run() {
	defer close(l.done)
	delay := time.NewTimer(logDelay)
	defer delay.Stop()
	var spare []byte
	for {
		select {
		case <-l.news:
		case <-l.closed:
			l.write(l.take(nil))
			return
		}
		delay.Reset(logDelay)
		select {
		case <-delay.C:
		case <-l.full:
		case <-l.closed:
		}
		batch, lines := l.take(spare)
		l.write(batch, lines)
		spare = batch
	}
}

func (l *AccessLog) write(batch []byte, lines uint64) {
	if len(batch) == 0 {
		return
	}
	if _, err := l.out.Write(batch); err != nil {
		l.dropped.Add(lines) // the metric is what tells of it: a log has nowhere to log to
		return
	}
	l.written.Add(lines)
}
