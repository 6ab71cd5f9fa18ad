package compile

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// part compiles m, which has to be good, and checks that its key is found.
func part[T mesh.Part](t *testing.T, m proto.Message) T {
	t.Helper()
	r := api.Of(m)
	got, err := Part(r)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := got.(T)
	if !ok {
		t.Fatalf("%T", got)
	}
	if keys := Keys(r.Key); !slices.Contains(keys, p.PartKey()) {
		t.Errorf("the part has key %v, its resource's are %v", p.PartKey(), keys)
	}
	return p
}

func diff(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

var ourWaypoint = &workload.GatewayAddress{Destination: &workload.GatewayAddress_Hostname{
	Hostname: &workload.NamespacedHostname{Namespace: "default", Hostname: "waypoint.default.svc.cluster.local"},
}}

func TestGateway(t *testing.T) {
	got := part[*mesh.GatewaySpec](t, &waypointv1.Gateway{
		Namespace: "default", Name: "waypoint", Hostname: "waypoint.default.svc.cluster.local", TrustDomainAliases: []string{"old"},
		Serves: waypointv1.Gateway_SERVICES_AND_WORKLOADS, Locality: &workload.Locality{Region: "r", Zone: "z"}, Node: "n",
	})
	want := &mesh.GatewaySpec{Key: "default/waypoint.default.svc.cluster.local", Gateway: mesh.Gateway{
		Namespace: "default", Name: "waypoint", ServesServices: true, ServesWorkloads: true, Locality: mesh.Locality{Region: "r", Zone: "z", Node: "n"},
	}}
	want.Trust.Domain, want.Trust.Aliases = "cluster.local", []string{"old"}
	diff(t, got, want)
	none := part[*mesh.GatewaySpec](t, &waypointv1.Gateway{Serves: waypointv1.Gateway_NOTHING, TrustDomain: "td"})
	if none.ServesServices || none.ServesWorkloads || none.Trust.Domain != "td" {
		t.Errorf("%+v", none)
	}
}

func TestService(t *testing.T) {
	got := part[*mesh.ServiceSpec](t, &workload.Service{
		Name: "reviews", Namespace: "default", Hostname: "reviews.default.svc.cluster.local", Waypoint: ourWaypoint,
		Addresses: []*workload.NetworkAddress{{Address: []byte{10, 0, 0, 1}}, {Address: netip.MustParseAddr("fd00::1").AsSlice(), Length: proto.Uint32(128)}},
		Ports: []*workload.Port{
			{ServicePort: 80, AppProtocol: workload.AppProtocol_HTTP11},
			{ServicePort: 81, AppProtocol: workload.AppProtocol_HTTP2},
			{ServicePort: 82, AppProtocol: workload.AppProtocol_GRPC},
			{ServicePort: 83, AppProtocol: workload.AppProtocol_TCP},
			{ServicePort: 84, AppProtocol: workload.AppProtocol_TLS},
			{ServicePort: 85},
			{ServicePort: 86, AppProtocol: 99},
		},
		SubjectAltNames: []string{"spiffe://td/ns/x/sa/y"}, IpFamilies: workload.IPFamilies_IPV6_ONLY,
		LoadBalancing: &workload.LoadBalancing{
			RoutingPreference: []workload.LoadBalancing_Scope{workload.LoadBalancing_NETWORK, workload.LoadBalancing_REGION, workload.LoadBalancing_ZONE},
			HealthPolicy:      workload.LoadBalancing_ALLOW_ALL,
		},
	})
	diff(t, got, &mesh.ServiceSpec{
		Key: "default/reviews.default.svc.cluster.local", Name: "reviews", Namespace: "default", Hostname: "reviews.default.svc.cluster.local",
		VIPs:      []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Waypoints: []string{"default/waypoint.default.svc.cluster.local"}, SANs: []string{"spiffe://td/ns/x/sa/y"},
		Ports: []mesh.PortSpec{
			{Number: 80, Protocol: mesh.HTTP1},
			{Number: 81, Protocol: mesh.HTTP2},
			{Number: 82, Protocol: mesh.GRPC},
			{Number: 83, Protocol: mesh.TCP},
			{Number: 84, Protocol: mesh.TLS},
			{Number: 85, Protocol: mesh.Sniff},
			{Number: 86, Protocol: mesh.Sniff},
		},
		Telemetry: &flow.Service{Host: "reviews.default.svc.cluster.local", Name: "reviews", Namespace: "default"},
		Locality:  mesh.PreferZone, Families: mesh.IPv6Only, AllowUnready: true,
	})
}

func TestWorkload(t *testing.T) {
	got := part[*mesh.WorkloadSpec](t, &workload.Workload{
		Uid: "c//Pod/default/reviews-1", Name: "reviews-1", Namespace: "default", WorkloadName: "reviews", Addresses: [][]byte{{10, 1, 0, 1}},
		TunnelProtocol: workload.TunnelProtocol_HBONE, ServiceAccount: "app", Waypoint: ourWaypoint, Node: "n", ClusterId: "c",
		CanonicalName: "reviews", CanonicalRevision: "v1", Locality: &workload.Locality{Zone: "z"}, Capacity: wrapperspb.UInt32(0),
		Services: map[string]*workload.PortList{"default/reviews": {Ports: []*workload.Port{{ServicePort: 80, TargetPort: 8080}}}},
	})
	want := &mesh.WorkloadSpec{
		UID: "c//Pod/default/reviews-1", Namespace: "default", Name: "reviews", Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.1")},
		HBONE: true, Ready: true, Unpicked: true, Waypoints: []string{"default/waypoint.default.svc.cluster.local"},
		Locality: mesh.Locality{Zone: "z", Node: "n"},
		Serves:   map[string][]mesh.PortMapping{"default/reviews": {{Service: 80, Target: 8080}}},
		Telemetry: &flow.Workload{
			Name: "reviews", Namespace: "default", Pod: "reviews-1", Principal: "spiffe://cluster.local/ns/default/sa/app", App: "reviews", Version: "v1",
			CanonicalName: "reviews", CanonicalRevision: "v1", Cluster: "c", Zone: "z", Node: "n",
		},
	}
	want.Identity.TrustDomain, want.Identity.Namespace, want.Identity.ServiceAccount = "cluster.local", "default", "app"
	diff(t, got, want)

	other := part[*mesh.WorkloadSpec](t, &workload.Workload{
		Uid: "c//Pod/default/x", Name: "x", TrustDomain: "td", Status: workload.WorkloadStatus_UNHEALTHY, NetworkMode: workload.NetworkMode_HOST_NETWORK,
		TunnelProtocol: workload.TunnelProtocol_LEGACY_ISTIO_MTLS,
	})
	if other.Ready || other.HBONE || other.Unpicked || !other.HostNetwork || other.Identity.TrustDomain != "td" || other.Identity.ServiceAccount != "default" || other.Name != "x" {
		t.Errorf("%+v", other)
	}
}

func ref(host string) *waypointv1.ServiceRef {
	return &waypointv1.ServiceRef{Namespace: "default", Hostname: host}
}

func prefixMatch(p string) *waypointv1.RouteMatch {
	return &waypointv1.RouteMatch{Kind: &waypointv1.RouteMatch_Http{Http: &waypointv1.HttpMatch{Path: &waypointv1.HttpMatch_Prefix{Prefix: p}}}}
}

func toService(host string, weight uint32) *waypointv1.Backend {
	return &waypointv1.Backend{Target: &waypointv1.Backend_Service{Service: ref(host)}, Port: 8080, Weight: weight}
}

// wholeRoute uses every field.
func wholeRoute() *waypointv1.Route {
	return &waypointv1.Route{
		Kind: waypointv1.RouteKind_HTTP_ROUTE, Namespace: "default", Name: "r", Created: timestamppb.New(time.Unix(100, 0)), Hostnames: []string{"*.example.com"},
		Parents: []*waypointv1.RouteParent{
			{Target: &waypointv1.RouteParent_Service{Service: ref("a")}, Port: 80},
			{Target: &waypointv1.RouteParent_Gateway{Gateway: true}},
		},
		Rules: []*waypointv1.RouteRule{{
			Name: "first",
			Matches: []*waypointv1.RouteMatch{{Kind: &waypointv1.RouteMatch_Http{Http: &waypointv1.HttpMatch{
				Path: &waypointv1.HttpMatch_Prefix{Prefix: "/a"}, Method: "GET",
				Headers: []*waypointv1.ValueMatch{{Name: "x", Value: &waypointv1.ValueMatch_Exact{Exact: "1"}}},
				Query:   []*waypointv1.ValueMatch{{Name: "q", Value: &waypointv1.ValueMatch_Regex{Regex: ".*"}}},
			}}}, prefixMatch("/b")},
			Filters: []*waypointv1.Filter{
				{Kind: &waypointv1.Filter_RequestHeaders{RequestHeaders: &waypointv1.HeaderModifier{Set: []*waypointv1.Header{{Name: "s", Value: "1"}}, Remove: []string{"r"}}}},
				{Kind: &waypointv1.Filter_ResponseHeaders{ResponseHeaders: &waypointv1.HeaderModifier{Add: []*waypointv1.Header{{Name: "a", Value: "1"}}}}},
				{Kind: &waypointv1.Filter_Redirect{Redirect: &waypointv1.Redirect{Scheme: "https", Status: 301, Port: 8443, Path: &waypointv1.PathModifier{Kind: &waypointv1.PathModifier_Full{Full: "/new"}}}}},
				{Kind: &waypointv1.Filter_Rewrite{Rewrite: &waypointv1.UrlRewrite{Hostname: "h", Path: &waypointv1.PathModifier{Kind: &waypointv1.PathModifier_Prefix{Prefix: "/"}}}}},
				{Kind: &waypointv1.Filter_Mirror{Mirror: &waypointv1.Mirror{Service: ref("m"), Port: 1, Numerator: 1, Denominator: 2}}},
				{Kind: &waypointv1.Filter_Cors{Cors: &waypointv1.Cors{AllowOrigins: []string{"*"}, MaxAge: durationpb.New(time.Second)}}},
			},
			Backends:       []*waypointv1.Backend{toService("v1", 90), {Target: &waypointv1.Backend_Invalid{Invalid: "no such service"}, Weight: 10}},
			RequestTimeout: durationpb.New(2 * time.Second), BackendTimeout: durationpb.New(time.Second),
			Retry: &waypointv1.Retry{Attempts: 3, Backoff: durationpb.New(time.Millisecond), Codes: []uint32{503}},
		}, {Rejected: "a filter is not supported"}},
	}
}

func TestRoute(t *testing.T) {
	got := part[*mesh.RouteSpec](t, wholeRoute())
	hosts := []string{"*.example.com"}
	want := &mesh.RouteSpec{
		Type: mesh.HTTPRoute, Namespace: "default", Name: "r", Created: time.Unix(100, 0).UTC(), Hostnames: hosts,
		Parents: []mesh.RouteParent{{Service: "default/a", Port: 80}, {}},
		Rules: []route.Rule{{
			Route: "HTTPRoute default/r", Name: "first", Label: "/a/*|/b/*",
			Matches: []route.Match{
				{
					Path: route.PathMatch{Kind: route.PathPrefix, Value: "/a"}, Method: "GET",
					Headers: []route.ValueMatch{{Name: "x", Value: "1"}}, Query: []route.ValueMatch{{Name: "q", Value: ".*", Regex: true}},
				},
				{Path: route.PathMatch{Kind: route.PathPrefix, Value: "/b"}},
			},
			Filters: []route.Filter{
				&route.HeaderModifier{Set: []route.Field{{Name: "s", Value: "1"}}, Remove: []string{"r"}},
				&route.HeaderModifier{Response: true, Add: []route.Field{{Name: "a", Value: "1"}}},
				&route.Redirect{Scheme: "https", Status: 301, Port: 8443, Path: &route.PathRewrite{Full: true, Value: "/new"}},
				&route.Rewrite{Hostname: "h", Path: &route.PathRewrite{Value: "/"}},
				&route.Mirror{Backend: route.Backend{Service: "default/m", Port: 1, Weight: 1}, Numerator: 1, Denominator: 2},
				&route.CORS{AllowOrigins: []string{"*"}, MaxAge: time.Second},
			},
			Backends: []route.Backend{{Service: "default/v1", Port: 8080, Weight: 90}, {Weight: 10, Invalid: "no such service"}},
			Timeouts: route.Timeouts{Request: 2 * time.Second, BackendRequest: time.Second},
			Retry:    &route.Retry{Attempts: 3, Backoff: time.Millisecond, Codes: []int{503}},
		}, {Route: "HTTPRoute default/r", Name: "1", Label: "/*", Invalid: "a filter is not supported"}},
	}
	diff(t, got, want)
}

// TestRouteFailsClosed breaks a route in one place and says what of it answers
// 500.
func TestRouteFailsClosed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		damage  func(*waypointv1.Route)
		faults  string // in Check's error; empty: it was marked before it came
		outcome func(*mesh.RouteSpec) bool
	}{
		{
			"refused before", func(r *waypointv1.Route) { r.Rejected, r.Rules = "why", nil }, "",
			func(s *mesh.RouteSpec) bool { return s.Rejected == "why" && s.Rules == nil },
		},
		{
			"a match", func(r *waypointv1.Route) { r.Rules[0].Matches[1] = prefixMatch("b") }, "rules[0]: HTTPRoute default/r rule first: matches[1]: path",
			func(s *mesh.RouteSpec) bool { return s.Rejected != "" && s.Rules == nil && len(s.Parents) == 2 },
		},
		{
			"a host name", func(r *waypointv1.Route) { r.Hostnames = []string{"a b"} }, "hostnames",
			func(s *mesh.RouteSpec) bool { return s.Rejected != "" },
		},
		{
			"a filter's value", func(r *waypointv1.Route) { r.Rules[0].Filters[2].GetRedirect().Status = 200 }, "statusCode",
			func(s *mesh.RouteSpec) bool { return s.Rejected == "" && s.Rules[0].Invalid != "" },
		},
		{
			"a filter of a kind that is not known", func(r *waypointv1.Route) { r.Rules[0].Filters[2] = &waypointv1.Filter{} }, "filters[2]",
			func(s *mesh.RouteSpec) bool { return s.Rules[0].Invalid != "" },
		},
		{
			"a mirror's port", func(r *waypointv1.Route) { r.Rules[0].Filters[4].GetMirror().Port = 0 }, "filters[4]: port",
			func(s *mesh.RouteSpec) bool { return s.Rules[0].Invalid != "" },
		},
		{
			"a backend's port", func(r *waypointv1.Route) { r.Rules[0].Backends[0].Port = 70000 }, "backends[0]: port",
			func(s *mesh.RouteSpec) bool { return s.Rules[0].Invalid != "" && s.Rules[0].Backends[0].Invalid != "" },
		},
		{
			"a backend of a kind that is not known", func(r *waypointv1.Route) { r.Rules[0].Backends[0].Target = nil }, "backends[0]: target",
			func(s *mesh.RouteSpec) bool { return s.Rules[0].Backends[0].Invalid != "" },
		},
		{
			"a parent of a kind that is not known", func(r *waypointv1.Route) { r.Parents[0].Target = nil }, "parents[0]",
			func(s *mesh.RouteSpec) bool { return len(s.Parents) == 1 },
		},
		{"the kind", func(r *waypointv1.Route) { r.Kind = 0 }, "kind", func(s *mesh.RouteSpec) bool { return s.Rejected != "" && s.Rules == nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := wholeRoute()
			tt.damage(r)
			part, err := Part(api.Of(r))
			if (err == nil) != (tt.faults == "") || err != nil && !strings.Contains(err.Error(), tt.faults) {
				t.Errorf("error %v, want %q", err, tt.faults)
			}
			if spec := part.(*mesh.RouteSpec); !tt.outcome(spec) {
				t.Errorf("%+v", spec)
			}
		})
	}
}

