package discovery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shop, bank = "shop/waypoint", "bank/waypoint"

// stream is one of a client that is spoken by hand.
type stream struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	t    testing.TB
	node *corev3.Node
	end  func()
}

func open(t testing.TB, c *meshtest.Controller, gateway string) *stream {
	t.Helper()
	pem, err := os.ReadFile(c.Root)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots})),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	s := &stream{t: t, node: &corev3.Node{Id: "by hand", Cluster: gateway}, end: func() {
		cancel()
		conn.Close()
	}}
	t.Cleanup(s.end)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.Token(gateway, time.Hour))
	if s.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stream) subscribe(typeURL string, had map[string]string) {
	s.t.Helper()
	s.say(&discoveryv3.DeltaDiscoveryRequest{Node: s.node, TypeUrl: typeURL, InitialResourceVersions: had})
	s.node = nil
}

func (s *stream) say(r *discoveryv3.DeltaDiscoveryRequest) {
	s.t.Helper()
	if err := s.Send(r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stream) hear() *discoveryv3.DeltaDiscoveryResponse {
	s.t.Helper()
	r, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stream) accept(r *discoveryv3.DeltaDiscoveryResponse) {
	s.t.Helper()
	s.say(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

// ended is why the server ended the stream.
func (s *stream) ended() *status.Status {
	s.t.Helper()
	for {
		if _, err := s.Recv(); err != nil {
			return status.Convert(err)
		}
	}
}

func names(r *discoveryv3.DeltaDiscoveryResponse) (names []string) {
	for _, resource := range r.GetResources() {
		names = append(names, resource.GetName())
	}
	return names
}

func gateway(namespace string) *waypointv1.Gateway {
	return &waypointv1.Gateway{Namespace: namespace, Name: "waypoint", Hostname: "waypoint." + namespace}
}

func policy(namespace string, n int, values ...string) *waypointv1.AuthorizationPolicy {
	p := &waypointv1.AuthorizationPolicy{Namespace: namespace, Name: fmt.Sprintf("p%d", n)}
	if len(values) > 0 {
		p.Rules = []*waypointv1.AuthorizationPolicy_Rule{{When: []*waypointv1.AuthorizationPolicy_Condition{{Key: "source.ip", Values: values}}}}
	}
	return p
}

func upsert(messages ...proto.Message) (c translate.Changes) {
	for _, m := range messages {
		c.Upserted = append(c.Upserted, api.Of(m))
	}
	return c
}

// TestEachItsOwn: a waypoint gets its gateway's set and no other's.
func TestEachItsOwn(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop"), policy("shop", 1)))
	c.Update(bank, upsert(gateway("bank"), policy("bank", 1)))
	for _, namespace := range []string{"shop", "bank"} {
		s := open(t, c, namespace+"/waypoint")
		s.subscribe(api.AuthorizationPolicyType, nil)
		if r := s.hear(); len(names(r)) != 1 || names(r)[0] != namespace+"/p1" {
			t.Errorf("%s gets %v", namespace, names(r))
		}
	}
	s := open(t, c, shop)
	s.node.Cluster = bank
	s.subscribe(api.GatewayType, nil)
	if got := s.ended(); got.Code() != codes.PermissionDenied || !strings.Contains(got.Message(), bank) {
		t.Errorf("another gateway's waypoint: %v", got)
	}
	s = open(t, c, shop)
	s.node.Cluster = "shop"
	s.subscribe(api.GatewayType, nil)
	if got := s.ended(); got.Code() != codes.InvalidArgument || !strings.Contains(got.Message(), "node.cluster") {
		t.Errorf("no gateway: %v", got)
	}
}

// TestPush: types that were subscribed to come together, what was accepted comes
// no more, and the next push waits for the answer.
func TestPush(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop"), policy("shop", 1)))
	s := open(t, c, shop)
	s.subscribe(api.AuthorizationPolicyType, map[string]string{"shop/gone": "0123"})
	first := s.hear()
	if first.GetSystemVersionInfo() != "1 1/1" || len(names(first)) != 1 || len(first.GetRemovedResources()) != 1 {
		t.Errorf("%v", first)
	}
	// Not answered yet, so nothing comes, and when it is, the newest of each once.
	for n := range 10 {
		c.Update(shop, upsert(policy("shop", 2, fmt.Sprint(n))))
	}
	c.Update(shop, translate.Changes{Removed: []api.Key{{Type: api.AuthorizationPolicyType, Name: "shop/p1"}}})
	s.subscribe(api.GatewayType, nil)
	s.subscribe("type.googleapis.com/waypoint.v2.Future", nil)
	s.accept(first)
	seen := map[string]*discoveryv3.DeltaDiscoveryResponse{}
	for range 3 {
		r := s.hear()
		seen[r.GetTypeUrl()] = r
		s.accept(r)
	}
	policies := seen[api.AuthorizationPolicyType]
	if policies == nil || len(names(policies)) != 1 || names(policies)[0] != "shop/p2" || len(policies.GetRemovedResources()) != 1 {
		t.Errorf("policies: %v", policies)
	}
	if g := seen[api.GatewayType]; g == nil || len(names(g)) != 1 {
		t.Errorf("gateway: %v", g)
	}
	if f := seen["type.googleapis.com/waypoint.v2.Future"]; f == nil || len(names(f)) != 0 {
		t.Errorf("a type that is not known: %v", f)
	}
	// The same content again is no change.
	c.Update(shop, upsert(policy("shop", 2, "9")))
	c.Update(shop, upsert(policy("shop", 3)))
	if r := s.hear(); len(names(r)) != 1 || names(r)[0] != "shop/p3" {
		t.Errorf("%v", r)
	}
}

func TestAskedByName(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	s := open(t, c, shop)
	s.say(&discoveryv3.DeltaDiscoveryRequest{Node: s.node, TypeUrl: api.AddressType, ResourceNamesSubscribe: []string{"*"}})
	s.accept(s.hear())
	s.say(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.AddressType, ResourceNamesSubscribe: []string{"shop/s1"}})
	if got := s.ended(); got.Code() != codes.InvalidArgument || !strings.Contains(got.Message(), "by name") {
		t.Errorf("%v", got)
	}
}

// TestRefusedAsAWhole keeps what a client says that does not tell which resource
// it refuses.
func TestRefusedAsAWhole(t *testing.T) {
	m := meshtest.New(t)
	c := m.Controller()
	c.Update(shop, upsert(gateway("shop")))
	s := open(t, c, shop)
	s.subscribe(api.GatewayType, nil)
	r := s.hear()
	s.say(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: "no"}})
	s.say(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: "never sent", ErrorDetail: &rpcstatus.Status{Message: "ignored"}})
	of := discovery.Gateway{Namespace: "shop", Name: "waypoint"}
	m.Eventually("the refusal", func() bool { return len(c.Server().Rejections(of)) == 1 })
	if got := c.Server().Rejections(of)[0]; got.Key.Type != api.GatewayType || got.Key.Name != "" || got.Reason != "no" || time.Since(got.At) > time.Minute {
		t.Errorf("%+v", got)
	}
	if n := c.Counts().Rejected; n != 1 {
		t.Errorf("told of it %d times", n)
	}
	clients := c.Server().Clients(of)
	if len(clients) != 1 || clients[0].Name != "by hand" || clients[0].Pushes != 1 || clients[0].Resources != 1 || !clients[0].Waiting.IsZero() {
		t.Errorf("%+v", clients)
	}
	s.end()
	m.Eventually("it is gone, and what it refused with it", func() bool { return len(c.Server().Clients(of)) == 0 && c.Counts().Rejected == 2 })
}

