package l7

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// admit brings the path to its one form, and asks who may and where to. A reply
// is what the request is answered with; else e.verdict says where it goes.
func (e *exchange) admit() *decide.Reply {
	r := &e.req
	path, query, err := route.NormalizeTarget(r.method, r.path)
	if err != nil {
		e.fw.opts.Observer.Start(&e.flow)
		return &badPath
	}
	e.path, e.query = path, query
	r.path = e.target(path, query)
	e.flow.Path = r.path
	reply := e.decide()
	e.fw.opts.Observer.Start(&e.flow)
	return reply
}

// decide asks package decide, by the snapshot in force now: the stream may be
// older.
func (e *exchange) decide() *decide.Reply {
	e.snap = e.fw.opts.Store.Load()
	d, ok := current(e.snap, &e.in.Dest)
	if !ok {
		return &destinationGone
	}
	e.dest = d
	e.asked = decide.Request{
		Caller: decide.Caller{Peer: e.in.Peer, Addr: e.in.PeerAddr.Addr(), Remote: e.remote()},
		Method: e.req.method, Host: e.req.authority, Path: e.path, Query: e.query,
		Headers: e.req.Fields, GRPC: e.flow.Kind == flow.GRPC,
	}
	if e.req.upgrade != "" { // it may be asked again, and filters change the fields in place
		e.asked.Headers = slices.Clone(e.asked.Headers)
	}
	e.verdict = decide.HTTP(e.snap, &e.dest, &e.asked, rand.Uint32())
	e.recordVerdict()
	return e.verdict.Reply
}

// current finds a stream's destination in another snapshot than the one it was
// found in first.
func current(snap *mesh.Snapshot, d *decide.Destination) (decide.Destination, bool) {
	if d.Port == nil {
		now, err := decide.Address(snap, d.Dialled)
		return now, err == nil
	}
	svc := snap.Services[d.Port.Service.Key]
	port := svc.Port(d.Port.Number)
	if port == nil || !svc.Attached {
		return decide.Destination{}, false
	}
	return decide.Destination{Port: port, Dialled: d.Dialled}, true
}

func (e *exchange) recordVerdict() {
	f, v := &e.flow, &e.verdict
	f.Policy = v.Authz.Policy
	for _, d := range v.Authz.DryRun {
		f.DryRun = append(f.DryRun, flow.DryRun(d))
	}
	if v.Rule != nil {
		_, name, _ := strings.Cut(v.Rule.Route, " ") // without the kind
		f.RouteName, f.RouteLabel = e.arena.join(name, "/", v.Rule.Name), v.Rule.Label
	}
	if v.Port != nil {
		f.Service, f.Port = v.Port.Service.Telemetry, v.Port.Number
	}
	if v.Reply != nil && v.Reply.Status == http.StatusForbidden {
		f.Flags |= flow.Unauthorized
	}
}

// remote is the client that a hop we trust vouches for: it has appended the
// address to x-forwarded-for. Zero: there is no such hop.
func (e *exchange) remote() netip.Addr {
	trusted := e.fw.opts.TrustedHop
	if trusted == nil || !trusted(e.in.Peer) {
		return netip.Addr{}
	}
	i := e.req.LastIndex("x-forwarded-for")
	if i < 0 {
		return netip.Addr{}
	}
	list := e.req.Fields[i].Value
	last := strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
	addr, err := netip.ParseAddr(last)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// speaksHTTP2 reports what version the chosen port takes: the declared one, else
// that of the client.
func (e *exchange) speaksHTTP2() bool {
	if p := e.verdict.Port; p != nil {
		switch p.Protocol {
		case mesh.HTTP1:
			return false
		case mesh.HTTP2, mesh.GRPC:
			return true
		}
	}
	return e.server != nil
}

// target joins path and query, without a copy if the request has them joined.
func (e *exchange) target(path, query string) string {
	if query == "" {
		return path
	}
	if n := len(path) + 1 + len(query); len(e.req.path) == n && e.req.path[:len(path)] == path {
		return e.req.path
	}
	return e.arena.join(path, "?", query)
}
