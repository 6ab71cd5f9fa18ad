package l7

import (
	"time"

	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
)

// Limits bound what clients and endpoints can make us hold. Zero fields take the
// defaults.
type Limits struct {
	// MaxHeaderBytes bounds the head of a request, trailers included: 60 KiB.
	// Above it the answer is 431. It must not be more than the streams of clients
	// hold. The head of a response may have 64 KiB.
	MaxHeaderBytes int
	// MaxHeaders bounds the number of fields in a head: 1000.
	MaxHeaders int
	// IdleTimeout is how long a connection without a request is kept, on either
	// side: 1 h. Negative: for ever.
	IdleTimeout time.Duration
	// HeadTimeout is how long the rest of a head may take once its first bytes
	// are there: 60 s.
	HeadTimeout time.Duration
	// IdlePerEndpoint bounds the idle HTTP/1 connections kept per endpoint: 256.
	IdlePerEndpoint int
	// MaxMirrors bounds the mirrored requests under way: 256. Above it none is
	// sent.
	MaxMirrors int
}

// maxResponseHead bounds the head of a response, as Envoy does by default. It is
// also what a stream over plain TCP holds at least.
const maxResponseHead = 64 << 10

func (l Limits) withDefaults() Limits {
	setDefault(&l.MaxHeaderBytes, 60<<10)
	setDefault(&l.MaxHeaders, 1000)
	setDefault(&l.IdleTimeout, time.Hour)
	setDefault(&l.HeadTimeout, time.Minute)
	setDefault(&l.IdlePerEndpoint, 256)
	setDefault(&l.MaxMirrors, 256)
	return l
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (l Limits) h1() h1.Limits { return h1.Limits{Fields: l.MaxHeaders} }
