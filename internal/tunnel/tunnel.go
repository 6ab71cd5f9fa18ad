package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// greetingTimeout bounds how long a SOCKS client may take to say where to.
const greetingTimeout = 10 * time.Second

// Forward carries connections to a local address to one target.
type Forward struct {
	Local  string // host:port to listen on
	Target hbone.Target
}

// Options is what a Client works with.
type Options struct {
	Scheduler *task.Scheduler
	Tunnels   *hbone.Dialer
	Waypoint  hbone.Destination
	Forwards  []Forward
	SOCKS5    string // host:port to listen on; empty: no SOCKS
	Log       *slog.Logger
}

// Client accepts local connections and carries each in a stream of its own.
type Client struct {
	o         Options
	listeners []listener
	active    sync.WaitGroup
}

// listener is where connections come in, and how to learn where they go.
type listener struct {
	*net.TCPListener
	target func(net.Conn) (hbone.Target, error)
	socks  bool
}

// Listen binds every local address.
func Listen(ctx context.Context, o Options) (*Client, error) {
	c := &Client{o: o}
	for _, f := range o.Forwards {
		fixed := func(net.Conn) (hbone.Target, error) { return f.Target, nil }
		if err := c.listen(ctx, f.Local, fixed, false); err != nil {
			return nil, err
		}
	}
	if o.SOCKS5 != "" {
		if err := c.listen(ctx, o.SOCKS5, askSOCKS, true); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Client) listen(ctx context.Context, addr string, target func(net.Conn) (hbone.Target, error), socks bool) error {
	l, err := wire.Listen(ctx, addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listening on %s (in use, or no address of this machine?): %w", addr, err), c.closeListeners())
	}
	c.listeners = append(c.listeners, listener{l, target, socks})
	return nil
}

func (c *Client) closeListeners() error {
	var err error
	for _, l := range c.listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Addrs returns the local addresses: of the forwards in their order, then that of
// SOCKS.
func (c *Client) Addrs() []net.Addr {
	var addrs []net.Addr
	for _, l := range c.listeners {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

// Run serves until ctx ends; then it closes everything and waits.
func (c *Client) Run(ctx context.Context) error {
	for _, l := range c.listeners {
		c.active.Go(func() { c.accept(ctx, l) })
	}
	<-ctx.Done()
	err := c.closeListeners()
	c.o.Tunnels.Close() // which ends the streams, and with them the connections
	c.active.Wait()
	return err
}

// maxPause is how long accepting rests at most after a failure.
const maxPause = time.Second

func (c *Client) accept(ctx context.Context, l listener) {
	var pause time.Duration
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			pause = min(max(2*pause, 5*time.Millisecond), maxPause)
			c.o.Log.Warn("accepting a connection failed (out of file descriptors?)", "address", l.Addr(), "error", err, "retry", pause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		c.active.Go(func() { c.serve(ctx, conn, l) })
	}
}

// serve takes one connection to its end, and tells of one that was not carried
// there.
func (c *Client) serve(ctx context.Context, tcp *net.TCPConn, l listener) {
	from := tcp.RemoteAddr()
	target, err := ask(ctx, tcp, l)
	if err != nil {
		tcp.Close()
		c.o.Log.Warn("a connection did not say where to", "from", from, "error", err)
		return
	}
	conn, err := wire.Plain(c.o.Scheduler, tcp, wire.Options{})
	if err != nil {
		tcp.Close()
		c.o.Log.Warn("a connection was not carried", "from", from, "target", target, "error", err)
		return
	}
	local := wire.NewStream(conn)
	r := &relay{c: c, local: local, target: target, socks: l.socks, ended: make(chan struct{})}
	c.o.Scheduler.Turn(func(b *task.Batch) { c.o.Scheduler.Start(b, r) })
	c.active.Go(local.Serve) // which may outlast the relay: the program has to end its side too
	<-r.ended
	c.tell(from, target, r.err)
}

// tell logs how a connection ended, if it is worth it: that a local program has
// left is not.
func (c *Client) tell(from net.Addr, target hbone.Target, err error) {
	broken, relayed := errors.AsType[*task.RelayError](err)
	switch {
	case err == nil:
	case relayed && !broken.Upstream:
		c.o.Log.Debug("the local program has left", "from", from, "target", target, "error", err)
	case relayed:
		c.o.Log.Warn("a connection broke", "from", from, "target", target, "error", broken.Err)
	default:
		c.o.Log.Warn("a connection was not carried", "from", from, "target", target, "error", err)
	}
}

// ask learns where a connection wants to go.
func ask(ctx context.Context, tcp *net.TCPConn, l listener) (hbone.Target, error) {
	if err := tcp.SetDeadline(time.Now().Add(greetingTimeout)); err != nil {
		return hbone.Target{}, err
	}
	stop := context.AfterFunc(ctx, func() { tcp.Close() })
	target, err := l.target(tcp)
	if !stop() {
		return hbone.Target{}, errors.Join(err, ctx.Err())
	}
	if err != nil {
		return hbone.Target{}, err
	}
	return target, tcp.SetDeadline(time.Time{})
}
