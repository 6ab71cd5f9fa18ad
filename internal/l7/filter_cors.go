package l7

import (
	"net/http"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/route"
)

// preflight answers a CORS preflight, which policy has let through already.
func (e *exchange) preflight(f *route.CORS) bool {
	if !route.IsPreflight(e.req.method, e.req.Fields) {
		return false
	}
	e.skipBody()
	e.flow.Details = "cors_preflight"
	res := &e.res
	res.reset()
	res.local, res.status, res.length = true, http.StatusOK, 0
	res.AddAll(f.AppendPreflight(nil, e.req.Fields))
	e.signOwn()
	e.respondLocal("")
	return true
}

// markCORS tells the browser what it may do with the response.
func (e *exchange) markCORS(f *route.CORS) {
	fields := f.AppendResponse(nil, e.req.Get("origin"))
	e.res.DelFunc(func(name string) bool { return strings.HasPrefix(name, "access-control-") })
	e.res.AddAll(fields)
}
