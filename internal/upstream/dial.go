package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

const (
	// hbonePort is where a node proxy terminates tunnels for its pods.
	hbonePort = 15008
	// maxPlainDials bounds the plain dials under way: each holds a goroutine.
	maxPlainDials = 1024
)

// Field is one header field of a CONNECT.
type Field = struct{ Name, Value string }

// Dialer opens byte streams to endpoints.
type Dialer struct {
	sched   *task.Scheduler
	tunnels *hbone.Dialer
	timeout time.Duration
	wire    wire.Options
	dials   chan struct{} // holds a token for each plain dial under way
}

// NewDialer returns a Dialer that uses tunnels for endpoints behind a node proxy.
// timeout bounds a plain dial.
func NewDialer(s *task.Scheduler, tunnels *hbone.Dialer, timeout time.Duration, o wire.Options) *Dialer {
	return &Dialer{sched: s, tunnels: tunnels, timeout: timeout, wire: o, dials: make(chan struct{}, maxPlainDials)}
}

// Open opens a stream to ep, parking t meanwhile. fields go with the CONNECT,
// where there is one. If it fails, nothing has reached an application: another
// endpoint may be tried. The error is an *hbone.OpenError or a *DialError, or
// that of the task's deadline.
func (d *Dialer) Open(t *task.Task, ep *mesh.Endpoint, fields []Field) (task.Stream, error) {
	if ep.Workload.HBONE {
		return d.openTunnelled(t, ep, fields)
	}
	return d.openPlain(t, ep)
}

func (d *Dialer) openTunnelled(t *task.Task, ep *mesh.Endpoint, fields []Field) (task.Stream, error) {
	accepted := make([]identity.ID, 1, 1+len(ep.SANs))
	accepted[0] = ep.Workload.Identity
	for _, san := range ep.SANs {
		if id, err := identity.Parse(san); err == nil { // others can state no workload
			accepted = append(accepted, id)
		}
	}
	dst := hbone.NewDestination(netip.AddrPortFrom(ep.Addr.Addr(), hbonePort), accepted...)
	s, err := d.tunnels.Open(t, dst, ep.Addr.String(), fields)
	if err != nil {
		return nil, err // a nil *Stream would be no nil interface
	}
	return s, nil
}

// DialError is why an endpoint could not be reached over plain TCP.
type DialError struct {
	Addr string
	Busy bool // too many dials are under way
	Err  error
}

func (e *DialError) Error() string {
	if e.Busy {
		return fmt.Sprintf("connecting to %s: more than %d connections are being opened already", e.Addr, maxPlainDials)
	}
	return fmt.Sprintf("connecting to %s (application down, or a NetworkPolicy in the way?): %v", e.Addr, e.Err)
}

func (e *DialError) Unwrap() error { return e.Err }

func (d *Dialer) openPlain(t *task.Task, ep *mesh.Endpoint) (task.Stream, error) {
	addr := ep.Addr.String()
	if ep.Hostname != "" {
		addr = net.JoinHostPort(ep.Hostname, strconv.Itoa(int(ep.Addr.Port())))
	}
	select {
	case d.dials <- struct{}{}:
	default:
		return nil, &DialError{Addr: addr, Busy: true}
	}
	var conn *wire.Conn
	var err error
	deadline := d.deadline(t)
	t.Block(func() {
		defer func() { <-d.dials }()
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		conn, err = d.dial(ctx, ep)
	})
	if err != nil {
		return nil, &DialError{Addr: addr, Err: err}
	}
	s := wire.NewStream(conn)
	go s.Serve()
	return s, nil
}

// deadline is the earlier of the dial's own and the task's.
func (d *Dialer) deadline(t *task.Task) time.Time {
	own := time.Now().Add(d.timeout)
	if at := t.Deadline(); !at.IsZero() && at.Before(own) {
		return at
	}
	return own
}

// dial connects to ep, whose host name, if it has one, is resolved first: its
// addresses are tried in their order.
func (d *Dialer) dial(ctx context.Context, ep *mesh.Endpoint) (*wire.Conn, error) {
	if ep.Hostname == "" {
		return wire.Dial(ctx, d.sched, ep.Addr, d.wire)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", ep.Hostname)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, a := range addrs {
		conn, err := wire.Dial(ctx, d.sched, netip.AddrPortFrom(a.Unmap(), ep.Addr.Port()), d.wire)
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}
