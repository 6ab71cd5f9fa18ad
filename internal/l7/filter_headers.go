package l7

import (
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// modify sets, adds and removes fields, in this order (Gateway API
// HTTPHeaderFilter). "host" is not a field here but the authority.
func (e *exchange) modify(h *h1.Header, m *route.HeaderModifier) {
	for _, f := range m.Set {
		if f.Name == "host" && !m.Response {
			e.req.authority = f.Value
			continue
		}
		if settable(f.Name) {
			h.Set(f.Name, f.Value)
		}
	}
	for _, f := range m.Add {
		if settable(f.Name) {
			h.Add(f.Name, f.Value)
		}
	}
	for _, name := range m.Remove {
		h.Del(name)
	}
}

// settable keeps a filter from saying what only the codec may: how a message is
// framed, and what becomes of the connection.
func settable(name string) bool {
	switch name {
	case "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "upgrade", "te", "host":
		return false
	}
	return true
}
