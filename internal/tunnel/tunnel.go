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
		c.active.Go(func() { c.accept(l) })
	}
	<-ctx.Done()
	err := c.closeListeners()
	c.o.Tunnels.Close() // which ends the streams, and with them the connections
	c.active.Wait()
	return err
}

func (c *Client) accept(l listener) {
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.o.Log.Warn("accepting a connection failed", "address", l.Addr(), "error", err)
			continue
		}
		c.active.Go(func() {
			if err := c.carry(conn, l); err != nil {
				c.o.Log.Warn("a connection was not carried", "from", conn.RemoteAddr(), "error", err)
			}
		})
	}
}

// carry takes one connection to its end.
func (c *Client) carry(tcp *net.TCPConn, l listener) error {
	target, err := ask(tcp, l)
	if err != nil {
		return errors.Join(err, tcp.Close())
	}
	conn, err := wire.Plain(c.o.Scheduler, tcp, wire.Options{})
	if err != nil {
		return errors.Join(err, tcp.Close())
	}
	local := wire.NewStream(conn)
	r := &relay{c: c, local: local, target: target, socks: l.socks, ended: make(chan struct{})}
	c.o.Scheduler.Turn(func(b *task.Batch) { c.o.Scheduler.Start(b, r) })
	local.Serve()
	<-r.ended
	return r.err
}

// ask learns where a connection wants to go.
func ask(tcp *net.TCPConn, l listener) (hbone.Target, error) {
	if err := tcp.SetDeadline(time.Now().Add(greetingTimeout)); err != nil {
		return hbone.Target{}, err
	}
	target, err := l.target(tcp)
	if err != nil {
		return hbone.Target{}, err
	}
	return target, tcp.SetDeadline(time.Time{})
}

// askSOCKS speaks SOCKS up to the request, which is answered once the stream is
// open.
func askSOCKS(conn net.Conn) (hbone.Target, error) {
	text, err := readSocksRequest(conn)
	if err != nil {
		var se *socksError
		if errors.As(err, &se) {
			err = errors.Join(err, writeSocksReply(conn, se.code))
		}
		return hbone.Target{}, err
	}
	target, err := hbone.ParseTarget(text)
	if err != nil {
		return hbone.Target{}, errors.Join(err, writeSocksReply(conn, replyFailure))
	}
	return target, nil
}

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
		r.err = fmt.Errorf("%s: %w", r.target, err)
		r.reply(t, replyFailure)
		return
	}
	defer func() { far.Done(t.Batch()) }()
	r.reply(t, replyOK)
	copied := task.Relay{Down: r.local, Up: far}
	if err := copied.Run(t); err != nil {
		r.err = fmt.Errorf("%s: %w", r.target, err)
		r.local.Abort(t.Batch(), err)
		far.Abort(t.Batch(), err)
	}
}

// reply answers a SOCKS client. If it has left, copying finds out.
func (r *relay) reply(t *task.Task, code byte) {
	if r.socks {
		_, _ = r.local.Write(t.Batch(), socksReply(code))
	}
}
