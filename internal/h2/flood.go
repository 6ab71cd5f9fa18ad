package h2

import "time"

// bucket is a token bucket for frames that make us work and carry nothing. Time
// fills it, and so do frames that carry something. The clock is read only when
// it is empty.
type bucket struct {
	level, burst int32
	perSecond    int32
	filled       time.Time
}

func newBucket(burst, perSecond int32) bucket {
	return bucket{level: burst, burst: burst, perSecond: perSecond}
}

// take removes n tokens and reports whether there were as many.
func (b *bucket) take(n int32) bool {
	if b.level < n {
		b.refill(time.Now())
	}
	if b.level < n {
		return false
	}
	b.level -= n
	return true
}

func (b *bucket) refill(now time.Time) {
	if b.filled.IsZero() {
		b.filled = now // full until now
		return
	}
	passed := min(now.Sub(b.filled).Seconds()*float64(b.perSecond), float64(b.burst))
	if passed < 1 {
		return
	}
	b.level = min(b.level+int32(passed), b.burst)
	b.filled = now
}

func (b *bucket) earn(n int32) { b.level = min(b.level+n, b.burst) }

// The rates. An honest peer stays far below: a gRPC client pings at most once a
// round trip while data flows, and data earns tokens.
const (
	controlBurst, controlPerSecond = 1000, 200
	resetBurst, resetPerSecond     = 200, 200
)

// chargeControl charges the peer for n frames of control.
func (c *Conn) chargeControl(n int) error {
	if c.control.take(int32(n)) {
		return nil
	}
	return connError(EnhanceYourCalm, "too many frames that carry nothing: pings, settings, empty data or resets")
}

// chargeReset charges the peer for a stream that was opened and then reset, by
// it (CVE-2023-44487) or by us because it led us to (CVE-2025-8671).
func (c *Conn) chargeReset() error {
	if c.client || c.resets.take(1) {
		return nil
	}
	return connError(EnhanceYourCalm, "too many streams opened and reset")
}
