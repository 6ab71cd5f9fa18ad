package telemetry

import (
	"net/netip"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

var (
	curl = &flow.Workload{
		Name: "curl", Namespace: "clients", Type: "deployment", Pod: "curl-7d4-xyz", Principal: "spiffe://cluster.local/ns/clients/sa/curl",
		App: "curl", Version: "v1", CanonicalName: "curl", CanonicalRevision: "v1", Cluster: "Kubernetes", Node: "node-a",
	}
	reviewsV2 = &flow.Workload{
		Name: "reviews-v2", Namespace: "bookinfo", Type: "deployment", Pod: "reviews-v2-abc", Principal: "spiffe://cluster.local/ns/bookinfo/sa/reviews",
		App: "reviews", Version: "v2", CanonicalName: "reviews", CanonicalRevision: "v2", Cluster: "Kubernetes", Node: "node-b",
	}
	reviews = &flow.Service{Host: "reviews.bookinfo.svc.cluster.local", Name: "reviews", Namespace: "bookinfo"}
	curlID  = flow.ID{TrustDomain: "cluster.local", Namespace: "clients", ServiceAccount: "curl"}
)

// request is a flow of which everything is known.
func request() *flow.Flow {
	f := &flow.Flow{
		Kind: flow.HTTP, Start: time.Date(2026, 8, 22, 12, 34, 56, 789e6, time.UTC), Duration: 12_345 * time.Microsecond,
		Peer: curlID, PeerAddr: netip.MustParseAddrPort("10.1.0.7:45678"), Source: curl, Target: "10.96.0.20:9080",
		Service: reviews, Port: 9080, Destination: reviewsV2, Endpoint: netip.MustParseAddrPort("10.1.0.9:9080"),
		UpstreamLocal: netip.MustParseAddrPort("10.1.0.5:50000"), MutualTLS: true,
		Method: "GET", Path: "/reviews/7?full=1", Authority: "reviews:9080", Protocol: "HTTP/1.1",
		UserAgent: "curl/8.9.1", ForwardedFor: "10.1.0.7", RequestID: "3f2a-1", RouteName: "bookinfo/reviews/0", RouteLabel: "/reviews/*",
		Status: 200, UpstreamTime: 9 * time.Millisecond, Received: 431, Sent: 2048, Details: "via_upstream",
	}
	f.Trace, _ = flow.ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	return f
}

func call() *flow.Flow {
	f := request()
	f.Kind, f.Method, f.Path, f.Protocol = flow.GRPC, "POST", "/reviews.Reviews/Watch", "HTTP/2"
	f.GRPCStatus, f.RequestMessages, f.ResponseMessages = "0", 1, 5
	return f
}

func connection() *flow.Flow {
	f := request()
	return &flow.Flow{
		Kind: flow.TCP, Start: f.Start, Duration: f.Duration, Peer: f.Peer, PeerAddr: f.PeerAddr, Source: f.Source, Target: f.Target,
		Service: f.Service, Port: f.Port, Destination: f.Destination, Endpoint: f.Endpoint, UpstreamLocal: f.UpstreamLocal, MutualTLS: true,
	}
}
