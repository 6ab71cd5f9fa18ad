package certs

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// newPauses returns the pauses between tries that fail: each twice as long as the
// one before, half as much more or less by chance, so that all who lost a CA do
// not come back at once.
func newPauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, MaxInterval: 30 * time.Second, Multiplier: 2, RandomizationFactor: 0.5,
	}
}

// untilRenewal is how long to serve with a certificate that ends at notAfter
// before asking for the next: between two fifths and half of what it has left, by
// chance, so that what was started together is not renewed together. What is left
// counts from now, since CAs date certificates back.
func untilRenewal(notAfter time.Time) time.Duration {
	left := max(time.Until(notAfter), time.Second)
	return left/2 - rand.N(left/10)
}
