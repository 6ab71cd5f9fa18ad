package l7

import (
	"errors"
	"io"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
	"github.com/waypoint-mesh/waypoint/internal/upstream"
)

// h1Conn is an HTTP/1 connection to an endpoint. An exchange owns it, or the
// pool; while it is in the pool it is its own waker, and what dies there is
// dropped at once.
type h1Conn struct {
	fw     *Forwarder
	key    upstream.Key
	stream task.Stream
	uses   int    // requests that it has carried
	era    uint64 // of the Forwarder, when it was made
}

// Wake has a look taken at the idle connection, in this turn.
func (c *h1Conn) Wake(b *task.Batch) { b.Add(c) }

// RunIn drops the connection if it is idle and dead.
func (c *h1Conn) RunIn(b *task.Batch) {
	if c.fw.idle.Remove(c.key, c) {
		c.put(b)
	}
}

// dead reports whether an idle connection is not to be used: it has ended, or sent
// what nobody asked for, its tunnel is going away, or its endpoint has left.
func (c *h1Conn) dead() bool {
	return c.stream.ReadErr() != nil || len(c.stream.Peek()) > 0 || task.GoingAway(c.stream) || c.hasLeft()
}

// hasLeft reports whether the endpoint may have left while a request was under way:
// endpoints have, and its address is no workload's any more, or another's. A tunnel
// to one that has left is going away, and says so itself.
func (c *h1Conn) hasLeft() bool {
	addr := c.key.Addr.Addr()
	if c.key.HBONE || c.era == c.fw.era.Load() || !addr.IsValid() {
		return false
	}
	w := c.fw.opts.Store.Load().Workloads[addr]
	return w == nil || w.Identity != c.key.Identity
}

// put makes the connection idle. The caller owns it no more.
func (c *h1Conn) put(b *task.Batch) {
	if c.dead() {
		closeIdle(b, c)
		return
	}
	c.stream.SetWaker(c)
	c.fw.idle.Put(b, c.key, c)
	// What happened before it was in the pool found nothing there to remove.
	if c.dead() && c.fw.idle.Remove(c.key, c) {
		closeIdle(b, c)
	}
}

// closeIdle ends a connection that carries no request.
func closeIdle(b *task.Batch, c *h1Conn) { linger(c.fw.sched, b, c.stream) }

// h1Up is the endpoint's side of an attempt on an HTTP/1 connection.
type h1Up struct {
	h1Reader
	h1Writer
	conn   *h1Conn
	limits Limits
	scan   h1.Scanner
	res    h1.Response
	any    bool // a byte of the response has come
}

func (u *h1Up) reset(c *h1Conn) {
	u.conn, u.any = c, false
	u.scan.Reset()
	u.res.Release()
	var s task.Stream
	if c != nil {
		s, u.limits = c.stream, c.fw.limits
		u.limits.MaxHeaderBytes = min(u.limits.MaxHeaderBytes, maxResponseHead) // of trailers, which a stream has to hold
	}
	u.h1Reader.reset(s, h1.Framing{}, u.limits)
	u.h1Writer.reset(s)
}

// takeIdle takes an idle connection to an endpoint out of the pool.
func (fw *Forwarder) takeIdle(b *task.Batch, key upstream.Key, w task.Waker) (*h1Conn, bool) {
	for {
		c, ok := fw.idle.Get(key)
		if !ok {
			return nil, false
		}
		c.stream.SetWaker(w)
		if !c.dead() {
			return c, true
		}
		closeIdle(b, c)
	}
}

// start sends the head of the request.
func (u *h1Up) start(r *request) {
	out := h1.AppendRequestLine(u.out, r.method, r.path)
	out = h1.AppendField(out, "Host", r.authority)
	out = h1.AppendHeader(out, &r.Header)
	switch {
	case r.hasBody && (r.length < 0 || r.Has("trailer")):
		u.frame(h1.Framing{Kind: h1.ChunkedBody})
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case r.hasBody:
		u.frame(h1.Framing{Kind: h1.FixedBody, Length: r.length})
		out = appendLength(out, r.length)
	case r.length == 0:
		out = appendLength(out, 0)
	}
	switch {
	case r.upgrade != "":
		if !r.Has("sec-websocket-key") { // the client asked over HTTP/2, where there is none
			out = h1.AppendField(out, "Sec-WebSocket-Key", websocketKey())
		}
		out = append(out, "Connection: Upgrade\r\n"...)
	case r.trailers:
		out = append(out, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	u.out = append(out, "\r\n"...)
	u.conn.uses++
}

func (u *h1Up) responseHead(b *task.Batch, req *request, res *response) (bool, error) {
	ended := u.conn.stream.ReadErr()
	p := u.conn.stream.Peek()
	u.any = u.any || len(p) > 0
	n, err := u.scan.Scan(p, maxResponseHead)
	switch {
	case err != nil:
		return false, err
	case n == 0:
		return false, truncated(ended)
	}
	u.scan.Reset()
	err = u.res.Parse(p[:n], u.limits.h1())
	u.conn.stream.Discard(b, n)
	if err != nil {
		return false, err
	}
	f := u.res.Framing(req.method)
	u.h1Reader.reset(u.conn.stream, f, u.limits)
	res.reset()
	res.CopyFrom(&u.res.Header)
	res.status, res.reason, res.length = u.res.Status, u.res.Reason, u.res.Length
	res.hasBody = f.Kind == h1.UntilClose || f.Kind == h1.ChunkedBody || f.Length > 0
	if res.status == 101 && (req.upgrade == "" || !h1.EqualFold(u.res.Upgrade, req.upgrade)) {
		return false, h1.ErrSwitch
	}
	return true, nil
}

func (u *h1Up) stale() bool { return u.conn.uses > 1 && !u.any }

func (u *h1Up) release(b *task.Batch, whole bool) {
	c := u.conn
	u.conn = nil
	clean := whole && len(u.out) == 0
	switch ended := c.stream.ReadErr(); {
	case clean && ended == nil && !u.res.Close && u.h1Reader.kind != h1.UntilClose:
		c.put(b)
	case clean && (ended == nil || errors.Is(ended, io.EOF)):
		closeIdle(b, c)
	default:
		c.stream.Abort(b, h2.Cancel)
		c.stream.Done(b)
	}
}

func (u *h1Up) raw() task.Stream { return u.conn.stream }
