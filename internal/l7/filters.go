package l7

import (
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// filterRequest applies the filters of rule and backend to the request, and
// reports whether one of them has answered it.
func (e *exchange) filterRequest() bool {
	e.prepareHeaders()
	if r := e.verdict.Rule; r != nil {
		if e.applyRequest(r.Filters) {
			return true
		}
	}
	if b := e.verdict.Backend; b != nil {
		return e.applyRequest(b.Filters)
	}
	return false
}

func (e *exchange) applyRequest(filters []route.Filter) bool {
	for _, f := range filters {
		switch f := f.(type) {
		case *route.HeaderModifier:
			if !f.Response {
				e.modify(&e.req.Header, f)
			}
		case *route.Redirect:
			e.redirect(f)
			return true
		case *route.Rewrite:
			e.rewrite(f)
		case *route.CORS:
			if e.preflight(f) {
				return true
			}
		case *route.Mirror:
			e.addMirror(f)
		}
	}
	return false
}

// filterResponse applies what rule and backend say of responses.
func (e *exchange) filterResponse() {
	if b := e.verdict.Backend; b != nil {
		e.applyResponse(b.Filters)
	}
	if r := e.verdict.Rule; r != nil {
		e.applyResponse(r.Filters)
	}
}

func (e *exchange) applyResponse(filters []route.Filter) {
	for _, f := range filters {
		switch f := f.(type) {
		case *route.HeaderModifier:
			if f.Response {
				e.modify(&e.res.Header, f)
			}
		case *route.CORS:
			e.markCORS(f)
		}
	}
}
