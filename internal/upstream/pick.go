package upstream

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// ErrNoEndpoint says that the service has no ready endpoint for the port.
var ErrNoEndpoint = errors.New("no ready endpoint")

// Pick chooses an endpoint of p for a waypoint that runs at from. Endpoints in
// tried are avoided while there is another.
//
// Least request of two: two are drawn at random and the one with less in flight
// is taken, which keeps the longest queue short without looking at all of them.
func Pick(p *mesh.Port, from mesh.Locality, tried []*mesh.Endpoint) (*mesh.Endpoint, error) {
	eps := p.Endpoints
	switch {
	case len(eps) == 0:
		return nil, ErrNoEndpoint
	case len(eps) == 1:
		return eps[0], nil
	}
	if p.Service.Locality == mesh.AnyLocality && len(tried) == 0 {
		return pickTwo(eps), nil
	}
	return pickRanked(eps, p.Service.Locality, from, tried), nil
}

// pickTwo draws two different endpoints and returns the less loaded.
func pickTwo(eps []*mesh.Endpoint) *mesh.Endpoint {
	i := rand.IntN(len(eps))
	j := rand.IntN(len(eps) - 1)
	if j >= i {
		j++
	}
	return lessLoaded(eps[i], eps[j])
}

func lessLoaded(a, b *mesh.Endpoint) *mesh.Endpoint {
	if b.Load.InFlight.Load() < a.Load.InFlight.Load() {
		return b
	}
	return a
}

// pickRanked draws two among the endpoints of the best rank, in one pass: each
// candidate replaces one of the two with falling probability (reservoir
// sampling), so nothing is allocated. It costs a look at every endpoint.
func pickRanked(eps []*mesh.Endpoint, mode mesh.LocalityMode, from mesh.Locality, tried []*mesh.Endpoint) *mesh.Endpoint {
	var drawn [2]*mesh.Endpoint
	best, seen := -1, 0
	for _, ep := range eps {
		r := rank(ep, mode, from, tried)
		if r < best {
			continue
		}
		if r > best {
			best, seen = r, 0
		}
		if seen < 2 {
			drawn[seen] = ep
		} else if i := rand.IntN(seen + 1); i < 2 {
			drawn[i] = ep
		}
		seen++
	}
	if seen == 1 {
		return drawn[0]
	}
	return lessLoaded(drawn[0], drawn[1])
}

// untried outweighs every locality: a far endpoint beats one that just failed.
const untried = 8

// rank orders endpoints: the higher, the sooner.
func rank(ep *mesh.Endpoint, mode mesh.LocalityMode, from mesh.Locality, tried []*mesh.Endpoint) int {
	r := Nearness(mode, from, ep.Workload.Locality)
	if !slices.ContainsFunc(tried, func(t *mesh.Endpoint) bool { return t.Load == ep.Load }) {
		r += untried
	}
	return r
}

// Nearness returns how well an endpoint at to suits a service with the given
// mode: 3 the same node (only PreferNode asks), 2 the same zone, 1 the same
// region, 0 anything else.
func Nearness(mode mesh.LocalityMode, from, to mesh.Locality) int {
	switch {
	case mode == mesh.AnyLocality:
		return 0
	case mode == mesh.PreferNode && from.Node != "" && from.Node == to.Node:
		return 3
	case from.Region == "" || from.Region != to.Region:
		return 0
	case from.Zone == "" || from.Zone != to.Zone:
		return 1
	}
	return 2
}
