package load

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestRecorderPercentiles(t *testing.T) {
	r := newRecorder()
	for i := 1; i <= 1000; i++ {
		r.done(time.Duration(i) * time.Millisecond)
	}
	r.failed(errors.New("one"))
	r.failed(errors.New("two"))
	s := NewSample()
	r.take(s)
	if s.Requests != 1000 || s.Errors != 2 || s.FirstError.Error() != "one" {
		t.Errorf("took %d requests, %d errors, first %v", s.Requests, s.Errors, s.FirstError)
	}
	for p, want := range map[float64]time.Duration{50: 500 * time.Millisecond, 99: 990 * time.Millisecond, 99.9: 999 * time.Millisecond} {
		got := s.Percentile(p)
		if off := math.Abs(float64(got-want)) / float64(want); off > 0.002 { // three digits
			t.Errorf("p%v = %v, want %v", p, got, want)
		}
	}
	again := NewSample()
	r.take(again)
	if again.Requests != 0 || again.Errors != 0 || again.FirstError != nil || again.Latency.TotalCount() != 0 {
		t.Errorf("taken twice: %+v", again)
	}
}

func TestRecorderClamps(t *testing.T) {
	r, s := newRecorder(), NewSample()
	r.done(-time.Second)
	r.done(time.Hour)
	r.take(s)
	if s.Latency.TotalCount() != 2 || s.Percentile(100) < time.Duration(longest) {
		t.Errorf("%d of 2 values, the longest %v", s.Latency.TotalCount(), s.Percentile(100))
	}
}

func TestMerge(t *testing.T) {
	sum := NewSample()
	for _, ms := range []int{1, 3} {
		r, s := newRecorder(), NewSample()
		r.done(time.Duration(ms) * time.Millisecond)
		r.sent.Add(5)
		r.take(s)
		s.Elapsed = time.Second
		sum.Merge(s)
	}
	if sum.Requests != 2 || sum.Sent != 10 || sum.Elapsed != 2*time.Second || sum.Latency.TotalCount() != 2 {
		t.Errorf("merged: %+v", sum)
	}
}
