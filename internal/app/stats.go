package app

import (
	"net/netip"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/telemetry"
)

// stats gathers what the parts say of themselves, at a scrape.
func (a *App) stats() telemetry.Stats {
	server, tunnels, streams := a.server.Stats(), a.tunnels.Stats(), a.proxy.Stats()
	s := telemetry.Stats{
		Tunnels: telemetry.TunnelStats{
			Open: server.Connections, Accepted: server.Accepted + server.HandshakesFailed, Refused: a.listener.Refused(),
			Handshakes: server.Accepted, HandshakeFailures: server.HandshakesFailed,
		},
		Streams: telemetry.StreamStats{Open: server.StreamsOpen, Accepted: server.Streams - streams.Rejected, Rejected: streams.Rejected},
		Upstream: telemetry.UpstreamStats{
			Open: int(tunnels.Tunnels), Streams: int(tunnels.Streams), Idle: a.l7.IdleUpstream(), Dialled: tunnels.Dials - tunnels.DialsFailed, DialFailures: tunnels.DialsFailed,
		},
		Detected: telemetry.DetectionStats{
			HTTP1: streams.HTTP1, HTTP2: streams.HTTP2, TLS: streams.TLS, TCP: streams.TCP, Silent: streams.Silent,
		},
		Config: a.configStats(),
		Live:   a.live.Stats(),
		// The same fields, from those who keep them.
		Certificate: telemetry.CertificateStats(a.certs.Stats()),
	}
	a.config.tell(&s)
	if a.tracing != nil {
		s.Traces = a.tracing.Stats()
	}
	if a.accessLog != nil {
		s.AccessLog = a.accessLog.Stats()
	}
	return s
}

func (a *App) configStats() telemetry.ConfigStats {
	snap := a.store.Load()
	c := telemetry.ConfigStats{Version: snap.Version, Rejected: len(snap.Rejected)}
	for _, svc := range snap.Services {
		if !svc.Attached {
			continue
		}
		c.Services++
		for _, p := range svc.Ports {
			c.Endpoints += len(p.Endpoints)
		}
	}
	return c
}

// addrs is a set of addresses.
type addrs map[netip.Addr]struct{}

func (s addrs) has(a netip.Addr) bool {
	_, ok := s[a]
	return ok
}

// departed returns the addresses that no workload has any more, or that belong to
// another one now. Most publications change none, and cost one pass of pointer
// comparisons.
func departed(was, is *mesh.Snapshot) addrs {
	var gone addrs
	for addr, w := range was.Workloads {
		now := is.Workloads[addr]
		if now == w || now != nil && now.Identity == w.Identity && now.UID == w.UID {
			continue
		}
		if gone == nil {
			gone = addrs{}
		}
		gone[addr] = struct{}{}
	}
	return gone
}
