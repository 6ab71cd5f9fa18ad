package l7

import "github.com/waypoint-mesh/waypoint/internal/route"

// rewrite changes host and path of what is sent upstream. Policy, route and
// record keep what was asked for.
func (e *exchange) rewrite(f *route.Rewrite) {
	if f.Hostname != "" {
		e.req.authority = f.Hostname
	}
	if f.Path != nil {
		e.path = f.Path.Apply(e.path, e.verdict.Match)
		e.req.path = e.target(e.path, e.query)
	}
}
