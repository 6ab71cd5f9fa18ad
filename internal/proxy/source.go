package proxy

import (
	"sync"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// maxDescribed bounds what sources keeps. It is emptied when full: to describe a
// client anew costs a microsecond.
const maxDescribed = 4096

// sources knows what clients have said of themselves in their baggage. One client
// is always the same *flow.Workload, because metrics are found by it.
type sources struct {
	mu    sync.Mutex
	known map[sourceKey]*flow.Workload // guarded by mu
}

type sourceKey struct {
	peer    identity.ID
	baggage string
}

// of says who opened a stream, for telemetry: the workload of the address it came
// from, if that has the identity that TLS proved; else what the tunnel's baggage
// says; else nil, since unknown is better than wrong.
func (s *sources) of(snap *mesh.Snapshot, st *hbone.Stream) *flow.Workload {
	if w := snap.Workloads[st.PeerAddr.Addr()]; w != nil && w.Identity == st.Peer {
		return w.Telemetry
	}
	if st.Baggage == "" {
		return nil
	}
	k := sourceKey{st.Peer, st.Baggage}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.known[k]
	if !ok {
		if s.known == nil || len(s.known) >= maxDescribed {
			s.known = make(map[sourceKey]*flow.Workload)
		}
		w = describe(k)
		s.known[k] = w
	}
	return w
}

// describe turns baggage into what telemetry says. Namespace and principal are
// those that TLS proved.
func describe(k sourceKey) *flow.Workload {
	bag := hbone.ParseBaggage(k.baggage)
	return &flow.Workload{
		Name: bag.Workload, Namespace: k.peer.Namespace, Principal: k.peer.String(),
		App: bag.Service, Version: bag.Revision,
		CanonicalName: bag.Service, CanonicalRevision: bag.Revision,
		Cluster: bag.Cluster, Region: bag.Region, Zone: bag.Zone,
	}
}
