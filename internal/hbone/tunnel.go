package hbone

import (
	"context"
	"net/netip"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// tunnel is one connection of a Dialer. It is the h2.Handler of its connection.
type tunnel struct {
	pool  *pool
	conn  *wire.Conn
	h2    *h2.Conn
	peer  identity.ID
	local netip.AddrPort

	// Guarded by the pool's mu.
	streams   int // places taken
	limit     int // of places
	idleSince time.Time
}

// connect dials and shakes hands. It blocks for the connect timeout at most.
func connect(p *pool) (*tunnel, error) {
	config := &p.d.config
	ctx, cancel := context.WithTimeout(p.d.ctx, config.ConnectTimeout)
	defer cancel()
	tcp, err := wire.DialTCP(ctx, p.dst.Addr)
	if err != nil {
		return nil, err
	}
	tlsConfig := identity.ClientConfig(config.Source, func(id identity.ID) error {
		if p.dst.any {
			return nil
		}
		return config.Trust.Check(id, p.dst.identities)
	})
	conn, err := wire.Client(ctx, config.Scheduler, tcp, tlsConfig, config.Handshakes, config.Wire)
	if err != nil {
		return nil, err
	}
	t := &tunnel{pool: p, conn: conn, local: conn.LocalAddr()}
	if t.peer, err = identity.Peer(conn.TLS()); err != nil { // not after a handshake that verified it
		config.Scheduler.Turn(func(b *task.Batch) { conn.Abort(b, err) })
		return nil, err
	}
	t.h2 = h2.NewClient(conn, h2.Config{Scheduler: config.Scheduler, MaxHeaderBytes: maxConnectHeader, Budget: config.Budget}, t)
	return t, nil
}

// serve is the tunnel's life. The first streams leave together with what HTTP/2
// begins with: we do not wait for the peer's settings.
func (t *tunnel) serve() {
	sched := t.pool.d.config.Scheduler
	wanted := t.pool.d.track(t)
	if wanted {
		defer t.pool.d.untrack(t)
	}
	sched.Turn(func(b *task.Batch) {
		t.h2.Start(b)
		if !t.pool.add(b, t) || !wanted {
			t.cut(b)
		}
	})
	t.conn.Serve(t.h2)
	sched.Turn(func(b *task.Batch) { t.pool.drop(b, t) })
}

// cut ends the tunnel and its streams. With CANCEL, h2 waits for the peer's end
// for two seconds only.
func (t *tunnel) cut(b *task.Batch) { t.h2.Close(b, h2.Cancel, "the client is closing") }

// Accept implements h2.Handler; a client is never asked.
func (t *tunnel) Accept(b *task.Batch, s *h2.Stream) { s.Done(b) }

// Changed implements h2.Handler.
func (t *tunnel) Changed(b *task.Batch, c *h2.Conn) {
	switch {
	case c.Draining():
		t.pool.drop(b, t)
	case c.Settled():
		t.pool.setLimit(b, t, c.Limit())
	}
}
