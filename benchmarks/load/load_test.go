package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/wire"
)

// direct returns a client of a node proxy, without a waypoint between them.
func direct(t *testing.T) *Client {
	t.Helper()
	ca, err := certs.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "client"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var source certs.Current
	source.Store(cert, []*x509.Certificate{ca.Root})
	l, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- node.New(identity.ServerConfig(&source, identity.Trust{Domain: "cluster.local"})).Serve(ctx, l)
	}()
	t.Cleanup(func() {
		stop()
		l.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	anybody := func(identity.ID) error { return nil }
	return NewClient(l.Addr().(*net.TCPAddr).AddrPort(), clientConfig(&source, anybody))
}

func clientConfig(s identity.Source, accept func(identity.ID) error) *tls.Config {
	return identity.ClientConfig(s, accept)
}

const (
	http    = "127.0.0.1:8080"
	tcpEcho = "127.0.0.1:" + node.TCPPort
)

func TestLoads(t *testing.T) {
	for name, spec := range map[string]Spec{
		"serial":      {Target: http},
		"streams":     {Target: http, Tunnels: 2, Conns: 8},
		"open loop":   {Target: http, Conns: 4, Rate: 500},
		"one shot":    {Target: http, Conns: 8, OneShot: true},
		"upload":      {Target: http, Upload: 300_000},
		"download":    {Target: http, Path: "/size/3000000"},
		"slow reader": {Target: http, Conns: 2, Path: "/size/20000", ReadRate: 200_000},
		"unary":       {Target: http, Conns: 2, Calls: 4, Protocol: GRPCUnary},
		"stream":      {Target: http, Calls: 4, Protocol: GRPCStream},
		"tcp":         {Target: tcpEcho, Conns: 2, Protocol: TCP, Upload: 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := direct(t).Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Stop()
			s, err := r.Measure(t.Context(), 300*time.Millisecond)
			if err != nil || s.Errors > 0 || s.Requests == 0 {
				t.Fatalf("%d requests, %d errors, %v, %v", s.Requests, s.Errors, s.FirstError, err)
			}
			if s.Latency.TotalCount() != s.Requests || s.Percentile(50) <= 0 || s.Percentile(99.9) < s.Percentile(50) {
				t.Errorf("latencies of %d of %d requests: %v %v", s.Latency.TotalCount(), s.Requests, s.Percentile(50), s.Percentile(99.9))
			}
			t.Logf("%d requests, %d bytes sent, %d received, p50 %v", s.Requests, s.Sent, s.Received, s.Percentile(50))
		})
	}
}

func TestEach(t *testing.T) {
	r, err := direct(t).Start(t.Context(), Spec{Target: http, Tunnels: 2, Conns: 50, Held: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	for _, atOnce := range []int{1, 7, 1000} {
		s, err := r.Each(t.Context(), atOnce)
		if err != nil || s.Errors > 0 || s.Requests != 100 {
			t.Fatalf("%d requests, %d errors, %v, %v, want 100 and none", s.Requests, s.Errors, s.FirstError, err)
		}
	}
}
