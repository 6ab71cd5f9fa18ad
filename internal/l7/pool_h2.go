package l7

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// maxDialWaiters bounds the exchanges that wait for one connection to an endpoint.
const maxDialWaiters = 4096

var (
	errTooManyWaiters    = errors.New("too many requests wait for a connection to the endpoint")
	errNoExtendedConnect = errors.New("the endpoint speaks HTTP/2 without extended CONNECT (RFC 8441), which a WebSocket needs")
)

// h2Pool holds the HTTP/2 connections to endpoints. They are shared: a new one is
// made when the others are at their peer's limit, by one exchange at a time for
// each endpoint, on behalf of all that wait.
//
// mu guards everything. It is never held while something is dialled or woken.
type h2Pool struct {
	fw *Forwarder

	mu       sync.Mutex
	to       map[upstream.Key]*h2Endpoint
	made     uint64 // connections, ever
	sweeping bool
	closed   bool
}

// h2Endpoint is what leads to one endpoint.
type h2Endpoint struct {
	conns []*h2Shared
	dial  *h2Dial // nil: none under way
}

// h2Shared is one connection. It is the connection's handler.
type h2Shared struct {
	pool     *h2Pool
	key      upstream.Key
	conn     *h2.Conn
	lastUsed time.Time // guarded by pool.mu
	// waiters are told of a change, once; guarded by pool.mu. Bounded by the
	// upgrades that come before the peer's settings do.
	waiters []task.Waker
}

// h2Dial is one attempt to connect, and who waits for it.
type h2Dial struct {
	done    bool
	err     error
	waiters []task.Waker
}

// openH2 opens a stream for the request and sends its head.
func (e *exchange) openH2(ep *mesh.Endpoint) *failure {
	e.h2up.prepare(&e.req, &e.arena)
	s, err := e.fw.h2.open(e.t, ep, &e.h2up.head, !e.req.hasBody && e.req.upgrade == "")
	e.armDeadline()
	switch {
	case errors.Is(err, errTooManyWaiters):
		return &failure{reply: &overflow, err: err, final: true}
	case errors.Is(err, h2.ErrHeadTooLarge):
		return &failure{reply: &headTooLarge, err: err, final: true}
	case errors.Is(err, errNoExtendedConnect):
		return &failure{reply: &noUpgrade, err: err, final: true}
	case err != nil:
		return e.dialFailure(err)
	}
	e.h2up.s, e.h2up.ended = s, !e.req.hasBody && e.req.upgrade == ""
	e.up = &e.h2up
	return nil
}

// open opens a stream on a connection that has room, parked while one is made.
func (p *h2Pool) open(t *task.Task, ep *mesh.Endpoint, head *h2.Head, end bool) (*h2.Stream, error) {
	key := upstream.KeyOf(ep)
	for {
		conns, made := p.candidates(key)
		s, err := p.openOn(t, conns, head, end)
		if s != nil || err != nil {
			return s, err
		}
		d, mine, err := p.joinDial(key, made, t)
		if err != nil {
			return nil, err
		}
		switch {
		case mine:
			err = p.dial(t, ep, key, d)
		case d != nil:
			err = p.wait(t, d)
		}
		if err != nil {
			return nil, err
		}
	}
}

// openOn opens a stream on the first connection with room, if there is one. What
// is wrong with the head is wrong for all of them.
func (p *h2Pool) openOn(t *task.Task, conns []*h2Shared, head *h2.Head, end bool) (*h2.Stream, error) {
	for _, c := range conns {
		if head.Protocol != "" {
			if err := p.awaitSettings(t, c); err != nil {
				return nil, err
			}
		}
		s, err := c.conn.Open(t.Batch(), head, end, t)
		if err == nil || !errors.Is(err, h2.ErrNoCapacity) && c.conn.Err() == nil {
			return s, err
		}
	}
	return nil, nil
}

// awaitSettings parks until the peer has said whether it takes extended CONNECT.
func (p *h2Pool) awaitSettings(t *task.Task, c *h2Shared) error {
	for !c.conn.Settled() && c.conn.Err() == nil {
		p.mu.Lock()
		c.waiters = append(c.waiters, t)
		p.mu.Unlock()
		if c.conn.Settled() || c.conn.Err() != nil {
			break
		}
		if err := t.Park(); err != nil {
			return err
		}
	}
	if c.conn.Err() == nil && !c.conn.ConnectProtocol() {
		return errNoExtendedConnect
	}
	return nil
}

// candidates are the connections to an endpoint that may have room, and how many
// had been made when they were all.
func (p *h2Pool) candidates(key upstream.Key) ([]*h2Shared, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.to[key]
	if to == nil {
		return nil, p.made
	}
	now := time.Now()
	for _, c := range to.conns {
		c.lastUsed = now
	}
	return to.conns, p.made // the slice is replaced, never changed in place
}

