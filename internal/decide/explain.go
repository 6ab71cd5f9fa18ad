package decide

import (
	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// ExplainAllow is [Allow], told rule by rule.
func ExplainAllow(d *Destination, r *Request) (authz.Decision, []authz.Step) {
	facts := r.facts(d)
	return d.httpAuthz().Explain(&facts)
}

// ExplainConnection is [Connection], told rule by rule.
func ExplainConnection(d *Destination, c *Caller) (authz.Decision, []authz.Step) {
	facts := c.facts(d)
	return d.tcpAuthz().Explain(&facts)
}

// ExplainRoute tells which matches [HTTP] considers for a request, and how many
// more there are.
func ExplainRoute(routes *mesh.Routes, r *Request) (tried []route.Tried, more int) {
	if routes == nil {
		return nil, 0
	}
	req := r.routed()
	for _, table := range tables(routes, r.GRPC) {
		if table == nil {
			continue
		}
		t, m := table.Explain(&req)
		tried, more = append(tried, t...), more+m
		if len(t) > 0 && t[len(t)-1].Why == "" {
			break
		}
	}
	return tried, more
}