func TestGRPCAndStreamRoutes(t *testing.T) {
	got := part[*mesh.RouteSpec](t, &waypointv1.Route{
		Kind: waypointv1.RouteKind_GRPC_ROUTE, Namespace: "default", Name: "g",
		Rules: []*waypointv1.RouteRule{{
			Matches: []*waypointv1.RouteMatch{{Kind: &waypointv1.RouteMatch_Grpc{Grpc: &waypointv1.GrpcMatch{
				Method:  &waypointv1.GrpcMethodMatch{Service: "foo.Bar", Method: "Login"},
				Headers: []*waypointv1.ValueMatch{{Name: "x", Value: &waypointv1.ValueMatch_Exact{Exact: "1"}}},
			}}}},
			Backends: []*waypointv1.Backend{toService("v1", 1)},
		}},
	})
	rule := got.Rules[0]
	if got.Type != mesh.GRPCRoute || rule.Label != "/foo.Bar/Login" || *rule.Matches[0].GRPC != (route.GRPCMatch{Service: "foo.Bar", Method: "Login"}) || len(rule.Matches[0].Headers) != 1 {
		t.Errorf("%+v", rule)
	}
	for kind, want := range map[waypointv1.RouteKind]mesh.RouteType{waypointv1.RouteKind_TLS_ROUTE: mesh.TLSRoute, waypointv1.RouteKind_TCP_ROUTE: mesh.TCPRoute} {
		s := part[*mesh.RouteSpec](t, &waypointv1.Route{Kind: kind, Namespace: "default", Name: "s", Rules: []*waypointv1.RouteRule{{Backends: []*waypointv1.Backend{toService("v1", 1)}}}})
		if s.Type != want || len(s.Rules[0].Backends) != 1 {
			t.Errorf("%+v", s)
		}
	}
}

