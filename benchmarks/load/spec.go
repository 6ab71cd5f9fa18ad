package load

import (
	"errors"
	"fmt"
)

// Protocol is what is spoken inside a tunnel's streams.
type Protocol int

// The protocols.
const (
	HTTP1      Protocol = iota
	GRPCUnary           // HTTP/2 with prior knowledge, one message each way
	GRPCStream          // the same; an exchange is a message and its answer in an open call
	TCP                 // bytes that come back
)

// Spec is one load.
type Spec struct {
	Protocol Protocol
	Target   string // of the CONNECT

	Tunnels int
	Conns   int // in each tunnel
	Calls   int // at once in each connection; above 1 only where HTTP/2 is spoken

	Path   string // default /
	Upload int64  // bytes of an HTTP/1.1 request's body, of a gRPC message, or of a TCP exchange

	// Answer, if set, is given the body of every answer. For small ones, over
	// HTTP/1.1.
	Answer func(body []byte)

	// Rate is how many exchanges begin a second, over all. Zero: closed loop.
	Rate float64
	// Held: workers connect and then do what Run.Each asks for.
	Held bool
	// OneShot: a new connection in the tunnel for each exchange.
	OneShot bool
	// ReadRate is how many bytes of HTTP/1.1 answers a worker takes a second.
	// Zero: as they come.
	ReadRate float64
}

func (s Spec) withDefaults() (Spec, error) {
	s.Tunnels, s.Conns, s.Calls = max(1, s.Tunnels), max(1, s.Conns), max(1, s.Calls)
	if s.Path == "" {
		s.Path = "/"
	}
	h2 := s.Protocol == GRPCUnary || s.Protocol == GRPCStream
	switch {
	case s.Target == "":
		return s, errors.New("load: no target")
	case s.Conns > maxConns:
		return s, fmt.Errorf("load: %d connections in a tunnel, waypoints take %d", s.Conns, maxConns)
	case s.Calls > 1 && !h2:
		return s, errors.New("load: several calls at once on one connection need HTTP/2")
	case s.OneShot && h2:
		return s, errors.New("load: a connection per exchange is for HTTP/1.1 and TCP")
	}
	return s, nil
}

// maxConns is how many streams a tunnel may have: what ztunnel opens at most and
// waypoints advertise.
const maxConns = 100

func (s Spec) workers() int { return s.Tunnels * s.Conns * s.Calls }

func (s Spec) paced() bool { return s.Rate > 0 || s.Held }
