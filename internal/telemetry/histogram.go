package telemetry

import (
	"math"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// upperBounds are the buckets of all of Istio's histograms, which are Envoy's
// defaults: milliseconds and bytes alike.
var upperBounds = [...]float64{
	0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000,
}

// unit is what a histogram counts in, and how many of those its exposition calls one.
type unit struct {
	size   float64
	bounds [len(upperBounds)]int64 // upperBounds in this unit; for whole numbers v <= 0.5 says v <= 0
}

var (
	inMilliseconds = newUnit(float64(time.Millisecond)) // counts nanoseconds
	inBytes        = newUnit(1)
)

func newUnit(size float64) *unit {
	u := &unit{size: size}
	for i, b := range upperBounds {
		u.bounds[i] = int64(math.Floor(b * size))
	}
	return u
}

// histogram counts whole numbers: two atomic additions an observation, where
// one of client_golang, which sums floats, costs three and a loop.
type histogram struct {
	buckets [len(upperBounds) + 1]atomic.Uint64 // the last: above all bounds
	sum     atomic.Int64
}

func (h *histogram) observe(u *unit, v int64) {
	lo, hi := 0, len(u.bounds)
	for lo < hi {
		if mid := (lo + hi) / 2; v <= u.bounds[mid] {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	h.buckets[lo].Add(1)
	h.sum.Add(v)
}

// count is the sum of the buckets, so that a scrape never sees the two differ.
func (h *histogram) count() (n uint64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

func (h *histogram) proto(u *unit) *dto.Histogram {
	// What the message points to comes in two pieces instead of sixty.
	v := new(struct {
		sum     float64
		counts  [len(upperBounds) + 1]uint64
		buckets [len(upperBounds)]dto.Bucket
	})
	refs := make([]*dto.Bucket, len(upperBounds))
	var n uint64
	for i := range h.buckets {
		n += h.buckets[i].Load()
		v.counts[i] = n
	}
	for i := range refs {
		v.buckets[i].UpperBound, v.buckets[i].CumulativeCount = &upperBounds[i], &v.counts[i]
		refs[i] = &v.buckets[i]
	}
	v.sum = float64(h.sum.Load()) / u.size
	return &dto.Histogram{SampleCount: &v.counts[len(upperBounds)], SampleSum: &v.sum, Bucket: refs}
}