func TestPolicy(t *testing.T) {
	got := part[*mesh.PolicySpec](t, &waypointv1.AuthorizationPolicy{
		Namespace: "default", Name: "p", Action: waypointv1.AuthorizationPolicy_DENY, DryRun: true, Provider: "x",
		Targets: []*waypointv1.AuthorizationPolicy_Target{
			{Kind: &waypointv1.AuthorizationPolicy_Target_Service{Service: ref("a")}},
			{Kind: &waypointv1.AuthorizationPolicy_Target_Gateway{Gateway: true}},
			{Kind: &waypointv1.AuthorizationPolicy_Target_GatewayClass{GatewayClass: true}},
			{Kind: &waypointv1.AuthorizationPolicy_Target_Namespace{Namespace: "n"}},
		},
		Rules: []*waypointv1.AuthorizationPolicy_Rule{{
			From: []*waypointv1.AuthorizationPolicy_Source{{Namespaces: []string{"a"}, NotIpBlocks: []string{"10.0.0.0/8"}}},
			To:   []*waypointv1.AuthorizationPolicy_Operation{{Paths: []string{"/a%2fb", "/\u00e9*"}, Ports: []uint32{80}}},
			When: []*waypointv1.AuthorizationPolicy_Condition{{Key: "request.headers[x]", Values: []string{"1"}, NotValues: []string{"2"}}},
		}},
	})
	diff(t, got, &mesh.PolicySpec{
		Policy: authz.Policy{
			Namespace: "default", Name: "p", Action: authz.Deny, DryRun: true, Provider: "x",
			Rules: []authz.Rule{{
				From: []authz.Source{{Namespaces: []string{"a"}, NotIPBlocks: []string{"10.0.0.0/8"}}},
				To:   []authz.Operation{{Paths: []string{"/a%2Fb", "/%C3%A9*"}, Ports: []uint16{80}}},
				When: []authz.Condition{{Key: "request.headers[x]", Values: []string{"1"}, NotValues: []string{"2"}}},
			}},
		},
		Targets: []mesh.PolicyTarget{{Service: "default/a"}, {}, {}, {Namespace: "n"}},
	})
}

