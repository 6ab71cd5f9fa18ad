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

// Peer is what a client shows of itself. At least one of the two is there, and
// nobody has looked at either yet.
type Peer struct {
	// Chain are the certificates of mutual TLS, the client's own first. That it
	// holds the key of that one is proven, and nothing else.
	Chain []*x509.Certificate
	// Token is the bearer token.
	Token string
}

// Grant is what a client may have.
type Grant struct {
	// Gateway is the one whose waypoint the client is: that of the name of its
	// account.
	Gateway Gateway
	// Until is when the proof expires; the stream is ended then, and the client
	// has to prove itself anew. Zero: never.
	Until time.Time
}

// Authenticate finds out whose waypoint a client is. The error is told to the
// client, so it should say what is wrong with the proof and no more; one that is a
// gRPC status is passed on as it is.
//
// It is called before anything that the client says is read: who cannot prove to
// be somebody costs no more than a connection, and what is asked for has no say in
// who asks.
type Authenticate func(context.Context, Peer) (Grant, error)

// errNoProof is what a client is told that shows nothing.
var errNoProof = errors.New("neither a bearer token nor a client certificate: start the waypoint with --token FILE")

func (s *Server) authenticate(ctx context.Context) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	who := peerOf(ctx)
	if who.Token == "" && len(who.Chain) == 0 {
		return Grant{}, status.Error(codes.Unauthenticated, errNoProof.Error())
	}
	grant, err := s.o.Authenticate(ctx, who)
	if _, ok := status.FromError(err); ok { // nil is one, too
		return grant, err
	}
	// Cut short: a token that nobody has checked may name audiences without end, and
	// all of it is logged.
	return grant, status.Errorf(codes.Unauthenticated, "%.1000v", err)
}

// maxName bounds the names that a client gives itself, in bytes: of its pod and of
// its version. They are kept and logged.
const maxName = 253

// admit makes a client of a stream, if it asks for what it was granted.
func (s *Server) admit(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, grant Grant, first request) (*client, error) {
	node := first.GetNode()
	asked, err := ParseGateway(node.GetCluster())
	switch {
	case err != nil:
		return nil, status.Errorf(codes.InvalidArgument, "node.cluster: %.300v", err)
	case len(node.GetId()) > maxName || len(node.GetUserAgentVersion()) > maxName:
		return nil, status.Errorf(codes.InvalidArgument, "node: an id or a version of more than %d bytes", maxName)
	case asked != grant.Gateway:
		return nil, status.Errorf(codes.PermissionDenied, "by its proof the client is ServiceAccount %s, and waypoints of Gateway %s run as ServiceAccount %s",
			grant.Gateway, asked, asked)
	case !s.o.Known(asked):
		return nil, status.Errorf(codes.NotFound, "there is no Gateway %s, or its class is not one of this controller's", asked)
	}
	return newClient(s, stream, Client{
		Gateway: asked,
		Name:    node.GetId(),
		Version: node.GetUserAgentVersion(),
		Addr:    addrOf(stream.Context()),
		Since:   time.Now(),
	}, grant.Until), nil
}

// stays refuses that a client becomes another one in the middle of a stream.
func (c Client) stays(r *discoveryv3.DeltaDiscoveryRequest) error {
	node := r.GetNode() // which need not be said again
	if node == nil || node.GetCluster() == c.Gateway.String() && node.GetId() == c.Name {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "node: the stream is that of %s of gateway %s, which cannot change", c.Name, c.Gateway)
}

func peerOf(ctx context.Context) (who Peer) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			who.Chain = info.State.PeerCertificates
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
