package decide

import (
	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Connection checks a connection whose inside is opaque to us.
func Connection(d *Destination, c *Caller) authz.Decision {
	facts := c.facts(d)
	return d.tcpAuthz().Check(&facts)
}

// TCP chooses the port whose endpoints serve an opaque connection: a backend of
// the TCPRoute, else the one called. Reply says why there is none.
func TCP(snap *mesh.Snapshot, d *Destination, c *Caller, random uint32) Verdict {
	routes := RoutesFor(d.Port, c.Peer)
	if routes == nil || routes.TCP == nil {
		return Verdict{Port: d.Port}
	}
	return follow(snap, routes.TCP, random)
}

// TLS is TCP for a connection that began with a ClientHello: TLSRoutes are asked
// for its server name first. Where there are some, and none matches, and there is
// no TCPRoute either, it goes nowhere.
func TLS(snap *mesh.Snapshot, d *Destination, c *Caller, random uint32) Verdict {
	routes := RoutesFor(d.Port, c.Peer)
	if routes == nil || routes.TLS == nil {
		return TCP(snap, d, c, random)
	}
	if rule, ok := routes.TLS.Match(c.SNI); ok {
		return follow(snap, rule, random)
	}
	if routes.TCP != nil {
		return follow(snap, routes.TCP, random)
	}
	return Verdict{Reply: &noRoute}
}

func follow(snap *mesh.Snapshot, rule *route.Rule, random uint32) Verdict {
	v := Verdict{Rule: rule}
	v.choose(snap, random)
	return v
}