func TestPolicyFailsClosed(t *testing.T) {
	rule := func(to *waypointv1.AuthorizationPolicy_Operation) *waypointv1.AuthorizationPolicy {
		return &waypointv1.AuthorizationPolicy{Namespace: "default", Name: "p", Rules: []*waypointv1.AuthorizationPolicy_Rule{{To: []*waypointv1.AuthorizationPolicy_Operation{to}}}}
	}
	for _, tt := range []struct {
		policy *waypointv1.AuthorizationPolicy
		want   string
	}{
		{rule(&waypointv1.AuthorizationPolicy_Operation{Ports: []uint32{70000}}), "rules[0]: to[0].ports: 70000"},
		{rule(&waypointv1.AuthorizationPolicy_Operation{}), "rules[0].to[0].operation"},
		{&waypointv1.AuthorizationPolicy{Action: 9}, "action: 9"},
		{&waypointv1.AuthorizationPolicy{Targets: []*waypointv1.AuthorizationPolicy_Target{{}}}, "targets[0]"},
	} {
		part, err := Part(api.Of(tt.policy))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if spec := part.(*mesh.PolicySpec); spec.Policy.Invalid == "" || spec.Policy.Rules != nil {
			t.Errorf("does not deny: %+v", spec)
		}
	}
	if spec := part[*mesh.PolicySpec](t, &waypointv1.AuthorizationPolicy{Rejected: "why"}); spec.Policy.Invalid != "why" {
		t.Errorf("%+v", spec)
	}
}

