package proxy

import (
	"sync"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

const (
	// maxDescribed bounds what sources keeps. It is emptied when full: to
	// describe a client anew costs a microsecond.
	maxDescribed = 4096
	// maxPerPeer bounds how many workloads one identity may say it is: each has
	// series of metrics of its own, of which a client must not make so many that
	// others find no room. A service account has few workloads; those beyond are
	// known by their identity alone.
	maxPerPeer = 64
)

// sources knows what clients have said of themselves in their baggage. One client
// is always the same *flow.Workload, because metrics are found by it.
type sources struct {
	mu      sync.Mutex
	known   map[sourceKey]*flow.Workload // guarded by mu
	perPeer map[identity.ID]int          // guarded by mu: entries of known with baggage
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
	return s.described(sourceKey{st.Peer, st.Baggage})
}

func (s *sources) described(k sourceKey) *flow.Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.known[k]; ok {
		return w
	}
	if s.perPeer[k.peer] >= maxPerPeer {
		k.baggage = ""
		if w, ok := s.known[k]; ok {
			return w
		}
	}
	if s.known == nil || len(s.known) >= maxDescribed {
		s.known, s.perPeer = make(map[sourceKey]*flow.Workload), make(map[identity.ID]int)
	}
	w := describe(k)
	s.known[k] = w
	if k.baggage != "" {
		s.perPeer[k.peer]++
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
