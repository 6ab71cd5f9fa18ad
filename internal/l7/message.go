package l7

import (
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// request is the head of a request in the terms that all versions share. Fields
// holds what is end to end, and neither host nor content-length.
type request struct {
	h1.Header
	method    string
	scheme    string // as the client said; empty: it did not
	authority string
	path      string // with the query
	length    int64  // of the body, -1 if unknown
	hasBody   bool   // something follows the head
	trailers  bool   // the sender takes trailers in the response
	expect    bool   // the sender waits for 100 (Continue)
	upgrade   string // "websocket": what both sides are to speak once the answer agrees
}

func (r *request) reset() {
	resetHeader(&r.Header)
	r.method, r.scheme, r.authority, r.path, r.upgrade = "", "", "", "", ""
	r.length, r.hasBody, r.trailers, r.expect = -1, false, false, false
}

// response is the head of a response in the same terms.
type response struct {
	h1.Header
	status  int
	reason  string // of HTTP/1, may be empty
	length  int64  // what content-length says, -1 if nothing
	hasBody bool   // something follows the head
	local   bool   // it is our own
}

func (r *response) reset() {
	resetHeader(&r.Header)
	r.status, r.reason, r.length, r.hasBody, r.local = 0, "", -1, false, false
}

// maxKeptFields is how many fields the memory of a pooled exchange is kept for.
const maxKeptFields = 128

func resetHeader(h *h1.Header) {
	if cap(h.Fields) > maxKeptFields {
		*h = h1.Header{}
	}
	h.Reset()
}

// interim reports whether another response follows.
func (r *response) interim() bool { return r.status >= 100 && r.status < 200 && r.status != 101 }

// downstream is the client's side of one exchange.
type downstream interface {
	incoming
	outgoing
	// interim passes on a response that another one follows.
	interim(b *task.Batch, res *response) error
	// respond sends the head of the response.
	respond(b *task.Batch, req *request, res *response) error
	// broken tells why nobody waits for the response any more, nil if somebody does.
	broken() error
	// abort ends the exchange in a way that the client cannot take for a
	// complete response.
	abort(b *task.Batch)
	// raw is the stream below, for an exchange that was upgraded.
	raw() task.Stream
}

// upstreamSide is the endpoint's side of one attempt.
type upstreamSide interface {
	incoming
	outgoing
	// responseHead reads the head of a response, false if there is none yet.
	responseHead(b *task.Batch, req *request, res *response) (bool, error)
	// stale: the connection has carried a request before, and nothing came back
	// on it now, so that its end may have crossed with our request.
	stale() bool
	// release ends the attempt. whole: request and response are complete, and the
	// connection may carry another. Else it is reset.
	release(b *task.Batch, whole bool)
	raw() task.Stream
}
