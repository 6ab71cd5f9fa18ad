package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Peer is what a client shows of itself. At least one of the two is there.
type Peer struct {
	// Certificate is the verified leaf of mutual TLS, nil without one.
	Certificate *x509.Certificate
	// Token is the bearer token, empty without one. Nobody has looked at it yet.
	Token string
	// Asked is the Gateway whose configuration it asks for. It proves nothing.
	Asked Gateway
}

// Grant is what a client may have.
type Grant struct {
	Gateway Gateway
	// Until is when the proof expires; the stream is ended then, and the client
	// has to prove itself anew. Zero: never.
	Until time.Time
}

// Authenticate finds out which Gateway's waypoint a client is. The error is told
// to the client, so it should say what is wrong with the proof and no more; one
// that is a gRPC status is passed on as it is.
type Authenticate func(context.Context, Peer) (Grant, error)

// errNoProof is what a client is told that shows nothing.
var errNoProof = errors.New("neither a bearer token nor a client certificate: start the waypoint with --token FILE")

// admit makes a client of a stream, if it proves that it may be one.
func (s *Server) admit(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, first request) (*client, error) {
	asked, err := ParseGateway(first.GetNode().GetCluster())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "node.cluster: %v", err)
	}
	who := peerOf(stream.Context(), asked)
	grant, err := s.authenticate(stream.Context(), who)
	if err != nil {
		return nil, err
	}
	return newClient(s, stream, Client{
		Gateway: asked,
		Name:    first.GetNode().GetId(),
		Version: first.GetNode().GetUserAgentVersion(),
		Addr:    addrOf(stream.Context()),
		Since:   time.Now(),
	}, grant.Until), nil
}

func (s *Server) authenticate(ctx context.Context, who Peer) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := errNoProof
	var grant Grant
	if who.Token != "" || who.Certificate != nil {
		grant, err = s.o.Authenticate(ctx, who)
	}
	switch {
	case err == nil && grant.Gateway == who.Asked:
		return grant, nil
	case err == nil:
		return grant, status.Errorf(codes.PermissionDenied, "the proof is of gateway %s, asked for is %s", grant.Gateway, who.Asked)
	}
	if _, ok := status.FromError(err); ok {
		return grant, err
	}
	return grant, status.Error(codes.Unauthenticated, err.Error())
}

func peerOf(ctx context.Context, asked Gateway) Peer {
	who := Peer{Asked: asked}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			who.Certificate = info.State.VerifiedChains[0][0]
		}
	}
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "bearer") {
			who.Token = token
		}
	}
	return who
}

func addrOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return fmt.Sprint(p.Addr)
	}
	return ""
}
