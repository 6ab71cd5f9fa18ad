package meshtest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Listener is a TCP listener that can cut what it has accepted.
type Listener struct {
	net.Listener

	mu      sync.Mutex
	open    map[*accepted]bool
	stopped bool
}

// accepted leaves its listener's list when it is closed.
type accepted struct {
	net.Conn
	listener *Listener
}

func (c *accepted) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// bind listens on addr until the mesh ends.
func (m *Mesh) bind(addr string) *Listener {
	m.t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
	l := &Listener{Listener: ln, open: make(map[*accepted]bool)}
	context.AfterFunc(m.ctx, l.Stop)
	return l
}

// serve serves each connection on a goroutine of its own, and closes it when
// conn returns.
func (l *Listener) serve(m *Mesh, conn func(net.Conn)) {
	m.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				m.t.Errorf("meshtest: accept on %s: %v", l.Address(), err)
				return
			}
			m.tasks.Go(func() {
				defer c.Close()
				conn(c.(*accepted).Conn)
			})
		}
	})
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &accepted{raw, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		raw.Close()
		return nil, net.ErrClosed
	}
	l.open[conn] = true
	return conn, nil
}

// Address is where it listens, as host:port.
func (l *Listener) Address() string { return l.Addr().String() }

// Stop closes the listener and cuts what is open, as a killed process does.
func (l *Listener) Stop() {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for conn := range l.open {
		conn.Conn.Close()
	}
}

// Cut closes what is open and goes on listening.
func (l *Listener) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.open {
		conn.Conn.Close()
	}
}
