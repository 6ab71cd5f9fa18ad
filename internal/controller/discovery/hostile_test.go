package discovery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// shows opens a stream with a certificate or a header of the caller's choice.
func shows(t testing.TB, c *meshtest.Controller, cert *tls.Certificate, authorization string) *stream {
	t.Helper()
	pem, err := os.ReadFile(c.Root)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if cert != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	s := &stream{t: t, node: &corev3.Node{Id: "hostile", Cluster: shop}, end: func() {
		cancel()
		conn.Close()
	}}
	t.Cleanup(s.end)
	if authorization != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
	}
	if s.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNothingIsReadOfStrangers: who cannot prove to be somebody is turned away before
// it has said anything, and told why.
func TestNothingIsReadOfStrangers(t *testing.T) {
	m := meshtest.New(t)
	c := m.Controller()
	c.Update(shop, upsert(gateway("shop")))
	for name, test := range map[string]struct {
		cert          *tls.Certificate
		authorization string
		code          codes.Code
		want          string
	}{
		"nothing":        {want: "neither a bearer token nor a client certificate", code: codes.Unauthenticated},
		"a bad token":    {authorization: "Bearer x", want: "nobody knows this token", code: codes.Unauthenticated},
		"another scheme": {authorization: "Basic x", want: "neither a bearer token", code: codes.Unauthenticated},
		"a bad token and a good certificate": {
			cert: m.Certificate("spiffe://cluster.local/ns/shop/sa/waypoint"), authorization: "Bearer x", want: "nobody knows this token", code: codes.Unauthenticated,
		},
		"a certificate of another mesh": {
			cert: meshtest.New(t).Certificate("spiffe://cluster.local/ns/shop/sa/waypoint"), want: "not signed by any of the mesh roots", code: codes.Unauthenticated,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := shows(t, c, test.cert, test.authorization).ended()
			if got.Code() != test.code || !strings.Contains(got.Message(), test.want) {
				t.Errorf("got %v, want %v with %q", got, test.code, test.want)
			}
		})
	}
}

// TestCertificateIsForItsOwnGateway: mutual TLS gets what a token would.
func TestCertificateIsForItsOwnGateway(t *testing.T) {
	m := meshtest.New(t)
	c := m.Controller()
	c.Update(shop, upsert(gateway("shop")))
	c.Update(bank, upsert(gateway("bank")))
	own := shows(t, c, m.Certificate("spiffe://cluster.local/ns/shop/sa/waypoint"), "")
	own.subscribe(api.GatewayType, nil)
	if got := names(own.hear()); len(got) != 1 || got[0] != shop {
		t.Errorf("got %v", got)
	}
	other := shows(t, c, m.Certificate("spiffe://cluster.local/ns/shop/sa/waypoint"), "")
	other.node.Cluster = bank
	other.subscribe(api.GatewayType, nil)
	if got := other.ended(); got.Code() != codes.PermissionDenied || !strings.Contains(got.Message(), "ServiceAccount shop/waypoint") {
		t.Errorf("another gateway's: %v", got)
	}
}

// TestOneStreamIsOneClient: in the middle of a stream nobody becomes another one, or
// is given more than was asked for at first.
func TestOneStreamIsOneClient(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	c.Update(bank, upsert(gateway("bank")))
	for name, test := range map[string]struct {
		request *discoveryv3.DeltaDiscoveryRequest
		code    codes.Code
		want    string
	}{
		"another gateway": {
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.RouteType, Node: &corev3.Node{Id: "by hand", Cluster: bank}}, codes.InvalidArgument, "cannot change",
		},
		"another pod": {
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.RouteType, Node: &corev3.Node{Id: "other", Cluster: shop}}, codes.InvalidArgument, "cannot change",
		},
		"a resource of another": {
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.GatewayType, ResourceNamesSubscribe: []string{bank}}, codes.InvalidArgument, "by name",
		},
		"the same again":          {&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.GatewayType}, codes.InvalidArgument, "already"},
		"a type with a long name": {&discoveryv3.DeltaDiscoveryRequest{TypeUrl: strings.Repeat("x", 300)}, codes.InvalidArgument, "longer than"},
		"too large a request": {
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "x", InitialResourceVersions: versions(40, 1<<20)}, codes.ResourceExhausted, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c, shop)
			s.subscribe(api.GatewayType, nil)
			s.accept(s.hear())
			s.say(test.request)
			if got := s.ended(); got.Code() != test.code || !strings.Contains(got.Message(), test.want) {
				t.Errorf("got %v, want %v with %q", got, test.code, test.want)
			}
		})
	}
}

// versions of so many resources with names of so many bytes.
func versions(n, size int) map[string]string {
	had := make(map[string]string)
	for i := range n {
		had[fmt.Sprintf("%d%s", i, strings.Repeat("x", size))] = "1"
	}
	return had
}

