package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// refuser is a waypoint that refuses one resource, as one of another version might.
type refuser struct {
	key    api.Key
	reason string
}

// connect starts it, at a replica, until the test ends or it is told to.
func (r refuser) connect(s *story, addr string) (stop context.CancelFunc) {
	s.Helper()
	var roots corev1.ConfigMap
	s.Eventually("the controller's roots are there", func() error { return s.Get("waypoint-controller-roots", &roots) })
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(roots.Data["root.pem"]))
	token, err := s.server.Token(s.Context(), s.ns, "waypoint", gateway.TokenAudience, 3600)
	if err != nil {
		s.Fatal(err)
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13})))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(s.Context(), "authorization", "Bearer "+token))
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(stream, s.ns+"/waypoint")
	}()
	stop = func() {
		cancel()
		<-ended
		_ = conn.Close() // nothing is on its way
	}
	s.Cleanup(stop)
	return stop
}

// run asks for everything, and answers until the stream ends.
func (r refuser) run(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, name string) {
	for _, kind := range api.Types() {
		if stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "refuser", Cluster: name}, TypeUrl: kind}) != nil {
			return
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return
		}
		if stream.Send(r.answer(response)) != nil {
			return
		}
	}
}

func (r refuser) answer(response *discoveryv3.DeltaDiscoveryResponse) *discoveryv3.DeltaDiscoveryRequest {
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}
	for _, resource := range response.GetResources() {
		if (api.Key{Type: response.GetTypeUrl(), Name: resource.GetName()}) != r.key {
			continue
		}
		detail, err := anypb.New(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: resource.GetName(), Description: r.reason},
		}})
		if err != nil {
			panic(err) // a message of the library
		}
		answer.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Details: []*anypb.Any{detail}}
	}
	return answer
}

// configuredSays waits for the condition that a Gateway has while its waypoints
// refuse something; empty: for it to be gone.
func (s *story) configuredSays(message string) {
	s.Helper()
	s.Eventually("the Gateway says what is refused", func() error {
		var g gatewayv1.Gateway
		if err := s.Get("waypoint", &g); err != nil {
			return err
		}
		if message != "" {
			return expect(g.Status.Conditions, gateway.ConditionConfigured+" False ResourcesRefused", message)
		}
		if c := meta.FindStatusCondition(g.Status.Conditions, gateway.ConditionConfigured); c != nil {
			return fmt.Errorf("it still says %s", c.Message)
		}
		return nil
	})
}

// TestRefusedResourcesAreTold: what a waypoint refuses stands on the object that it
// was made of and on the Gateway, as long as it does.
func TestRefusedResourcesAreTold(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.Apply(fmt.Sprintf(readyPod, true))
	s.routeSays("cart", "Accepted True Accepted", "In force")
	s.policySays("cart", "True Enforced", "In force")

	stop := refuser{api.Key{Type: api.RouteType, Name: "HTTPRoute/" + s.ns + "/cart"}, "no such regex"}.connect(s, s.controller.Discovery)
	s.routeSays("cart", "Accepted False RefusedByWaypoint", "A waypoint of "+s.ns+"/waypoint refuses it: no such regex. The last version that was right stays in force")
	s.configuredSays("HTTPRoute " + s.ns + "/cart: no such regex")
	stop()
	s.routeSays("cart", "Accepted True Accepted", "In force")
	s.configuredSays("")

	stop = refuser{api.Key{Type: api.AuthorizationPolicyType, Name: s.ns + "/cart"}, "no such method"}.connect(s, s.controller.Discovery)
	s.policySays("cart", "False RefusedByWaypoint", "no such method")
	stop()
	s.policySays("cart", "True Enforced", "In force")
}
