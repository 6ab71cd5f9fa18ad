package decide

import (
	"net/netip"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Field is one header field, its name in lower case.
type Field = struct{ Name, Value string }

// Caller is who opened a stream.
type Caller struct {
	Peer   identity.ID
	Addr   netip.Addr // the tunnel's TCP peer
	Remote netip.Addr // who trusted hops vouch for; else Addr
	SNI    string     // of TLS inside the stream, if any
}

// Request is what is decided about.
type Request struct {
	Caller  Caller
	Method  string
	Host    string // as sent
	Path    string // normalised, without the query
	Query   string
	Headers []Field
	GRPC    bool // the content type is gRPC's
}

// Verdict is what is to happen to a request.
type Verdict struct {
	// Reply answers the request, if it is not nil; nothing goes upstream.
	Reply *Reply
	// Rule and Match are what the request follows; nil: there are no routes,
	// and it goes straight to the port.
	Rule    *route.Rule
	Match   *route.Match
	Backend *route.Backend // nil without a Rule, or if a filter answers
	// Port is whose endpoints serve the request; nil for a workload, which is
	// the destination's Endpoint.
	Port  *mesh.Port
	Authz authz.Decision
}

// Allow checks whether a request may go where it wants to. The decision has to
// be asked before anything else is answered, also to CORS preflights.
func Allow(d *Destination, r *Request) authz.Decision {
	facts := r.facts(d)
	return d.httpAuthz().Check(&facts)
}

// facts is what policies may know of a request.
func (r *Request) facts(d *Destination) authz.Request {
	facts := r.Caller.facts(d)
	facts.Host, facts.Method, facts.Path, facts.Headers = r.Host, r.Method, r.Path, r.Headers
	return facts
}

// routed is what routes may know of a request.
func (r *Request) routed() route.Request {
	return route.Request{Method: r.Method, Path: r.Path, Query: r.Query, Host: r.Host, Headers: r.Headers}
}

// facts is what policies may know of a connection.
func (c *Caller) facts(d *Destination) authz.Request {
	remote := c.Remote
	if !remote.IsValid() {
		remote = c.Addr
	}
	return authz.Request{
		Peer: c.Peer, PeerAddr: c.Addr, Remote: remote,
		Dest: d.Dialled.Addr(), Port: d.Dialled.Port(), SNI: c.SNI,
	}
}

// HTTP decides about one request: policy first, then the route. random chooses
// among weights.
func HTTP(snap *mesh.Snapshot, d *Destination, r *Request, random uint32) Verdict {
	v := Verdict{Authz: Allow(d, r)}
	if !v.Authz.Allowed {
		v.Reply = denial(v.Authz)
		return v
	}
	if d.Port == nil { // routes of services say nothing of a workload's own address
		return v
	}
	v.Rule, v.Match, v.Reply = matchRule(RoutesFor(d.Port, r.Caller.Peer), r)
	switch {
	case v.Reply != nil:
	case v.Rule == nil:
		v.Port = d.Port
	default:
		v.choose(snap, random)
	}
	return v
}

// RoutesFor returns the routes that hold for a client: those in its own
// namespace replace those of the service (GEP-1294). Nil: none.
func RoutesFor(p *mesh.Port, client identity.ID) *mesh.Routes {
	if own := p.Consumer[client.Namespace]; own != nil {
		return own
	}
	return p.Routes
}

// matchRule finds the rule of a request. Where there are routes and none matches,
// the request goes nowhere.
func matchRule(routes *mesh.Routes, r *Request) (*route.Rule, *route.Match, *Reply) {
	if routes == nil || routes.HTTP == nil && routes.GRPC == nil {
		return nil, nil, nil
	}
	req := r.routed()
	for _, table := range tables(routes, r.GRPC) {
		if table == nil {
			continue
		}
		if rule, m, ok := table.Match(&req); ok {
			return rule, m, nil
		}
	}
	return nil, nil, &noRoute
}

// tables are those that a request is looked up in, in this order; nil ones are
// empty. GRPCRoutes are for gRPC alone, and come first.
func tables(routes *mesh.Routes, grpc bool) [2]*route.Table {
	if grpc {
		return [2]*route.Table{routes.GRPC, routes.HTTP}
	}
	return [2]*route.Table{routes.HTTP}
}

// choose picks a backend of v.Rule and finds its port.
func (v *Verdict) choose(snap *mesh.Snapshot, random uint32) {
	if v.Rule.Invalid != "" {
		v.Reply = &invalidRoute
		return
	}
	if redirects(v.Rule.Filters) {
		return
	}
	v.Backend = v.Rule.Pick(random)
	v.Port, v.Reply = BackendPort(snap, v.Backend)
}

// BackendPort finds the port that a backend of a rule names, or why there is
// none.
func BackendPort(snap *mesh.Snapshot, b *route.Backend) (*mesh.Port, *Reply) {
	switch {
	case b == nil:
		return nil, &noBackend
	case b.Invalid != "":
		return nil, &badBackend
	}
	if p := snap.Services[b.Service].Port(b.Port); p != nil {
		return p, nil
	}
	return nil, &unknownTarget
}

// redirects reports whether a filter answers, so that no backend is needed.
func redirects(filters []route.Filter) bool {
	for _, f := range filters {
		if _, ok := f.(*route.Redirect); ok {
			return true
		}
	}
	return false
}