// joinDial has t wait for a connection, and reports whether t is to make it. None
// is returned if others were made since t last looked: they may have room.
func (p *h2Pool) joinDial(key upstream.Key, made uint64, t *task.Task) (d *h2Dial, mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.to[key]
	if to == nil {
		to = new(h2Endpoint)
		p.to[key] = to
	}
	switch {
	case p.made != made:
		return nil, false, nil
	case to.dial == nil:
		to.dial = new(h2Dial)
		return to.dial, true, nil
	case len(to.dial.waiters) >= maxDialWaiters:
		return nil, false, errTooManyWaiters
	}
	to.dial.waiters = append(to.dial.waiters, t)
	return to.dial, false, nil
}

// dial makes a connection, and tells all who wait for it how that went.
func (p *h2Pool) dial(t *task.Task, ep *mesh.Endpoint, key upstream.Key, d *h2Dial) error {
	c, err := p.connect(t, ep, key)
	p.mu.Lock()
	to := p.to[key]
	to.dial = nil
	if c != nil && !p.closed {
		p.made++
		to.conns = append(slices.Clip(to.conns), c)
		p.scheduleSweep()
	}
	closed := p.closed
	d.done, d.err = true, err
	waiters := d.waiters
	p.mu.Unlock()
	b := t.Batch()
	for _, w := range waiters {
		w.Wake(b)
	}
	if c != nil && (closed || c.conn.Draining()) {
		p.drop(c)
		c.conn.Drain(b)
	}
	return err
}

func (p *h2Pool) connect(t *task.Task, ep *mesh.Endpoint, key upstream.Key) (*h2Shared, error) {
	stream, err := p.fw.opts.Dial(t, ep)
	if err != nil {
		return nil, err
	}
	c := &h2Shared{pool: p, key: key, lastUsed: time.Now()}
	c.conn = h2.NewClient(stream, p.fw.h2Config(max(p.fw.limits.MaxHeaderBytes, maxResponseHead)), c)
	h2.Ride(t.Batch(), c.conn, stream)
	return c, nil
}

// wait parks t until d is done. That the one who dials had no more time is nothing
// to those who wait: one of them is next.
func (p *h2Pool) wait(t *task.Task, d *h2Dial) error {
	for {
		p.mu.Lock()
		done, err := d.done, d.err
		p.mu.Unlock()
		switch {
		case done && errors.Is(err, task.ErrDeadline):
			return nil
		case done:
			return err
		}
		if err := t.Park(); err != nil {
			return err
		}
	}
}

// drop takes a connection out of the pool.
func (p *h2Pool) drop(c *h2Shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.to[c.key]
	if to == nil {
		return
	}
	to.conns = slices.DeleteFunc(slices.Clone(to.conns), func(other *h2Shared) bool { return other == c })
	if len(to.conns) == 0 && to.dial == nil {
		delete(p.to, c.key)
	}
}

// Accept is never called: we are the client.
func (c *h2Shared) Accept(b *task.Batch, s *h2.Stream) { s.Reset(b, h2.RefusedStream) }

// Changed drops a connection that takes no new streams, and tells those who wait
// for its settings.
func (c *h2Shared) Changed(b *task.Batch, conn *h2.Conn) {
	if conn.Draining() {
		c.pool.drop(c)
	}
	c.pool.mu.Lock()
	waiters := c.waiters
	c.waiters = nil
	c.pool.mu.Unlock()
	for _, w := range waiters {
		w.Wake(b)
	}
}

// retain drains the connections that keep does not select.
func (p *h2Pool) retain(b *task.Batch, keep func(c *h2Shared) bool) {
	var gone []*h2Shared
	p.mu.Lock()
	for _, to := range p.to {
		for _, c := range to.conns {
			if !keep(c) {
				gone = append(gone, c)
			}
		}
	}
	p.mu.Unlock()
	for _, c := range gone {
		p.drop(c)
		c.conn.Drain(b)
	}
}

func (p *h2Pool) close(b *task.Batch) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.retain(b, func(*h2Shared) bool { return false })
}

// scheduleSweep has the idle looked at when half the timeout has passed. The
// caller holds mu.
func (p *h2Pool) scheduleSweep() {
	if timeout := p.fw.limits.IdleTimeout; timeout > 0 && !p.sweeping {
		p.sweeping = true
		p.fw.sched.After(timeout/2, (*h2Sweep)(p))
	}
}

// h2Sweep is the timer's view of the pool.
type h2Sweep h2Pool

// Wake drains the connections that had no request for too long.
func (s *h2Sweep) Wake(b *task.Batch) {
	p := (*h2Pool)(s)
	old := time.Now().Add(-p.fw.limits.IdleTimeout)
	p.retain(b, func(c *h2Shared) bool { return c.conn.Streams() > 0 || c.lastUsed.After(old) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	if len(p.to) > 0 && !p.closed {
		p.scheduleSweep()
	}
}
