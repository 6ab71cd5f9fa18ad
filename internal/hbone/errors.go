package hbone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Failure says in which way opening a stream failed. In every case no byte of the
// stream has reached an application, so that another endpoint may be tried.
type Failure int

const (
	// DialFailed is no TCP connection, or none that became a tunnel.
	DialFailed Failure = iota
	// DialTimeout is that nobody answered within the connect timeout.
	DialTimeout
	// PeerRefused is a peer that is not who we expect, or does not accept us.
	PeerRefused
	// Busy is that too many streams wait already for a tunnel to this
	// destination, or that this one waited for too long.
	Busy
	// Unprocessed is that the peer provably did not look at the CONNECT: it
	// refused the stream or is going away (RFC 9113 section 8.7).
	Unprocessed
	// Broken is a tunnel that broke, or a stream that was reset, before the
	// answer.
	Broken
	// AnswerTimeout is no answer to the CONNECT within the connect timeout.
	AnswerTimeout
	// Status is another answer than 200.
	Status
	// Waited is that the task's own deadline or cancellation ended the waiting.
	Waited
)

var failureNames = [...]string{
	"dial failed", "dial timed out", "peer refused", "busy", "unprocessed", "broken", "answer timed out", "status", "gave up waiting",
}

// String names the failure for logs.
func (f Failure) String() string { return failureNames[f] }

// OpenError is why a stream could not be opened.
type OpenError struct {
	Failure Failure
	Addr    netip.AddrPort // of the tunnel
	Status  int            // of the answer; 0 if there was none
	Err     error          // the cause below; nil for Busy and Status
}

func (e *OpenError) Error() string {
	text := fmt.Sprintf("tunnel to %s: %s", e.Addr, e.likely())
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// likely names the likely cause first.
func (e *OpenError) likely() string {
	switch e.Failure {
	case DialFailed:
		return "could not be opened (endpoint gone, or no ztunnel there?)"
	case DialTimeout:
		return fmt.Sprintf("no answer on %d (a NetworkPolicy that blocks it, or no ztunnel there?)", e.Addr.Port())
	case PeerRefused:
		return "identities do not match"
	case Busy:
		return "too many requests wait for it already"
	case Unprocessed:
		return "the peer is going away or full, it did not look at the request"
	case Broken:
		return "it broke before the answer (ztunnel restarted?)"
	case AnswerTimeout:
		return "no answer to the CONNECT (application does not accept connections?)"
	case Status:
		return statusCause(e.Status)
	}
	return "given up before it was open"
}

// statusCause says what a ztunnel means by a status.
func statusCause(status int) string {
	switch status {
	case 400:
		return "CONNECT answered 400: the address is not of the workload behind it (a stale endpoint?)"
	case 401, 403:
		return fmt.Sprintf("CONNECT answered %d: denied by an AuthorizationPolicy at the destination (does it allow the waypoint's service account?)", status)
	case 503:
		return "CONNECT answered 503: the application does not accept connections on that port"
	}
	return fmt.Sprintf("CONNECT answered %d", status)
}

func (e *OpenError) Unwrap() error { return e.Err }

// dialError classifies why a dial failed.
func dialError(addr netip.AddrPort, err error) *OpenError {
	e := &OpenError{Failure: DialFailed, Addr: addr, Err: err}
	if _, ok := errors.AsType[*identity.MismatchError](err); ok || refusedUs(err) {
		e.Failure = PeerRefused
	} else if ne, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && ne.Timeout() {
		e.Failure = DialTimeout
	}
	return e
}

// refusedUs tells an alert of the peer: in TLS 1.3 a client learns only after its
// handshake that its certificate was refused.
func refusedUs(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