// TestAddressFaults: what cannot be read is named and left out, the rest holds.
func TestAddressFaults(t *testing.T) {
	s := api.Of(&workload.Service{
		Namespace: "a", Hostname: "b",
		Addresses: []*workload.NetworkAddress{{Address: []byte{1}}, {Address: []byte{10, 0, 0, 0}, Length: proto.Uint32(8)}, {Address: []byte{10, 0, 0, 1}}},
		Ports:     []*workload.Port{{ServicePort: 0}, {ServicePort: 80}},
	})
	w := api.Of(&workload.Workload{
		Uid: "u", Addresses: [][]byte{{1, 2}, {10, 0, 0, 1}},
		Services: map[string]*workload.PortList{"a/b": {Ports: []*workload.Port{{ServicePort: 80}, {ServicePort: 81, TargetPort: 81}}}},
	})
	sPart, sErr := Part(s)
	wPart, wErr := Part(w)
	for err, want := range map[error][]string{sErr: {"a/b", "addresses[0]", "addresses[1]", "ports[0]"}, wErr: {"addresses[0]", "services[a/b]"}} {
		for _, field := range want {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%v does not name %s", err, field)
			}
		}
	}
	if spec := sPart.(*mesh.ServiceSpec); len(spec.VIPs) != 1 || len(spec.Ports) != 1 {
		t.Errorf("%+v", spec)
	}
	if spec := wPart.(*mesh.WorkloadSpec); len(spec.Addrs) != 1 || len(spec.Serves["a/b"]) != 1 {
		t.Errorf("%+v", spec)
	}
}
