package explain

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

const ours = "default/waypoint"

// snapshot is a mesh of services reviews (fronted, with routes and a policy),
// reviews-v1 and reviews-v2, db (fronted, declared TCP), and some endpoints.
func snapshot() *mesh.Snapshot {
	store := new(mesh.Store)
	b := mesh.NewBuilder(store)
	gateway := &mesh.GatewaySpec{Key: ours, Gateway: mesh.Gateway{
		ServesServices: true, ServesWorkloads: true, Trust: identity.Trust{Domain: "cluster.local"}, Locality: mesh.Locality{Region: "r", Zone: "z1"},
	}}
	b.Set(gateway)
	service := func(name, vip string, protocol mesh.Protocol, waypoints ...string) {
		b.Set(&mesh.ServiceSpec{
			Key: "default/" + name, Name: name, Namespace: "default", Hostname: name, VIPs: []netip.Addr{netip.MustParseAddr(vip)}, Waypoints: waypoints,
			Ports: []mesh.PortSpec{{Number: 8080, Protocol: protocol}}, Locality: mesh.PreferZone,
		})
	}
	service("reviews", "10.0.0.1", mesh.HTTP1, ours)
	service("reviews-v1", "10.0.0.2", mesh.HTTP1)
	service("reviews-v2", "10.0.0.3", mesh.HTTP1)
	service("db", "10.0.0.4", mesh.TCP, ours)
	service("any", "10.0.0.5", mesh.Sniff, ours)
	service("calls", "10.0.0.6", mesh.GRPC, ours)
	service("late", "10.0.0.7", mesh.HTTP1, ours)
	b.Set(&mesh.WorkloadSpec{
		UID: "late", Namespace: "default", Name: "late", Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.9")},
		Serves: map[string][]mesh.PortMapping{"default/late": {{Service: 8080, Target: 80}}, "default/calls": nil},
	})
	b.Set(&mesh.RouteSpec{
		Type: mesh.GRPCRoute, Namespace: "default", Name: "calls", Parents: []mesh.RouteParent{{Service: "default/calls"}},
		Rules: []route.Rule{{Route: "GRPCRoute default/calls", Name: "0", Backends: []route.Backend{{Service: "default/calls", Port: 8080, Weight: 1}}}},
	})
	for i, zone := range []string{"z1", "z2"} {
		b.Set(&mesh.WorkloadSpec{
			UID: fmt.Sprint("pod-", i), Namespace: "default", Name: "reviews", Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 1)})}, HBONE: i == 0, Ready: true,
			Identity: identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "reviews"}, Locality: mesh.Locality{Region: "r", Zone: zone},
			Waypoints: []string{ours},
			Serves: map[string][]mesh.PortMapping{
				"default/reviews-v1": {{Service: 8080, Target: 80}}, "default/db": {{Service: 8080, Target: 3306}}, "default/any": {{Service: 8080, Target: 80}},
			},
		})
	}
	b.Set(reviewsRoute())
	b.Set(&mesh.PolicySpec{
		Targets: []mesh.PolicyTarget{{Service: "default/reviews"}},
		Policy: authz.Policy{Namespace: "default", Name: "readers", Rules: []authz.Rule{{
			From: []authz.Source{{Namespaces: []string{"default"}}}, To: []authz.Operation{{Methods: []string{"GET", "POST", "OPTIONS"}}},
		}}},
	})
	return b.Publish()
}

func reviewsRoute() *mesh.RouteSpec {
	r := &mesh.RouteSpec{Type: mesh.HTTPRoute, Namespace: "default", Name: "reviews", Parents: []mesh.RouteParent{{Service: "default/reviews"}}}
	rule := func(name, prefix string, backends ...route.Backend) *route.Rule {
		r.Rules = append(r.Rules, route.Rule{
			Route: r.Object(), Name: name, Backends: backends,
			Matches: []route.Match{{Path: route.PathMatch{Kind: route.PathPrefix, Value: prefix}}},
		})
		return &r.Rules[len(r.Rules)-1]
	}
	to := func(name string, weight uint32) route.Backend {
		return route.Backend{Service: "default/" + name, Port: 8080, Weight: weight}
	}
	canary := rule("0", "/", to("reviews-v2", 1))
	canary.Matches[0].Headers = []route.ValueMatch{{Name: "x-canary", Value: "1"}}
	split := rule("1", "/api", to("reviews-v1", 90), to("reviews-v2", 10))
	split.Filters = []route.Filter{
		&route.HeaderModifier{Set: []route.Field{{Name: "x-wp", Value: "1"}}},
		&route.Rewrite{Path: &route.PathRewrite{Value: "/v1"}},
	}
	split.Timeouts = route.Timeouts{Request: 2 * time.Second, BackendRequest: 500 * time.Millisecond}
	split.Retry = &route.Retry{Attempts: 3, Codes: []int{502, 503}}
	rule("6", "/cors", to("reviews-v1", 1)).Filters = []route.Filter{&route.CORS{AllowOrigins: []string{"*"}}}
	rule("2", "/old").Filters = []route.Filter{&route.Redirect{Status: 301, Path: &route.PathRewrite{Value: "/new"}}}
	rule("3", "/broken", to("reviews-v1", 1)).Invalid = "the filter is not supported"
	rule("4", "/gone", to("nobody", 1))
	rule("5", "/none")
	return r
}