// TestForget ends the streams of a gateway that is gone.
func TestForget(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	s := open(t, c, shop)
	s.subscribe(api.GatewayType, nil)
	s.accept(s.hear())
	c.Server().Forget(discovery.Gateway{Namespace: "shop", Name: "waypoint"})
	if got := s.ended(); got.Code() != codes.NotFound {
		t.Errorf("%v", got)
	}
}

// TestSlowClient: one that does not read is cut, while another gets every change,
// and what was sent to it at most is one push.
func TestSlowClient(t *testing.T) {
	m := meshtest.New(t)
	c := m.Controller()
	c.Stop()
	c.AnswerTimeout = time.Second
	c.Start()
	big := make([]string, 10000) // a push of several responses, more than a window
	for i := range big {
		big[i] = fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
	}
	c.Update(shop, upsert(gateway("shop")))
	for n := range 30 {
		c.Update(shop, upsert(policy("shop", n, big...)))
	}
	slow, quick := open(t, c, shop), open(t, c, shop)
	slow.subscribe(api.AuthorizationPolicyType, nil)
	quick.subscribe(api.AuthorizationPolicyType, nil)
	got, parts := 0, 0
	for got < 30 {
		r := quick.hear()
		got += len(names(r))
		parts++
		quick.accept(r)
	}
	if parts < 3 {
		t.Errorf("4 MB came in %d responses", parts)
	}
	of := discovery.Gateway{Namespace: "shop", Name: "waypoint"}
	for n := range 20 {
		c.Update(shop, upsert(policy("shop", n, fmt.Sprint("x", n))))
		r := quick.hear()
		if len(names(r)) != 1 {
			t.Fatalf("%v", names(r))
		}
		quick.accept(r)
	}
	m.Eventually("the slow one is cut", func() bool { return len(c.Server().Clients(of)) == 1 })
	if got := slow.ended(); got.Code() != codes.DeadlineExceeded {
		t.Errorf("%v", got)
	}
}

