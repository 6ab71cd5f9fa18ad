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
// round trip while data flows, and data earns tokens. Credit for what we send is
// counted apart, see chargeUpdate.
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

const (
	// updateBytes is for how much of what we send a peer may return credit in
	// one frame. Go's HTTP/2 does it every 4 KiB, on both levels; others every
	// half window.
	updateBytes = 2 << 10
	// maxUpdates bounds what a peer saves up while it does not read: more than
	// any window holds that is in use.
	maxUpdates = 1 << 20
)

// chargeUpdate charges the peer for a WINDOW_UPDATE: what we have sent it pays, in
// proportion, else it is a frame of control like others.
func (c *Conn) chargeUpdate() error {
	if c.updates > 0 {
		c.updates--
		return nil
	}
	return c.chargeControl(1)
}

// chargeReset charges the peer for a stream that was opened and then reset, by
// it (CVE-2023-44487) or by us because it led us to (CVE-2025-8671).
func (c *Conn) chargeReset() error {
	if c.client || c.resets.take(1) {
		return nil
	}
	return connError(EnhanceYourCalm, "too many streams opened and reset")
}
