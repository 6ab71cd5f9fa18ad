package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in nanoseconds with three significant digits; what takes
// longer than longest counts as that.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(2 * time.Minute)
	digits   = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

// Sample is what was completed in a span of time.
type Sample struct {
	Requests, Errors int64
	FirstError       error
	Sent, Received   int64 // bytes of bodies
	Elapsed          time.Duration
	Latency          *hdrhistogram.Histogram
}

// Percentile returns the latency that p percent of the requests kept to.
func (s *Sample) Percentile(p float64) time.Duration {
	return time.Duration(s.Latency.ValueAtPercentile(p))
}

// Merge adds o to s, as if both had been one span.
func (s *Sample) Merge(o *Sample) {
	s.Requests += o.Requests
	s.Errors += o.Errors
	s.Sent += o.Sent
	s.Received += o.Received
	s.Elapsed += o.Elapsed
	if s.FirstError == nil {
		s.FirstError = o.FirstError
	}
	s.Latency.Merge(o.Latency)
}

// NewSample returns an empty sample to merge others into.
func NewSample() *Sample { return &Sample{Latency: newHistogram()} }

// recorder counts for one tunnel: its workers mostly run on one goroutine, so
// that the mutex is free.
type recorder struct {
	sent, received atomic.Int64

	mu       sync.Mutex
	latency  *hdrhistogram.Histogram // guarded by mu, as those below
	requests int64
	errors   int64
	first    error
}

func newRecorder() *recorder { return &recorder{latency: newHistogram()} }

func (r *recorder) done(latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	// The value is clamped to the range, the only thing that can be wrong.
	_ = r.latency.RecordValue(min(max(int64(latency), shortest), longest))
}

func (r *recorder) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors++
	if r.first == nil {
		r.first = err
	}
}

// take adds what was recorded since the last take to s.
func (r *recorder) take(s *Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Merge(&Sample{
		Requests: r.requests, Errors: r.errors, FirstError: r.first, Latency: r.latency,
		Sent: r.sent.Swap(0), Received: r.received.Swap(0),
	})
	r.latency.Reset()
	r.requests, r.errors, r.first = 0, 0, nil
}
