package wire

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Dial connects to addr over TCP. It blocks until ctx ends at the latest.
func Dial(ctx context.Context, s *task.Scheduler, addr netip.AddrPort, o Options) (*Conn, error) {
	tcp, err := DialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	return Plain(s, tcp, o)
}

// DialTCP connects to addr and leaves what to do with the connection open.
func DialTCP(ctx context.Context, addr netip.AddrPort) (*net.TCPConn, error) {
	// MPTCP is off: it makes every read and write dearer, and inside a mesh
	// there is one path.
	var d net.Dialer
	d.KeepAlive = -1 // Plain sets it
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("dialling %s gave a %T, want TCP", addr, c)
	}
	return tcp, nil
}

// Listen listens on a TCP address, on both IP families if its host is empty.
func Listen(ctx context.Context, addr string) (*net.TCPListener, error) {
	var lc net.ListenConfig
	lc.KeepAlive = -1 // Plain sets it
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("listening on %s gave a %T, want TCP", addr, l)
	}
	return tcp, nil
}
