// Package load is an HBONE client that makes load and measures what came back.
//
//  1. A [Client] opens tunnels to a waypoint as a ztunnel does. It is built on
//     wire, h2 and task, because the tool shares the machine with what it
//     measures: a request costs it a few microseconds.
//  2. A [Spec] says how many tunnels, how many connections inside each, and what
//     is spoken there. Every concurrent request is a worker: a task that does one
//     after the other.
//  3. Closed loop: each worker begins as soon as the one before is answered.
//     Open loop: a pacer hands requests to idle workers at a constant rate, and
//     latency counts from when a request was to be sent, not from when a worker
//     had time for it. A target that stalls cannot slow down its own load.
//  4. Workers record into histograms, one a tunnel. [Run.Measure] takes what was
//     completed in a span of time.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// Client opens tunnels to one waypoint.
type Client struct {
	addr  netip.AddrPort
	tls   *tls.Config
	sched *task.Scheduler
	limit *wire.Handshakes
}

// NewClient returns a client of the waypoint at addr.
func NewClient(addr netip.AddrPort, config *tls.Config) *Client {
	return &Client{addr, config, task.NewScheduler(task.Coroutines), wire.NewHandshakes(2)}
}

// windows bound what a stream that nobody reads takes from its target.
var windows = h2.Config{StreamWindow: 1 << 20, MaxStreamWindow: 1 << 20, ConnWindow: 64 << 20}

// tunnel is one connection to the waypoint.
type tunnel struct {
	wire *wire.Conn
	conn *h2.Conn
	rec  *recorder
	shut chan struct{} // closed when the reader has ended
}

// dialTimeout bounds TCP and TLS handshakes.
const dialTimeout = 20 * time.Second

// tunnel connects.
func (c *Client) tunnel(ctx context.Context) (*tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	tcp, err := wire.DialTCP(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	conn, err := wire.Client(ctx, c.sched, tcp, c.tls, c.limit, wire.Options{})
	if err != nil {
		return nil, err
	}
	cfg := windows
	cfg.Scheduler = c.sched
	t := &tunnel{wire: conn, rec: newRecorder(), shut: make(chan struct{})}
	t.conn = h2.NewClient(conn, cfg, quiet{})
	c.sched.Turn(t.conn.Start)
	go func() {
		defer close(t.shut)
		conn.Serve(t.conn)
	}()
	return t, nil
}

// quiet ignores what happens on a connection: its streams tell.
type quiet struct{}

func (quiet) Accept(*task.Batch, *h2.Stream) {}
func (quiet) Changed(*task.Batch, *h2.Conn)  {}

// close ends a tunnel in order, or else for a peer that will not.
func (c *Client) close(t *tunnel) {
	c.sched.Turn(func(b *task.Batch) { t.conn.Close(b, h2.NoError, "load is over") })
	select {
	case <-t.shut:
	case <-time.After(2 * time.Second):
		c.sched.Turn(func(b *task.Batch) { t.wire.Abort(b, errStopped) })
		<-t.shut
	}
}

var errStopped = errors.New("the load was stopped")

// tunnels opens n of them, several at a time.
func (c *Client) tunnels(ctx context.Context, n int) ([]*tunnel, error) {
	const atOnce = 8
	all, errs := make([]*tunnel, n), make([]error, n)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			all[i], errs[i] = c.tunnel(ctx)
			<-slots
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, t := range all {
			if t != nil {
				c.close(t)
			}
		}
		return nil, fmt.Errorf("opening %d tunnels: %w", n, err)
	}
	return all, nil
}

// connectFields are what a ztunnel sends along, as long as real ones.
var connectFields = []h2.Field{
	{Name: "baggage", Value: "k8s.cluster.name=Kubernetes,k8s.namespace.name=default,k8s.deployment.name=client,service.name=client,service.version=latest"},
	{Name: "forwarded", Value: `for="127.0.0.1:40000"`},
	{Name: "traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"},
}

// connect opens a stream to authority, and returns it when the waypoint has
// answered.
func (t *tunnel) connect(tk *task.Task, authority string) (*h2.Stream, error) {
	s, err := t.conn.Open(tk.Batch(), &h2.Head{Method: "CONNECT", Authority: authority, Fields: connectFields}, false, tk)
	if err != nil {
		return nil, fmt.Errorf("CONNECT %s: %w", authority, err)
	}
	head, err := waitHead(tk, s)
	if err == nil && head.Status != 200 {
		err = fmt.Errorf("status %d", head.Status)
	}
	if err != nil {
		s.Done(tk.Batch())
		return nil, fmt.Errorf("CONNECT %s: %w", authority, err)
	}
	s.NextHead()
	return s, nil
}

// waitHead waits for a response head.
func waitHead(tk *task.Task, s *h2.Stream) (*h2.Head, error) {
	for {
		ended := s.ReadErr()
		if h := s.Head(); h != nil {
			return h, nil
		}
		if ended != nil {
			return nil, fmt.Errorf("no answer: %w", ended)
		}
		if err := tk.Park(); err != nil {
			return nil, err
		}
	}
}
