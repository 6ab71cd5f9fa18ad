package discovery

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/waypoint-mesh/waypoint/api"
)

// maxResponse is about how large a response gets, in bytes; a single resource may
// be larger. gRPC clients take 4 MiB unless told otherwise.
const maxResponse = 1 << 20

// compose makes one push of what a client lacks, each type in as many responses
// as it takes.
func compose(version uint64, deltas []*delta) (responses []*discoveryv3.DeltaDiscoveryResponse) {
	slices.SortFunc(deltas, func(a, b *delta) int { return order(a.typeURL) - order(b.typeURL) })
	for _, d := range deltas {
		responses = append(responses, d.responses()...)
	}
	for i, r := range responses {
		r.SystemVersionInfo = api.Push{Version: version, Part: i + 1, Of: len(responses)}.String()
	}
	return responses
}

// order is that of api.Types; what we do not know comes first.
func order(typeURL string) int { return slices.Index(api.Types(), typeURL) }

// responses is at least one: a client may wait to be told that there is nothing.
func (d *delta) responses() []*discoveryv3.DeltaDiscoveryResponse {
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: d.typeURL}
	list := []*discoveryv3.DeltaDiscoveryResponse{r}
	size := 0
	room := func(n int) {
		if size += n; size > maxResponse && size > n {
			r = &discoveryv3.DeltaDiscoveryResponse{TypeUrl: d.typeURL}
			list = append(list, r)
			size = n
		}
	}
	for _, name := range d.removed {
		room(len(name) + overhead)
		r.RemovedResources = append(r.RemovedResources, name)
	}
	for _, resource := range d.upserted {
		room(len(resource.GetResource().GetValue()) + 2*len(resource.GetName()) + overhead)
		r.Resources = append(r.Resources, resource)
	}
	return list
}

// overhead of a resource on the wire: type URL, version, lengths.
const overhead = 100
