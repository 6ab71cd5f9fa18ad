package meshtest

import (
	"crypto/sha256"
	"hash"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// Request is one request as it reached an application.
type Request struct {
	App    string // which one
	Method string
	Target string // as it stood in the request line; HTTP/2: the path
	Proto  string
	Host   string
	Header []Field // HTTP/1: as they were spelled, in their order. HTTP/2: sorted, lower case
	Peer   netip.AddrPort
	Serial int // which connection of the application it came on, from 1

	Body    []byte // the first 64 KiB
	Length  int64  // of the whole body
	SHA256  [sha256.Size]byte
	Trailer []Field
}

// Get is the value of a header field, its name in any case; empty if it has none.
func (r *Request) Get(name string) string {
	if values := r.Values(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Values are the values of all fields of a name.
func (r *Request) Values(name string) (values []string) {
	for _, f := range r.Header {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

// recorder collects the requests of an application as they come.
type recorder struct {
	mu       sync.Mutex // guards the requests and what is said of their bodies
	requests []*Request
}

// add begins the record of a request. What it returns takes the body.
func (r *recorder) add(request *Request) *body {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
	b := &body{recorder: r, request: request, hash: sha256.New()}
	b.hash.Sum(request.SHA256[:0])
	return b
}

// Requests are those whose head has come. A body is recorded as far as the
// application has read it, which is before it answers if nobody said otherwise.
func (r *recorder) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := make([]Request, len(r.requests))
	for i, request := range r.requests {
		requests[i] = *request
	}
	return requests
}

// body is written the body of a request.
type body struct {
	recorder *recorder
	request  *Request
	hash     hash.Hash
}

func (b *body) Write(p []byte) (int, error) {
	b.recorder.mu.Lock()
	defer b.recorder.mu.Unlock()
	r := b.request
	r.Body = append(r.Body, p[:min(len(p), 64<<10-len(r.Body))]...)
	r.Length += int64(len(p))
	b.hash.Write(p)
	b.hash.Sum(r.SHA256[:0])
	return len(p), nil
}

// end records the trailer fields.
func (b *body) end(trailer []Field) {
	b.recorder.mu.Lock()
	defer b.recorder.mu.Unlock()
	b.request.Trailer = trailer
}

func addrPort(addr net.Addr) netip.AddrPort { return addr.(*net.TCPAddr).AddrPort() }
