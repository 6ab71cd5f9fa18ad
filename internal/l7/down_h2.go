package l7

import (
	"errors"
	"io"
	"strconv"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// h2Stream is the part of an exchange that is the same on both sides: an HTTP/2
// stream with a body and trailers each way.
type h2Stream struct {
	s     *h2.Stream
	head  h2.Head // the one being sent
	ended bool    // our side
	arena *arena
}

// lengthField is a content-length.
func (d *h2Stream) lengthField(n int64) h2.Field {
	start := len(d.arena.buf)
	d.arena.buf = strconv.AppendInt(d.arena.buf, n, 10)
	return h2.Field{Name: "content-length", Value: d.arena.since(start)}
}

func (d *h2Stream) next(*task.Batch) ([]byte, error) {
	ended := d.s.ReadErr()
	if p := d.s.Peek(); len(p) > 0 {
		return p, nil
	}
	return nil, ended
}

func (d *h2Stream) consume(b *task.Batch, n int) { d.s.Discard(b, n) }

func (d *h2Stream) trailers() []h1.Field { return d.s.Trailers() }

func (d *h2Stream) send(b *task.Batch, p []byte) (int, error) { return d.s.Write(b, p) }

func (d *h2Stream) finish(b *task.Batch, trailers []h1.Field) (bool, error) {
	if d.ended {
		return true, nil
	}
	d.ended = true
	if len(trailers) > 0 {
		return true, d.s.WriteTrailers(b, trailers)
	}
	return true, d.s.CloseWrite(b)
}

// flush has nothing to do: the connection flushes itself at the end of the turn.
func (d *h2Stream) flush(*task.Batch) (bool, error) { return true, nil }

func (d *h2Stream) raw() task.Stream { return d.s }

// h2Down is the client's side of an exchange on an HTTP/2 stream.
type h2Down struct{ h2Stream }

// request puts the head that has come into the terms of all versions. The reply
// is for what is not served.
func (d *h2Down) request(r *request) *decide.Reply {
	q := d.s.Head()
	if q.TooLarge {
		return &headTooLarge
	}
	r.method, r.scheme, r.authority, r.path = q.Method, q.Scheme, q.Authority, q.Path
	fromH2(&r.Header, q.Fields, d.arena, func(f h2.Field) bool {
		switch f.Name {
		case "content-length":
			r.length = parseLength(f.Value)
		case "te":
			r.trailers = true // nothing else is allowed here
		default:
			return false
		}
		return true
	})
	r.expect = r.Has("expect")
	r.hasBody = !errors.Is(d.s.ReadErr(), io.EOF) || len(d.s.Peek()) > 0 || len(d.s.Trailers()) > 0
	switch {
	case q.Protocol == "websocket":
		// The same request as over HTTP/1, for policies and routes (RFC 8441 5).
		r.method, r.upgrade, r.hasBody = "GET", q.Protocol, false
		r.Add("upgrade", q.Protocol)
	case q.Method == "CONNECT":
		return &connectRefused
	case q.Authority != "" && !h1.ValidHost(q.Authority):
		return &badHead
	}
	return nil
}

// parseLength reads a Content-Length that HTTP/2 has checked already.
func parseLength(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (d *h2Down) interim(b *task.Batch, res *response) error {
	d.head = h2.Head{Status: res.status, Fields: res.Fields}
	return d.s.WriteHead(b, &d.head, false)
}

func (d *h2Down) respond(b *task.Batch, req *request, res *response) error {
	d.head = h2.Head{Status: res.status, Fields: res.Fields}
	switch {
	case res.status == 101:
		res.Del("upgrade")
		res.Del("sec-websocket-accept")
		d.head.Status, d.head.Fields = 200, res.Fields
		return d.s.WriteHead(b, &d.head, false)
	case res.length >= 0 && res.status != 204:
		d.head.Fields = append(d.head.Fields, d.lengthField(res.length))
	}
	d.ended = !res.hasBody || req.method == "HEAD"
	return d.s.WriteHead(b, &d.head, d.ended)
}

// broken is nil for a client that has only ended its side.
func (d *h2Down) broken() error {
	if err := d.s.ReadErr(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (d *h2Down) abort(b *task.Batch) { d.s.Abort(b, h2.InternalError) }
