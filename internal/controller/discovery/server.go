package discovery

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Gateway names a Gateway object.
type Gateway struct{ Namespace, Name string }

// String is "namespace/name".
func (g Gateway) String() string { return g.Namespace + "/" + g.Name }

// ParseGateway reads "namespace/name".
func ParseGateway(s string) (Gateway, error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Gateway{}, fmt.Errorf("%q is not NAMESPACE/NAME of a Gateway", s)
	}
	return Gateway{namespace, name}, nil
}

// Options of a [Server].
type Options struct {
	// Authenticate tells who a client is. Required.
	Authenticate Authenticate
	// Known reports whether there is a Gateway of that name to be configured; nil:
	// any is.
	Known func(Gateway) bool
	// Observer is told what happens; nil: nobody.
	Observer Observer
	// Rejected is told when what Rejections lists of a gateway may be another; nil:
	// nobody is. It is called from many goroutines and must not block.
	Rejected func(Gateway)
	// AnswerTimeout is how long a client may take over the answer to a push;
	// 0: a minute. A waypoint takes milliseconds.
	AnswerTimeout time.Duration
}

// Server serves the waypoints of many gateways. Its methods may be called from
// any goroutine.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	o Options

	mu   sync.Mutex // guards sets; before the mu of a set
	sets map[Gateway]*set
}

// New makes a server. It is registered with [Server.Register].
func New(o Options) *Server {
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Known == nil {
		o.Known = func(Gateway) bool { return true }
	}
	if o.Rejected == nil {
		o.Rejected = func(Gateway) {}
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = time.Minute
	}
	return &Server{o: o, sets: make(map[Gateway]*set)}
}

const (
	// maxRequest is the most that a client may say at once, in bytes. On
	// reconnection it names all that it has, about 80 bytes each.
	maxRequest = 32 << 20
	// maxHeader holds a token many times.
	maxHeader = 64 << 10
	// unused is how long a connection may be without a stream.
	unused = time.Minute
	// Dead peers are found after pingAfter + pingTimeout; clients may ask as
	// often as every pingLeast.
	pingAfter, pingTimeout, pingLeast = 30 * time.Second, 10 * time.Second, 5 * time.Second
	// maxAge has clients of a replica that was there first move to the others
	// over time. It costs them nothing: they get no resource again.
	maxAge, maxAgeGrace = 30 * time.Minute, 5 * time.Second
)

// NewGRPC makes the gRPC server that a Server is registered with. Clients are asked
// for a certificate, which it is for Authenticate to verify: a handshake that fails
// tells a client no reason. It is ended with Stop: GracefulStop would wait for
// streams, which do not end by themselves.
func NewGRPC(config *tls.Config) *grpc.Server {
	config = config.Clone()
	config.ClientAuth = tls.RequestClientCert
	return grpc.NewServer(
		grpc.ConnectionTimeout(patience),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.Creds(credentials.NewTLS(config)),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(16),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout,
			MaxConnectionIdle: unused, MaxConnectionAge: maxAge, MaxConnectionAgeGrace: maxAgeGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
	)
}

// Register makes r serve s.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// Update takes what became different for a gateway since the last call, and
// returns how many resources that changes for its waypoints. The first call for a
// gateway has to hold all there is: from then on it is served.
func (s *Server) Update(g Gateway, c translate.Changes) (int, error) {
	n, err := s.set(g).update(c.Upserted, c.Removed)
	s.o.Observer.Updated(g, n)
	if err != nil {
		err = fmt.Errorf("gateway %s: %w", g, err)
	}
	return n, err
}

// Forget drops a gateway that is no more. Its waypoints are told so and cut; they
// serve on with what they have.
func (s *Server) Forget(g Gateway) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sets[g]; known != nil {
		close(known.gone)
		delete(s.sets, g)
	}
}

// set returns the set of a gateway, which may be an empty one.
func (s *Server) set(g Gateway) *set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[g] == nil {
		s.sets[g] = newSet()
	}
	return s.sets[g]
}

// maxClients bounds the streams of one gateway here, so that one of its waypoints
// that opens ever more does not do for those of others.
const maxClients = 500

// enter adds a client to its gateway's set.
func (s *Server) enter(c *client) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sets[c.Gateway]
	if known == nil {
		known = newSet()
	}
	if !known.enter(c) {
		return status.Errorf(codes.ResourceExhausted, "%d streams of gateway %s are open already", maxClients, c.Gateway)
	}
	s.sets[c.Gateway], c.set = known, known
	return nil
}

// leave takes it out. A set that was made for clients only goes with the last.
func (s *Server) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.set.leave(c) && s.sets[c.Gateway] == c.set {
		delete(s.sets, c.Gateway)
	}
}

// Clients lists the waypoints of a gateway that are connected, by name.
func (s *Server) Clients(g Gateway) []ClientStatus {
	s.mu.Lock()
	known := s.sets[g]
	s.mu.Unlock()
	if known == nil {
		return nil
	}
	var list []ClientStatus
	for _, c := range known.connected() {
		list = append(list, c.status())
	}
	slices.SortFunc(list, func(a, b ClientStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Rejections lists what the connected waypoints of a gateway refuse, by resource.
// What several refuse alike is listed once, since the first said so.
func (s *Server) Rejections(g Gateway) (list []Rejection) {
	for _, c := range s.Clients(g) {
		list = append(list, c.Rejections...)
	}
	slices.SortFunc(list, compareRejections)
	return slices.CompactFunc(list, alike)
}

// DeltaAggregatedResources serves one client until either side ends.
func (s *Server) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	c, first, requests, err := s.greet(stream)
	if err == nil {
		err = s.enter(c)
	}
	if err != nil {
		s.o.Observer.Refused(addrOf(stream.Context()), err)
		return err
	}
	s.o.Observer.Connected(c.Client)
	err = c.run(first, requests)
	s.leave(c)
	if c.refusing() {
		s.o.Rejected(c.Gateway)
	}
	s.o.Observer.Disconnected(c.Client, err)
	return err
}

// greet finds out who a client is, and then what it wants.
func (s *Server) greet(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) (c *client, first request, requests <-chan request, err error) {
	grant, err := s.authenticate(stream.Context())
	if err != nil {
		return nil, first, nil, err
	}
	requests = receive(stream)
	if first, err = firstOf(stream.Context(), requests); err != nil {
		return nil, first, nil, err
	}
	c, err = s.admit(stream, grant, first)
	return c, first, requests, err
}

// StreamAggregatedResources is the older form of the protocol, which resends all
// of a type for every change.
func (s *Server) StreamAggregatedResources(discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return status.Error(codes.Unimplemented, "only DeltaAggregatedResources is served")
}

// request is one message of a client, or why there is none any more.
type request struct {
	*discoveryv3.DeltaDiscoveryRequest
	err error
}

// receive reads on a goroutine of its own, which ends with the stream.
func receive(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) <-chan request {
	requests := make(chan request)
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case requests <- request{m, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return requests
}

// patience is how long a client may take to say who it is, and Authenticate to
// believe it.
const patience = 10 * time.Second

func firstOf(ctx context.Context, requests <-chan request) (request, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-requests:
		return r, r.err
	case <-ctx.Done():
		return request{}, ctx.Err()
	case <-late.C:
		return request{}, status.Errorf(codes.DeadlineExceeded, "nothing was asked for within %v", patience)
	}
}
