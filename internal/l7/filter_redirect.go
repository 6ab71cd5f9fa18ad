package l7

import "github.com/waypoint-mesh/waypoint/internal/route"

// redirect answers with the place to go to instead.
func (e *exchange) redirect(f *route.Redirect) {
	called := route.Called{Scheme: "http", Host: e.req.authority, Port: e.dest.Dialled.Port(), Path: e.path, Query: e.query}
	e.skipBody()
	e.flow.Details = "direct_response"
	res := &e.res
	res.reset()
	res.local, res.status, res.length = true, f.Status, 0
	res.Add("location", f.Location(called, e.verdict.Match))
	e.signOwn()
	e.respondLocal("")
}