const client = "spiffe://cluster.local/ns/default/sa/client"

func TestText(t *testing.T) {
	for _, tt := range []struct {
		question Question
		want     string
	}{
		{
			Question{From: client, To: "10.0.0.1:8080", Method: "GET", URL: "http://reviews:8080/x/../api/items?q=1", Headers: []Header{{"X-Canary", "0"}}}, `
GET http://reviews:8080/x/../api/items?q=1 from spiffe://cluster.local/ns/default/sa/client to 10.0.0.1:8080
destination  default/reviews, port 8080
protocol     http, as the port declares
path         /api/items
policy       allowed by a rule: default/readers rules[0]
               ALLOW default/readers: matches
route        HTTPRoute default/reviews rule 1 (those of the service)
               HTTPRoute default/reviews rule 3, /broken/*: the path is "/api/items"
               HTTPRoute default/reviews rule 6, /cors/*: the path is "/api/items"
               HTTPRoute default/reviews rule 4, /gone/*: the path is "/api/items"
               HTTPRoute default/reviews rule 5, /none/*: the path is "/api/items"
               HTTPRoute default/reviews rule 1, /api/*: matches
filter       request headers: set x-wp: 1
filter       rewrite the path to /v1/items
timeouts     2s for the request, 500ms for each attempt
retry        up to 3 more attempts, also after an answer of 502, 503
backend      default/reviews-v1 port 8080, 90%
               10.1.0.1:80 default/reviews, in a tunnel to spiffe://cluster.local/ns/default/sa/reviews
               10.1.0.2:80 default/reviews, in plain TCP: farther away: region "r", zone "z2", node ""
backend      default/reviews-v2 port 8080, 10%: answered 503: no workload serves the port: look at selector and targetPort, or at the EndpointSlices
outcome      forwarded
`,
		},
		{
			Question{From: "spiffe://cluster.local/ns/other/sa/x", To: "reviews:8080", Method: "DELETE", URL: "/api"}, `
DELETE /api from spiffe://cluster.local/ns/other/sa/x to reviews:8080
destination  default/reviews, port 8080
protocol     http, as the port declares
path         /api
policy       denied: no ALLOW policy matches
               ALLOW default/readers: rules[0].from[0].source.namespaces: the peer cluster.local/ns/other/sa/x is none of ["default"]; rules[0].to[0].operation.methods: the method "DELETE" is none of ["GET" "POST" "OPTIONS"]
outcome      answered 403 (rbac_access_denied_matched_policy[none]): no ALLOW policy matches
`,
		},
		{
			Question{From: client, To: "10.0.0.4:8080"}, `
a connection from spiffe://cluster.local/ns/default/sa/client to 10.0.0.4:8080
destination  default/db, port 8080
protocol     tcp, as the port declares: what is inside is not looked at
policy       allowed: no policy restricts it
backend      default/db port 8080, 100%
               10.1.0.1:3306 default/reviews, in a tunnel to spiffe://cluster.local/ns/default/sa/reviews
               10.1.0.2:3306 default/reviews, in plain TCP: farther away: region "r", zone "z2", node ""
outcome      forwarded
`,
		},
		{
			Question{From: client, To: "169.254.169.254:80", Method: "GET"}, `
GET  from spiffe://cluster.local/ns/default/sa/client to 169.254.169.254:80
outcome      answered 404: 169.254.169.254 is no address of a service or workload that is known here. The CONNECT is refused
`,
		},
	} {
		a, err := Explain(snapshot(), tt.question)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Text(); got != tt.want[1:] {
			t.Errorf("got\n%swant%s", got, tt.want)
		}
	}
}

