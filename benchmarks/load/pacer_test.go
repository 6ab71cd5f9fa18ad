package load

import (
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestScheduleIsConstant(t *testing.T) {
	s := schedule{start: time.Second, rate: 3}
	for i, want := range map[int64]time.Duration{0: time.Second, 3: 2 * time.Second, 3_000_000: 1_000_001 * time.Second} {
		if got := s.due(i); got != want {
			t.Errorf("due(%d) = %v, want %v", i, got, want)
		}
	}
}

// TestLateIsNotForgotten: an exchange that found no worker keeps the time when it
// was due, from which its latency counts.
func TestLateIsNotForgotten(t *testing.T) {
	var q queue
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	sched.Turn(func(b *task.Batch) {
		for i := range 3 {
			if !q.push(b, time.Duration(i)) {
				t.Fatal("the backlog is full too early")
			}
		}
	})
	w := &worker{}
	for i := range 3 {
		if due, ok := q.join(w); !ok || due != time.Duration(i) {
			t.Errorf("join = %v, %v, want %d", due, ok, i)
		}
	}
	if _, ok := q.join(w); ok || len(q.idle) != 1 {
		t.Error("an empty backlog gave work")
	}
}

func TestBacklogIsBounded(t *testing.T) {
	q := queue{backlog: make([]time.Duration, maxBacklog)}
	if q.push(nil, 0) {
		t.Error("more than the bound was taken")
	}
}

func TestSpecs(t *testing.T) {
	for name, spec := range map[string]Spec{
		"no target":         {},
		"many connections":  {Target: "a:1", Conns: maxConns + 1},
		"calls of HTTP/1.1": {Target: "a:1", Calls: 2},
		"one shot of gRPC":  {Target: "a:1", Protocol: GRPCUnary, OneShot: true},
	} {
		if _, err := spec.withDefaults(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestThrottle(t *testing.T) {
	h := throttle{rate: 1000, start: time.Second}
	if got := h.allowed(time.Second); got != 0 {
		t.Errorf("at the start %d bytes are allowed", got)
	}
	h.taken = 100
	if got := h.allowed(2 * time.Second); got != 900 {
		t.Errorf("after a second %d more bytes are allowed, want 900", got)
	}
	if got := new(throttle).allowed(0); got < 1<<40 {
		t.Errorf("without a rate %d bytes are allowed", got)
	}
}

func TestParseResponseHead(t *testing.T) {
	for _, c := range []struct {
		head string
		want int64
		ok   bool
	}{
		{"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n", 12, true},
		{"HTTP/1.1 200 OK\r\nx: y\r\nContent-Length:3\r\n\r\n", 3, true},
		{"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 12\r\n\r\n", 0, false},
		{"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 0, false},
	} {
		got, err := parseResponseHead([]byte(c.head))
		if got != c.want && c.ok || (err == nil) != c.ok {
			t.Errorf("%q: %d, %v, want %d", c.head, got, err, c.want)
		}
	}
}
