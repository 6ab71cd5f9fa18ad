package control

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// relay passes bytes between a waypoint and the controller, and counts those that
// the waypoint gets.
type relay struct {
	listener net.Listener
	to       string
	received atomic.Int64
}

func newRelay(ctx context.Context, to string) (*relay, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, to: to}
	go r.serve()
	return r, nil
}

// serve accepts until the listener is closed.
func (r *relay) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.pass(c)
	}
}

// pass ends when either side does. A controller that is not there yet looks to the
// waypoint like one that hangs up.
func (r *relay) pass(c net.Conn) {
	defer c.Close()
	controller, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer controller.Close()
	go func() {
		_, _ = io.Copy(controller, c) // how it ends is the waypoint's to see
		_ = controller.Close()
	}()
	_, _ = io.Copy(counter{c, &r.received}, controller)
}

// counter counts what is written.
type counter struct {
	io.Writer
	n *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// addr is where waypoints reach it. The host is the controller's, so that its
// certificate fits.
func (r *relay) addr() string {
	_, port, _ := net.SplitHostPort(r.listener.Addr().String()) // an address of a listener has one
	return net.JoinHostPort("localhost", port)
}

func (r *relay) close() { _ = r.listener.Close() }