// TestOutcomes asks for paths of the route and other destinations, and looks at
// how it ends.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name     string
		question Question
		want     Outcome
	}{
		{"redirect", Question{To: "10.0.0.1:8080", Method: "GET", URL: "/old/x"}, Outcome{Status: 301, Why: "a filter redirects the client"}},
		{
			"rejected",
			Question{To: "10.0.0.1:8080", Method: "GET", URL: "/broken"},
			Outcome{Status: 500, Flags: "NR", Details: "route_rejected", Why: "HTTPRoute default/reviews is not valid: the filter is not supported"},
		},
		{
			"no such backend",
			Question{To: "10.0.0.1:8080", Method: "GET", URL: "/gone"},
			Outcome{Status: 500, Flags: "NC", Details: "backend_not_found", Why: "no such service and port is known here"},
		},
		{
			"no backend",
			Question{To: "10.0.0.1:8080", Method: "GET", URL: "/none"},
			Outcome{Status: 500, Flags: "NR", Details: "route_without_backend", Why: "HTTPRoute default/reviews has no backend with a weight"},
		},
		{
			"no rule, gRPC",
			Question{To: "10.0.0.1:8080", Method: "POST", URL: "/s/m", Headers: []Header{{"Content-Type", "application/grpc"}}},
			Outcome{Status: 404, GRPC: "12", Flags: "NR", Details: "route_not_found", Why: "there are routes, and none of their rules matches"},
		},
		{
			"no endpoint",
			Question{To: "10.0.0.1:8080", Method: "GET", URL: "/", Headers: []Header{{"x-canary", "1"}}},
			Outcome{Status: 503, Flags: "UH", Details: "no_healthy_upstream", Why: "no workload serves the port: look at selector and targetPort, or at the EndpointSlices"},
		},
		{
			"a CORS preflight",
			Question{
				To: "10.0.0.1:8080", Method: "OPTIONS", URL: "/cors",
				Headers: []Header{{"Origin", "https://a"}, {"Access-Control-Request-Method", "PUT"}},
			},
			Outcome{Status: 200, Details: "cors_preflight", Why: "a CORS filter answers what a browser asks before the request"},
		},
		{"what is none", Question{To: "10.0.0.1:8080", Method: "OPTIONS", URL: "/cors"}, Outcome{Forwarded: true}},
		{
			"GRPCRoutes alone",
			Question{To: "10.0.0.6:8080", Method: "GET", URL: "/"},
			Outcome{Status: 404, Flags: "NR", Details: "route_not_found", Why: "there are GRPCRoutes alone, and the request has not the content type of gRPC"},
		},
		{
			"not ready",
			Question{To: "10.0.0.7:8080", Method: "GET", URL: "/"},
			Outcome{Status: 503, Flags: "UH", Details: "no_healthy_upstream", Why: "no workload that serves the port is ready"},
		},
		{
			"no such target port",
			Question{To: "10.0.0.6:8080", Method: "POST", URL: "/s/m", Headers: []Header{{"Content-Type", "application/grpc"}}},
			Outcome{Status: 503, GRPC: "14", Flags: "UH", Details: "no_healthy_upstream", Why: "no workload serves the port: look at selector and targetPort, or at the EndpointSlices"},
		},
		{"bad path", Question{To: "10.0.0.1:8080", Method: "GET", URL: "/%00"}, Outcome{Status: 400, Why: "the path has an escaped NUL"}},
		{"a workload", Question{To: "10.1.0.1:9999", Method: "GET", URL: "/"}, Outcome{Forwarded: true}},
		{"undeclared, TLS", Question{To: "10.0.0.5:8080", SNI: "x"}, Outcome{Forwarded: true}},
		{"undeclared, nothing", Question{To: "10.0.0.5:8080"}, Outcome{Forwarded: true}},
	} {
		tt.question.From = client
		a, err := Explain(snapshot(), tt.question)
		if err != nil {
			t.Fatal(err)
		}
		if a.Outcome != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, a.Outcome, tt.want)
		}
		if a.Text() == "" {
			t.Error("no text")
		}
	}
}

func TestBadQuestions(t *testing.T) {
	for _, tt := range []struct {
		question Question
		want     string
	}{
		{Question{From: "client", To: "10.0.0.1:80"}, "from:"},
		{Question{From: client, FromIP: "x", To: "10.0.0.1:80"}, "fromIP:"},
		{Question{From: client, RemoteIP: "x", To: "10.0.0.1:80"}, "remoteIP:"},
		{Question{From: client, To: "10.0.0.1"}, "HOST:PORT"},
		{Question{From: client, To: "10.0.0.1:http"}, "not a port"},
	} {
		if _, err := Explain(snapshot(), tt.question); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.question, err, tt.want)
		}
	}
	if _, err := Parse([]byte("{")); err == nil {
		t.Error("took what is not JSON")
	}
}

func TestJSON(t *testing.T) {
	q, err := Parse([]byte(`{"from": "` + client + `", "to": "10.0.0.1:8080", "method": "GET", "url": "/api", "headers": [{"name": "a", "value": "b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Explain(snapshot(), q)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var again Answer
	if err := json.Unmarshal(body, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*a, again) {
		t.Errorf("%+v, after a round trip %+v", *a, again)
	}
}