// TestManyClients: a change costs each what it is, not what there is.
func TestManyClients(t *testing.T) {
	const clients, changes = 100, 5
	m := meshtest.New(t)
	c := m.Controller()
	c.Update(shop, upsert(gateway("shop")))
	for n := range 200 {
		c.Update(shop, upsert(policy("shop", n)))
	}
	var ready, done sync.WaitGroup
	ready.Add(clients)
	for range clients {
		s := open(t, c, shop)
		s.subscribe(api.AuthorizationPolicyType, nil)
		done.Go(func() {
			s.accept(s.hear())
			ready.Done()
			for got := 0; got < changes; {
				r := s.hear()
				got += len(r.GetResources())
				s.accept(r)
			}
		})
	}
	ready.Wait()
	if n := c.Counts().Resources; n != clients*200 {
		t.Errorf("%d resources were sent at first", n)
	}
	for n := range changes {
		c.Update(shop, upsert(policy("shop", n, "10.0.0.1")))
	}
	done.Wait()
	if n := c.Counts().Resources; n != clients*(200+changes) {
		t.Errorf("%d resources were sent in all", n)
	}
}

// TestLogIsBounded: churn leaves nothing behind, whoever looks on.
func TestLogIsBounded(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	s := open(t, c, shop)
	s.subscribe(api.AddressType, nil)
	s.accept(s.hear())
	attached := &workload.Service{Namespace: "shop", Hostname: "s", Waypoint: &workload.GatewayAddress{Destination: &workload.GatewayAddress_Hostname{
		Hostname: &workload.NamespacedHostname{Namespace: "shop", Hostname: "waypoint.shop"},
	}}}
	c.Update(shop, upsert(attached))
	s.accept(s.hear())
	has := map[string]bool{}
	for n := range 3000 {
		pod := &workload.Workload{Uid: fmt.Sprint("pod-", n), Services: map[string]*workload.PortList{"shop/s": {}}}
		c.Update(shop, upsert(pod))
		if n > 0 {
			c.Update(shop, translate.Changes{Removed: []api.Key{{Type: api.AddressType, Name: fmt.Sprint("pod-", n-1)}}})
		}
		if n%100 == 0 || n == 2999 {
			for done := false; !done; { // until the newest is there and the one before gone
				r := s.hear()
				for _, name := range names(r) {
					has[name] = true
				}
				for _, name := range r.GetRemovedResources() {
					delete(has, name)
				}
				s.accept(r)
				done = has[fmt.Sprint("pod-", n)] && len(has) == 1
			}
		}
	}
	if n := c.Server().Logged(discovery.Gateway{Namespace: "shop", Name: "waypoint"}); n > 2500 {
		t.Errorf("%d entries are kept of two resources", n)
	}
}
