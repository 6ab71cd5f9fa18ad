package l7

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
)

// prepareHeaders makes the request's fields fit to go upstream. What concerns the
// connection alone was taken out when they were read, so nothing that a client
// lists in Connection can remove what is added here.
func (e *exchange) prepareHeaders() {
	r := &e.req
	r.DelFunc(internalHeader)
	e.addClient()
	if !r.Has("x-forwarded-proto") {
		r.Add("x-forwarded-proto", "http")
	}
	if !r.Has("x-request-id") {
		e.flow.RequestID = e.newRequestID()
		r.Add("x-request-id", e.flow.RequestID)
	}
	if t := &e.flow.Trace; t.Valid() {
		start := len(e.arena.buf)
		e.arena.buf = t.AppendTraceparent(e.arena.buf)
		r.Set("traceparent", e.arena.since(start))
		if t.State != "" {
			r.Set("tracestate", t.State)
		} else {
			r.Del("tracestate")
		}
	}
}

// internalHeader reports whether a client's field is not passed on: what steers
// an Envoy behind us, and what an application could take for a field of ours
// because its framework reads "_" as "-".
func internalHeader(name string) bool {
	if rest, ok := strings.CutPrefix(name, "x-envoy-"); ok {
		return rest != "external-address" && rest != "attempt-count" // of a gateway before us, for applications
	}
	return strings.IndexByte(name, '_') >= 0 && aliasesOurs(name)
}

var ours = []string{
	"x-forwarded-for", "x-forwarded-client-cert", "x-forwarded-proto", "x-forwarded-host",
	"x-request-id", "host", "content-length", "transfer-encoding", "connection",
}

func aliasesOurs(name string) bool {
	if len(name) > len("x-forwarded-client-cert") {
		return strings.HasPrefix(strings.ReplaceAll(name, "_", "-"), "x-envoy-")
	}
	var scratch [32]byte
	dashed := append(scratch[:0], name...)
	for i, c := range dashed {
		if c == '_' {
			dashed[i] = '-'
		}
	}
	for _, o := range ours {
		if string(dashed) == o {
			return true
		}
	}
	return strings.HasPrefix(string(dashed), "x-envoy-")
}

// addClient tells the application who the client is: its address behind those
// that x-forwarded-for has already, and its identity instead of whatever
// x-forwarded-client-cert it sent.
func (e *exchange) addClient() {
	r := &e.req
	if !e.fw.opts.ClientHeaders {
		r.Del("x-forwarded-client-cert")
		return
	}
	a := &e.arena
	start := len(a.buf)
	last := r.LastIndex("x-forwarded-for")
	if last >= 0 {
		a.buf = append(a.buf, r.Fields[last].Value...)
		a.buf = append(a.buf, ", "...)
	}
	a.buf = e.in.PeerAddr.Addr().Unmap().AppendTo(a.buf)
	if last >= 0 {
		r.Fields[last].Value = a.since(start)
	} else {
		r.Add("x-forwarded-for", a.since(start))
	}
	if e.in.Peer.IsZero() {
		r.Del("x-forwarded-client-cert")
		return
	}
	r.Set("x-forwarded-client-cert", a.join("By=", e.fw.opts.Identity(), ";URI=", e.in.peerURI))
}

// newRequestID returns a random UUID (RFC 9562, version 4).
func (e *exchange) newRequestID() string {
	var id [16]byte
	for i := 0; i < len(id); i += 8 {
		for j, v := 0, rand.Uint64(); j < 8; j, v = j+1, v>>8 {
			id[i+j] = byte(v)
		}
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	a := &e.arena
	start := len(a.buf)
	for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			a.buf = append(a.buf, '-')
		}
		a.buf = hex.AppendEncode(a.buf, part)
	}
	return a.since(start)
}

// fromH2 moves fields of HTTP/2 into h, except what has a meaning of its own.
// The crumbs of a cookie become one field again (RFC 9113 8.2.3): HTTP/1 knows
// only one, and policies see what the application sees.
func fromH2(h *h1.Header, fields []h2.Field, a *arena, special func(f h2.Field) bool) {
	cookies := 0
	for i := range fields {
		f := &fields[i]
		if special(*f) {
			continue
		}
		if f.Name == "cookie" {
			if cookies++; cookies > 1 {
				continue
			}
		}
		h.Add(f.Name, f.Value)
	}
	if cookies > 1 {
		h.Set("cookie", joinCookies(fields, a))
	}
}

func joinCookies(fields []h2.Field, a *arena) string {
	start := len(a.buf)
	for i := range fields {
		if fields[i].Name != "cookie" {
			continue
		}
		if len(a.buf) > start {
			a.buf = append(a.buf, "; "...)
		}
		a.buf = append(a.buf, fields[i].Value...)
	}
	return a.since(start)
}
