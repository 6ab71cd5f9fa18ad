package mesh

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/route"
)

// order lists the routes of a table by the rules that were compiled into it.
func order(t *route.Table) string {
	if t == nil {
		return "-"
	}
	var names []string
	for _, r := range t.Rules() {
		_, name, _ := strings.Cut(r.Route, " ")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (r *RouteSpec) with(change func(*RouteSpec)) *RouteSpec {
	change(r)
	return r
}

func TestRoutesOfAPort(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	here := RouteParent{Service: svc.Key}
	here80 := RouteParent{Service: svc.Key, Port: 80}
	gw := RouteParent{}
	tests := []struct {
		name   string
		routes []*RouteSpec
		want   string // of port 80
		want90 string
		abroad string // of port 80 for clients of namespace abroad
	}{
		{"none", nil, "", "", ""},
		{"every port", []*RouteSpec{routeTo("default", "a", here)}, "default/a", "default/a", ""},
		{"one port", []*RouteSpec{routeTo("default", "a", here80)}, "default/a", "", ""},
		{"gateway", []*RouteSpec{routeTo("default", "a", gw), routeTo("abroad", "b", gw)}, "abroad/b default/a", "abroad/b default/a", ""},
		{"service beats gateway", []*RouteSpec{routeTo("default", "g", gw), routeTo("default", "z", here80)}, "default/z", "default/g", ""},
		{"consumer", []*RouteSpec{routeTo("default", "a", here), routeTo("abroad", "b", here)}, "default/a", "default/a", "abroad/b"},
		{"consumer beside gateway", []*RouteSpec{routeTo("default", "g", gw), routeTo("abroad", "b", here)}, "default/g", "default/g", "abroad/b"},
		{
			"older first, then by name", []*RouteSpec{
				routeTo("default", "b", here),
				routeTo("default", "a", here),
				routeTo("default", "0", here).with(func(r *RouteSpec) { r.Created = time.Unix(9, 0) }),
				routeTo("default", "z", here).with(func(r *RouteSpec) { r.Created = time.Unix(8, 0) }),
			}, "default/a default/b default/z default/0", "default/a default/b default/z default/0", "",
		},
		{
			"rejected last", []*RouteSpec{
				routeTo("default", "a", here80).with(func(r *RouteSpec) { r.Rejected, r.Rules = "bad", nil }),
				routeTo("default", "b", here80),
			}, "default/b default/a", "", "",
		},
		{
			"rejected beats gateway", []*RouteSpec{
				routeTo("default", "a", here80).with(func(r *RouteSpec) { r.Rejected, r.Rules = "bad", nil }),
				routeTo("default", "g", gw),
			}, "default/a", "default/g", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBuilder(new(Store))
			b.Set(gateway())
			b.Set(svc)
			for _, r := range tt.routes {
				b.Set(r)
			}
			built := b.Publish().Services[svc.Key]
			for number, want := range map[uint16]string{80: tt.want, 90: tt.want90} {
				if got := tablesOf(built.Port(number).Routes); got != want {
					t.Errorf("port %d: routes %q, want %q", number, got, want)
				}
			}
			if got := tablesOf(built.Port(80).Consumer["abroad"]); got != tt.abroad {
				t.Errorf("for clients of abroad: routes %q, want %q", got, tt.abroad)
			}
		})
	}
}

func tablesOf(r *Routes) string {
	if r == nil {
		return ""
	}
	return order(r.HTTP)
}

func TestRejectedRouteAnswers500(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	bad := routeTo("default", "a", RouteParent{Service: svc.Key})
	bad.Rejected, bad.Rules = "no such field", nil
	good := routeTo("default", "b", RouteParent{Service: svc.Key})
	good.Rules[0].Matches = []route.Match{{Path: route.PathMatch{Kind: route.PathPrefix, Value: "/good"}}}
	table := built(gateway(), svc, bad, good).Services[svc.Key].Port(80).Routes.HTTP
	for path, want := range map[string]string{"/good/x": "", "/other": "no such field"} {
		rule, _, ok := table.Match(&route.Request{Method: "GET", Path: path})
		if !ok || rule.Invalid != want {
			t.Errorf("%s: %v %+v, want a rule with fault %q", path, ok, rule, want)
		}
	}
}

func TestHostsCountUnderTheGateway(t *testing.T) {
	one, two := service("default", "one", "10.0.0.1"), service("default", "two", "10.0.0.2")
	r := routeTo("default", "r", RouteParent{}, RouteParent{Service: two.Key})
	r.Hostnames = []string{"one.example.com"}
	sni := routeTo("default", "s", RouteParent{Service: two.Key})
	sni.Type, sni.Hostnames = TLSRoute, []string{"x.example.com"}
	snap := built(gateway(), one, two, r, sni)
	request := &route.Request{Method: "GET", Path: "/", Host: "elsewhere"}
	if _, _, ok := snap.Services[one.Key].Port(80).Routes.HTTP.Match(request); ok {
		t.Error("under the gateway the host does not count")
	}
	routes := snap.Services[two.Key].Port(80).Routes
	if _, _, ok := routes.HTTP.Match(request); !ok {
		t.Error("under a service the host counts")
	}
	if _, ok := routes.TLS.Match("y.example.com"); ok {
		t.Error("the server name does not count")
	}
}

func TestKindsOfRoutes(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	parts := []Part{gateway(), svc}
	for _, kind := range []RouteType{HTTPRoute, GRPCRoute, TLSRoute, TCPRoute} {
		for _, name := range []string{"a", "b"} {
			r := routeTo("default", name, RouteParent{Service: svc.Key})
			r.Type = kind
			r.Rules[0].Route = r.Object()
			parts = append(parts, r)
		}
	}
	routes := built(parts...).Services[svc.Key].Port(80).Routes
	if got := order(routes.HTTP) + ", " + order(routes.GRPC); got != "default/a default/b, default/a default/b" {
		t.Errorf("tables %s", got)
	}
	if rule, ok := routes.TLS.Match(""); !ok || rule.Route != "TLSRoute default/a" {
		t.Errorf("server name leads to %+v", rule)
	}
	if routes.TCP == nil || routes.TCP.Route != "TCPRoute default/a" {
		t.Errorf("connections follow %+v", routes.TCP)
	}
}

// TestUncompilableRulesRefuse: a fault that was overlooked closes, too.
func TestUncompilableRulesRefuse(t *testing.T) {
	svc := service("default", "reviews", "10.0.0.1")
	r := routeTo("default", "a", RouteParent{Service: svc.Key})
	r.Rules[0].Matches = []route.Match{{Path: route.PathMatch{Kind: route.PathRegex, Value: "("}}}
	table := built(gateway(), svc, r).Services[svc.Key].Port(80).Routes.HTTP
	if rule, _, ok := table.Match(&route.Request{Method: "GET", Path: "/"}); !ok || rule.Invalid == "" {
		t.Errorf("requests follow %+v", rule)
	}
}

// many makes services with pods and routes: routes/services routes for each.
func many(services, routes int) (b *Builder, keys []string) {
	b = NewBuilder(new(Store))
	b.Set(gateway())
	for i := range services {
		s := service("default", fmt.Sprint("s", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		keys = append(keys, s.Key)
		b.Set(s)
		for k := range 4 {
			b.Set(pod(fmt.Sprintf("p%d-%d", i, k), fmt.Sprintf("10.%d.%d.%d", 100+k, i/250, i%250), s.Key))
		}
	}
	for i := range routes {
		b.Set(numbered(i, keys[i%services]))
	}
	b.Publish()
	return b, keys
}

func numbered(i int, service string) *RouteSpec {
	r := routeTo("default", fmt.Sprint("r", i), RouteParent{Service: service, Port: 80})
	r.Rules[0].Matches = []route.Match{{Path: route.PathMatch{Kind: route.PathPrefix, Value: fmt.Sprint("/p", i)}}}
	r.Rules[0].Backends = []route.Backend{{Service: service, Port: 80, Weight: 90}, {Service: service, Port: 80, Weight: 10}}
	return r
}

// BenchmarkPublish is one edit: at most 5 ms are wanted among 5,000 routes on
// 500 services.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []struct{ services, routes int }{{500, 5000}, {1, 5000}, {5000, 5000}} {
		name := fmt.Sprintf("services=%d/routes=%d", size.services, size.routes)
		b.Run("edit=route/"+name, func(b *testing.B) {
			builder, keys := many(size.services, size.routes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				builder.Set(numbered(i%size.routes, keys[i%size.routes%size.services]))
				builder.Publish()
			}
		})
		b.Run("edit=pod/"+name, func(b *testing.B) {
			builder, keys := many(size.services, size.routes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				builder.Set(pod("p0-0", "10.100.0.0", keys[0]))
				builder.Publish()
			}
		})
	}
}

func TestPartKeys(t *testing.T) {
	seen := make(map[Key]bool)
	for _, p := range []Part{
		gateway(), service("a", "b", ""), pod("a", "10.0.0.1"), routeTo("a", "b"),
		routeTo("a", "b").with(func(r *RouteSpec) { r.Type = TCPRoute }), policyFor("a", "b"),
	} {
		if key := p.PartKey(); seen[key] {
			t.Errorf("two parts have the key %v", key)
		} else {
			seen[key] = true
		}
	}
	tcp := routeTo("a", "b").with(func(r *RouteSpec) { r.Type = TCPRoute })
	if got := tcp.Object(); got != "TCPRoute a/b" {
		t.Errorf("a route is named %q, not as its author names it", got)
	}
}