func TestBadNames(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	for _, node := range []*corev3.Node{
		{Cluster: strings.Repeat("x", 1<<20)},
		{Cluster: shop, Id: strings.Repeat("x", 254)},
		{Cluster: shop, UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: strings.Repeat("x", 254)}},
	} {
		s := open(t, c, shop)
		s.node = node
		s.subscribe(api.GatewayType, nil)
		if got := s.ended(); got.Code() != codes.InvalidArgument || len(got.Message()) > 1000 {
			t.Errorf("%v, %d bytes", got.Code(), len(got.Message()))
		}
	}
}

// TestManyTypes, with much that the client says it has: there is an end to it.
func TestManyTypes(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	for name, had := range map[string]map[string]string{"many": nil, "large": versions(100, 100<<10)} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c, shop)
			go func() {
				for n := range 100 {
					request := &discoveryv3.DeltaDiscoveryRequest{Node: s.node, TypeUrl: fmt.Sprint("type-", n), InitialResourceVersions: had}
					if s.Send(request) != nil {
						return
					}
				}
			}()
			want := map[string]codes.Code{"many": codes.InvalidArgument, "large": codes.ResourceExhausted}[name]
			if got := s.ended(); got.Code() != want {
				t.Errorf("ended with %v, want %v", got, want)
			}
		})
	}
}

// TestHugeRefusals: what is kept of a refusal is bounded, and only what was sent can
// be refused.
func TestHugeRefusals(t *testing.T) {
	m := meshtest.New(t)
	c := m.Controller()
	changes := upsert(gateway("shop"))
	for n := range 3000 {
		changes.Upserted = append(changes.Upserted, api.Of(policy("shop", n)))
	}
	c.Update(shop, changes)
	s := open(t, c, shop)
	s.subscribe(api.AuthorizationPolicyType, nil)
	r := s.hear()
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "bank/p1", Description: "not ours"}}}
	for _, name := range names(r) {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: name, Description: strings.Repeat("é", 2000)})
	}
	detail, err := anypb.New(bad)
	if err != nil {
		t.Fatal(err)
	}
	s.say(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: "no", Details: []*anypb.Any{detail}},
	})
	m.Eventually("the refusals are there", func() bool {
		return len(c.Server().Rejections(discovery.Gateway{Namespace: "shop", Name: "waypoint"})) > 0
	})
	list := c.Server().Rejections(discovery.Gateway{Namespace: "shop", Name: "waypoint"})
	if len(list) > 1000 {
		t.Errorf("%d are kept", len(list))
	}
	for _, got := range list {
		if len(got.Reason) > 1100 || got.Key.Name == "bank/p1" {
			t.Fatalf("%v with %d bytes", got.Key, len(got.Reason))
		}
	}
}

// TestFloodOfRequests: answers to nothing are read and forgotten, and others are
// served meanwhile.
func TestFloodOfRequests(t *testing.T) {
	c := meshtest.New(t).Controller()
	c.Update(shop, upsert(gateway("shop")))
	hostile, honest := open(t, c, shop), open(t, c, shop)
	hostile.subscribe(api.GatewayType, nil)
	honest.subscribe(api.AuthorizationPolicyType, nil)
	honest.accept(honest.hear())
	flood := make(chan struct{})
	go func() {
		defer close(flood)
		for n := range 20000 {
			if hostile.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.GatewayType, ResponseNonce: fmt.Sprint("no ", n)}) != nil {
				return
			}
		}
	}()
	for n := range 20 {
		c.Update(shop, upsert(policy("shop", n)))
		honest.accept(honest.hear())
	}
	<-flood
}

// TestStreamsOfOneGateway are so many and no more; others are not touched.
func TestStreamsOfOneGateway(t *testing.T) {
	m := meshtest.New(t)
	c := m.Controller()
	c.Update(shop, upsert(gateway("shop")))
	c.Update(bank, upsert(gateway("bank")))
	refused := func() bool { return len(c.Counts().Refused) > 0 }
	for n := 0; n < 510 && !refused(); n++ {
		s := open(t, c, shop)
		s.subscribe(api.GatewayType, nil)
		if r, err := s.Recv(); err == nil {
			s.accept(r)
		} else if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	if !refused() {
		t.Error("nobody was turned away")
	}
	other := open(t, c, bank)
	other.subscribe(api.GatewayType, nil)
	other.hear()
}

// TestSlowReadersCostLittle: what is under way to a client that does not read is one
// response, however much there is to send.
func TestSlowReadersCostLittle(t *testing.T) {
	const clients, perClient = 30, 4 << 20
	m := meshtest.New(t)
	c := m.Controller()
	values := make([]string, 10000)
	for i := range values {
		values[i] = fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
	}
	changes := translate.Changes{Upserted: upsert(gateway("shop")).Upserted}
	for n := range 200 { // 30 MB
		changes.Upserted = append(changes.Upserted, api.Of(policy("shop", n, values...)))
	}
	c.Update(shop, changes)
	before := heap()
	for range clients {
		s := open(t, c, shop)
		s.subscribe(api.AuthorizationPolicyType, nil)
	}
	m.Eventually("all are being sent to", func() bool { return c.Counts().Pushes == clients })
	m.Eventually("what they cost is bounded", func() bool { return heap()-before < clients*perClient })
	if grown := heap() - before; grown > clients*perClient {
		t.Errorf("%d MB for %d clients", grown>>20, clients)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
