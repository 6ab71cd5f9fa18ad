package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

func TestFilter(t *testing.T) {
	workload := request()
	workload.Service = nil
	for _, c := range []struct {
		service, identity string
		flow              *flow.Flow
		want              bool
	}{
		{"", "", request(), true},
		{"", "", workload, true},
		{"bookinfo/reviews", "", request(), true},
		{"bookinfo/reviews", "", workload, false},
		{"bookinfo/ratings", "", request(), false},
		{"other/reviews", "", request(), false},
		{"reviews.bookinfo.svc.cluster.local", "", request(), true},
		{"reviews", "", request(), false},
		{"", "clients/curl", request(), true},
		{"", "clients", request(), false},
		{"", "spiffe://cluster.local/ns/clients/sa/curl", request(), true},
		{"", "spiffe://other/ns/clients/sa/curl", request(), false},
		{"", "spiffe://", request(), false},
		{"bookinfo/reviews", "clients/other", request(), false},
	} {
		f := newFilter(c.service, c.identity)
		if got := f.match(c.flow); got != c.want {
			t.Errorf("service %q, identity %q: %v, want %v", c.service, c.identity, got, c.want)
		}
	}
}

// waitFor runs until a condition that another goroutine brings about.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(10 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestLive(t *testing.T) {
	var live Live
	live.Done(request()) // seen by nobody
	ctx, cancel := context.WithCancel(t.Context())
	lines, ended := make(chan string, 10), make(chan error)
	go func() {
		ended <- live.Watch(ctx, "bookinfo/reviews", "", func(line []byte) error {
			lines <- string(line)
			return nil
		})
	}()
	if first := <-lines; first != "" || live.Stats().Watchers != 1 {
		t.Errorf("begins with %q and %+v, want an empty line and one watcher", first, live.Stats())
	}
	other := request()
	other.Service = &flow.Service{Namespace: "bookinfo", Name: "ratings"}
	live.Done(other)
	live.Start(request())
	live.Progress(request())
	live.Done(request())
	var got map[string]any
	if err := json.Unmarshal([]byte(<-lines), &got); err != nil || got["destination_service"] != reviews.Host {
		t.Errorf("%v, %v", got, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := live.Stats(); s != (LiveStats{}) || len(lines) != 0 {
		t.Errorf("%+v and %d more lines, want none", s, len(lines))
	}
}

func TestLiveTellsWhatWasMissed(t *testing.T) {
	var live Live
	ctx, cancel := context.WithCancel(t.Context())
	reading, resume, lines := make(chan struct{}, 1), make(chan struct{}), make(chan string, 2*watchBuffer)
	ended := make(chan error)
	go func() {
		ended <- live.Watch(ctx, "", "", func(line []byte) error {
			if len(line) == 0 {
				return nil
			}
			select {
			case reading <- struct{}{}:
				<-resume
			default:
			}
			lines <- string(line)
			return nil
		})
	}()
	waitFor(t, "somebody watches", func() bool { return live.Stats().Watchers == 1 })
	live.Done(request())
	waitFor(t, "the watcher is stuck", func() bool { return len(reading) == 1 })
	for range watchBuffer + 7 {
		live.Done(request())
	}
	close(resume)
	<-lines
	if got := <-lines; got != "{\"dropped\":7}\n" {
		t.Errorf("the second line is %q", got)
	}
	for range watchBuffer {
		<-lines
	}
	if s := live.Stats(); s.Dropped != 7 {
		t.Errorf("%+v, want 7 dropped", s)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLiveEndsWithItsWriter(t *testing.T) {
	var live Live
	ended := make(chan error)
	go func() {
		ended <- live.Watch(t.Context(), "", "", func(line []byte) error {
			if len(line) == 0 {
				live.Done(request())
				return nil
			}
			return io.ErrClosedPipe
		})
	}()
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}

func TestLiveIsBounded(t *testing.T) {
	var live Live
	for range maxWatchers {
		live.add(new(watcher))
	}
	if err := live.Watch(t.Context(), "", "", nil); !errors.Is(err, ErrTooManyWatchers) || !strings.Contains(err.Error(), "end another") {
		t.Errorf("error %v", err)
	}
}

// All observers of the product, with everything on and the request unsampled.
func TestObserversDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	log, err := NewAccessLog(io.Discard, "json")
	if err != nil {
		t.Fatal(err)
	}
	log.waiting = make([]byte, 0, logBuffer)
	tracing := newTracing(t, TraceOptions{Endpoint: "127.0.0.1:1"})
	all := flow.Observers{tracing, NewMetrics(Options{}), log, new(Live)}
	f := request()
	all.Done(f)
	if n := testing.AllocsPerRun(100, func() {
		f.Trace = flow.Trace{}
		all.Start(f)
		all.Done(f)
	}); n != 0 {
		t.Errorf("%v allocations a request, want 0", n)
	}
	closeNow(t, tracing)
	if err := log.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkObservers(b *testing.B) {
	log, err := NewAccessLog(io.Discard, "text")
	if err != nil {
		b.Fatal(err)
	}
	tracing, err := NewTracing(b.Context(), TraceOptions{Endpoint: "127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	all := flow.Observers{tracing, NewMetrics(Options{}), log, new(Live)}
	f := request()
	b.ReportAllocs()
	for b.Loop() {
		f.Trace = flow.Trace{}
		all.Start(f)
		all.Done(f)
	}
}
