package tunnel

import (
	"errors"
	"fmt"
	"net"

	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// relay is the task of one connection.
type relay struct {
	c      *Client
	local  task.Stream
	target hbone.Target
	socks  bool
	ended  chan struct{}
	err    error // valid once ended is closed
}

// Run opens the stream and copies both ways.
func (r *relay) Run(t *task.Task) {
	defer close(r.ended)
	defer func() { r.local.Done(t.Batch()) }()
	far, err := r.c.o.Tunnels.Open(t, r.c.o.Waypoint, r.target.String(), nil)
	if err != nil {
		code, cause := refusal(err)
		r.err = cause
		r.reply(t, code)
		_ = r.local.CloseWrite(t.Batch()) // a program that has left needs no end
		return
	}
	defer func() { far.Done(t.Batch()) }()
	r.reply(t, replyOK)
	copied := task.Relay{Down: r.local, Up: far}
	if r.err = copied.Run(t); r.err != nil {
		r.local.Abort(t.Batch(), r.err)
		far.Abort(t.Batch(), r.err)
	}
}

// reply answers a SOCKS client. If it has left, copying finds out.
func (r *relay) reply(t *task.Task, code byte) {
	if r.socks {
		_, _ = r.local.Write(t.Batch(), socksReply(code))
	}
}

// refusal says what a stream that did not open means to whoever runs the tunnel,
// and the SOCKS code for it. The dialer's own text would not do: it takes the
// other end for a node proxy.
func refusal(err error) (code byte, cause error) {
	failed, ok := errors.AsType[*hbone.OpenError](err)
	if !ok {
		return replyFailure, err
	}
	switch failed.Failure {
	case hbone.Status:
		return refusedStatus(failed.Status)
	case hbone.DialFailed, hbone.DialTimeout:
		return replyFailure, notDialled(failed)
	case hbone.PeerRefused:
		return replyFailure, fmt.Errorf("the waypoint at %s and we do not accept each other (another --waypoint-id, or another mesh?): %w", failed.Addr, failed.Err)
	case hbone.AnswerTimeout:
		return replyTTLExpired, fmt.Errorf("the waypoint at %s did not answer in time", failed.Addr)
	}
	return replyFailure, err
}

// notDialled tells a waypoint that is not there from one that we do not trust.
func notDialled(failed *hbone.OpenError) error {
	op, ok := errors.AsType[*net.OpError](failed.Err)
	if ok && op.Op == "dial" || failed.Failure == hbone.DialTimeout {
		return fmt.Errorf("no waypoint at %s (not running, or another address?): %w", failed.Addr, failed.Err)
	}
	return fmt.Errorf("no tunnel to the waypoint at %s: %w", failed.Addr, failed.Err)
}

// refusedStatus is the same for what a waypoint answers to a CONNECT.
func refusedStatus(status int) (code byte, cause error) {
	switch status {
	case 403:
		return replyNotAllowed, errors.New("the waypoint answers 403: an AuthorizationPolicy does not allow it")
	case 404:
		return replyHostUnreachable, errors.New("the waypoint answers 404: it serves no such target (no Service with this address or name and port, or not attached by istio.io/use-waypoint?)")
	case 503:
		return replyConnectionRefused, errors.New("the waypoint answers 503: no endpoint could be reached")
	}
	return replyFailure, fmt.Errorf("the waypoint answers %d", status)
}
