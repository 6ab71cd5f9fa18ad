package l7

import (
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// h1Down is the client's side of an exchange on an HTTP/1 connection.
type h1Down struct {
	h1Reader
	h1Writer
	stream task.Stream
	scan   h1.Scanner
	req    h1.Request
	close  bool // the connection ends with this exchange
}

func (d *h1Down) reset(s task.Stream) {
	d.stream, d.close = s, false
	d.scan.Reset()
	d.req.Release()
	d.h1Reader.reset(s, h1.Framing{}, Limits{})
	d.h1Writer.reset(s)
}

// readHead waits for a request and parses it. io.EOF, before anything of a
// request has come, is the regular end of the connection.
func (d *h1Down) readHead(t *task.Task, l Limits) error {
	for {
		for h1.LeadingEmptyLine(d.stream.Peek()) && !d.scan.Started() {
			d.stream.Discard(t.Batch(), 2)
		}
		p := d.stream.Peek()
		n, err := d.scan.Scan(p, l.MaxHeaderBytes)
		if err != nil {
			return err
		}
		if n > 0 {
			t.SetDeadline(time.Time{})
			return d.parse(t.Batch(), p[:n], l)
		}
		if len(p) > 0 && l.HeadTimeout > 0 {
			t.SetDeadline(time.Now().Add(l.HeadTimeout))
			l.HeadTimeout = 0 // it is set once a head
		}
		if err := task.ReadMore(t, d.stream, len(p)); err != nil {
			if len(p) > 0 && errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

func (d *h1Down) parse(b *task.Batch, head []byte, l Limits) error {
	err := d.req.Parse(head, l.h1())
	d.stream.Discard(b, len(head))
	if err != nil {
		return err
	}
	d.close = d.req.Close
	d.h1Reader.reset(d.stream, d.req.Framing(), l)
	return nil
}

// request puts what was read into the terms of all versions.
func (d *h1Down) request(r *request) {
	q := &d.req
	r.CopyFrom(&q.Header)
	r.method, r.scheme, r.authority, r.path = q.Method, q.Scheme, q.Authority, q.Path
	r.length, r.hasBody, r.trailers, r.expect = q.Length, q.HasBody(), q.Trailers, q.Expect
	switch {
	case q.Upgrade == "":
	case h1.EqualFold(q.Upgrade, "websocket") && q.Method == "GET" && !r.hasBody:
		r.upgrade = "websocket"
	default:
		// Any other protocol would carry requests past every check: h2c above all.
		r.Del("upgrade")
	}
}

func (d *h1Down) interim(_ *task.Batch, res *response) error {
	if d.req.Minor == 0 {
		return nil // HTTP/1.0 knows no interim responses
	}
	d.out = h1.AppendStatusLine(d.out, res.status, res.reason)
	d.out = h1.AppendHeader(d.out, &res.Header)
	d.out = append(d.out, "\r\n"...)
	return nil
}

func (d *h1Down) respond(b *task.Batch, req *request, res *response) error {
	f := d.framing(req, res)
	d.frame(f)
	if f.Kind == h1.UntilClose || res.local && !d.received(b) {
		d.close = true
	}
	out := h1.AppendStatusLine(d.out, res.status, res.reason)
	out = h1.AppendHeader(out, &res.Header)
	switch {
	case res.status == 101:
		out = append(out, "Connection: Upgrade\r\n"...)
	case f.Kind == h1.ChunkedBody:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case f.Kind == h1.FixedBody:
		out = appendLength(out, f.Length)
	case f.Kind == h1.NoBody && res.length >= 0 && res.status != 204:
		out = appendLength(out, res.length) // what a GET would have had
	}
	switch {
	case d.close:
		out = append(out, "Connection: close\r\n"...)
	case d.req.Minor == 0:
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	d.out = append(out, "\r\n"...)
	return nil
}

func appendLength(out []byte, n int64) []byte {
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, n, 10)
	return append(out, "\r\n"...)
}

// framing chooses how the client finds the end of the response.
func (d *h1Down) framing(req *request, res *response) h1.Framing {
	switch {
	case req.method == "HEAD" || res.status < 200 || res.status == 204 || res.status == 304:
		return h1.Framing{Kind: h1.NoBody}
	case !res.hasBody:
		return h1.Framing{Kind: h1.FixedBody}
	case res.length >= 0 && !(res.Has("trailer") && d.req.Minor > 0):
		// With trailers to come, as HTTP/2 allows, only chunks have a place for them.
		return h1.Framing{Kind: h1.FixedBody, Length: res.length}
	case d.req.Minor == 0:
		return h1.Framing{Kind: h1.UntilClose}
	}
	return h1.Framing{Kind: h1.ChunkedBody}
}

// reusable reports whether the connection can carry another request: both
// messages are complete.
func (d *h1Down) reusable(b *task.Batch) bool {
	if d.close || !d.ended || len(d.out) > 0 {
		return false
	}
	return d.received(b)
}

// received reports whether all of the request's body has been read.
func (d *h1Down) received(b *task.Batch) bool {
	_, err := d.next(b)
	return errors.Is(err, io.EOF)
}

// broken is nil for a client that has only ended its side: it wants the answer.
func (d *h1Down) broken() error {
	if err := d.stream.ReadErr(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// abort breaks the response off. What was received before is delivered where the
// framing shows that it is not all; where it does not, only a reset does.
func (d *h1Down) abort(b *task.Batch) {
	d.close = true
	if d.kind() == h1.FixedBody || d.kind() == h1.ChunkedBody {
		if done, err := d.flush(b); done && err == nil {
			return // the connection is closed with this exchange
		}
	}
	d.stream.Abort(b, h2.InternalError) // which unlike CANCEL a ztunnel takes for an error
}

// kind is how the response is framed.
func (d *h1Down) kind() h1.BodyKind { return d.h1Writer.kind }

func (d *h1Down) raw() task.Stream { return d.stream }
