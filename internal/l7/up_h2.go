package l7

import (
	"errors"
	"io"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// h2Up is the endpoint's side of an attempt on a stream of a shared HTTP/2
// connection.
type h2Up struct {
	h2Stream
	fields []h2.Field // of the request, kept for their memory
	// upgraded: the request is an extended CONNECT, key what an HTTP/1 client
	// wants answered.
	upgraded bool
	key      string
	answered bool // a head has come
}

func (u *h2Up) reset() {
	fields := u.fields[:0]
	if cap(fields) > maxKeptFields {
		fields = nil
	}
	*u = h2Up{fields: fields}
}

// prepare makes the head to be sent. r is left as it is, for the next attempt.
func (u *h2Up) prepare(r *request, a *arena) {
	u.reset()
	u.arena = a
	for _, f := range r.Fields {
		if r.upgrade != "" && (f.Name == "upgrade" || f.Name == "sec-websocket-key") {
			continue // of the handshake that HTTP/2 does without
		}
		u.fields = append(u.fields, f)
	}
	if r.length >= 0 {
		u.fields = append(u.fields, u.lengthField(r.length))
	}
	if r.trailers {
		u.fields = append(u.fields, h2.Field{Name: "te", Value: "trailers"})
	}
	u.head = h2.Head{Method: r.method, Scheme: "http", Authority: r.authority, Path: r.path, Fields: u.fields}
	if r.upgrade != "" {
		u.upgraded, u.key = true, r.Get("sec-websocket-key")
		u.head.Method, u.head.Protocol = "CONNECT", r.upgrade
	}
}

func (u *h2Up) responseHead(_ *task.Batch, req *request, res *response) (bool, error) {
	ended := u.s.ReadErr()
	q := u.s.Head()
	if q == nil {
		return false, truncated(ended)
	}
	u.answered = true
	res.reset()
	res.status = q.Status
	fromH2(&res.Header, q.Fields, u.arena, func(f h2.Field) bool {
		if f.Name == "content-length" {
			res.length = parseLength(f.Value)
			return true
		}
		return false
	})
	u.s.NextHead()
	if u.upgraded && res.status >= 200 && res.status < 300 {
		u.switchProtocols(res)
		return true, nil
	}
	if res.status == 101 {
		return false, errSwitchInH2
	}
	res.hasBody = req.method != "HEAD" &&
		(!errors.Is(u.s.ReadErr(), io.EOF) || len(u.s.Peek()) > 0 || len(u.s.Trailers()) > 0)
	return true, nil
}

var errSwitchInH2 = &h2.StreamError{Code: h2.ProtocolError, Reason: "status 101 does not exist in HTTP/2"}

// switchProtocols makes of the answer to an extended CONNECT what HTTP/1 says in
// its place.
func (u *h2Up) switchProtocols(res *response) {
	res.status, res.length = 101, -1
	res.Add("upgrade", "websocket")
	if u.key != "" {
		res.Add("sec-websocket-accept", websocketAccept(u.key))
	}
}

// stale reports whether the whole connection has broken: of a single stream
// HTTP/2 says whether it was processed.
func (u *h2Up) stale() bool { return !u.answered && u.s.ID() > 1 && u.s.Conn().Err() != nil }

func (u *h2Up) release(b *task.Batch, whole bool) {
	if !whole {
		u.s.Abort(b, h2.Cancel)
	}
	u.s.Done(b)
	u.s = nil
}
