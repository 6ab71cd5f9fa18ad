package l7

import (
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Destination is what a stream is addressed to.
type Destination struct {
	Port *mesh.Port
}

// decision is what is to happen to one request.
type decision struct {
	rule     *route.Rule // nil: no route, straight to the port
	match    *route.Match
	backend  *route.Backend
	port     *mesh.Port     // whose endpoints serve it
	only     *mesh.Endpoint // of a workload's own address
	endpoint *mesh.Endpoint // the chosen one
	locality mesh.Locality
	http2    bool // what the endpoint speaks
}

// admit brings the path to its one form, and asks who may and where to.
func (e *exchange) admit() *answer {
	r := &e.req
	path, query, err := route.NormalizeTarget(r.method, r.path)
	if err != nil {
		e.start()
		return &answerBadPath
	}
	e.path, e.query = path, query
	r.path = e.target(path, query)
	e.flow.Path = r.path
	e.start()
	e.decision.port = e.in.Dest.Port
	return nil
}

// start tells the observer of the exchange, once what it is about is known.
func (e *exchange) start() { e.fw.opts.Observer.Start(&e.flow) }

func (e *exchange) describeDestination() {
	if p := e.in.Dest.Port; p != nil {
		e.flow.Service, e.flow.Port = p.Service.Telemetry, p.Number
	}
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

var _ = flow.HTTP
