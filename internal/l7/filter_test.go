package l7

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestFilters(t *testing.T) {
	prefix := forward()
	prefix.Matches = []route.Match{{Path: route.PathMatch{Kind: route.PathPrefix, Value: "/old"}}}
	with := func(r route.Rule, f ...route.Filter) route.Rule {
		r.Filters = f
		return r
	}
	field := func(name, value string) []route.Field { return []route.Field{{Name: name, Value: value}} }
	tests := []struct {
		name     string
		rule     route.Rule
		request  string
		upstream []string // parts of the head that goes upstream; none: nothing does
		answer   []string // parts of the response
	}{
		{
			"request headers", with(prefix, &route.HeaderModifier{Set: field("x-a", "new"), Add: field("x-b", "2"), Remove: []string{"x-c"}}),
			"GET /old HTTP/1.1\r\nHost: e\r\nX-A: old\r\nX-B: 1\r\nX-C: 1\r\n\r\n",
			[]string{"X-A: new\r\n", "X-B: 1\r\n", "x-b: 2\r\n", "!X-C"},
			nil,
		},
		{
			"framing is not a filter's", with(prefix, &route.HeaderModifier{Set: field("content-length", "9"), Add: field("transfer-encoding", "x")}),
			"GET /old HTTP/1.1\r\nHost: e\r\n\r\n",
			[]string{"!ontent-", "!ransfer-"},
			nil,
		},
		{
			"response headers", with(prefix, &route.HeaderModifier{Response: true, Set: field("x-app", "new"), Remove: []string{"server"}}),
			"GET /old HTTP/1.1\r\nHost: e\r\n\r\n",
			[]string{"GET /old HTTP/1.1"},
			[]string{"X-App: new\r\n", "!erver"},
		},
		{
			"rewrite", with(prefix, &route.Rewrite{Hostname: "other", Path: &route.PathRewrite{Value: "/new"}}),
			"GET /old/x?q=1 HTTP/1.1\r\nHost: e\r\n\r\n",
			[]string{"GET /new/x?q=1 HTTP/1.1\r\nHost: other\r\n"},
			nil,
		},
		{
			"redirect", with(prefix, &route.Redirect{Hostname: "other", Status: 301, Path: &route.PathRewrite{Full: true, Value: "/new"}}),
			"GET /old/x?q=1 HTTP/1.1\r\nHost: e\r\n\r\n", nil,
			[]string{"HTTP/1.1 301 Moved", "location: http://other/new?q=1\r\n", "Content-Length: 0\r\n"},
		},
		{
			"CORS preflight", with(prefix, &route.CORS{AllowOrigins: []string{"https://a"}, AllowMethods: []string{"PUT"}}),
			"OPTIONS /old HTTP/1.1\r\nHost: e\r\nOrigin: https://a\r\nAccess-Control-Request-Method: PUT\r\n\r\n",
			nil,
			[]string{"HTTP/1.1 200 OK", "access-control-allow-origin: https://a\r\n", "access-control-allow-methods: PUT\r\n"},
		},
		{
			"CORS", with(prefix, &route.CORS{AllowOrigins: []string{"https://a"}, ExposeHeaders: []string{"x-app"}}),
			"GET /old HTTP/1.1\r\nHost: e\r\nOrigin: https://a\r\n\r\n",
			[]string{"Origin: https://a"},
			[]string{"access-control-allow-origin: https://a\r\n", "access-control-expose-headers: x-app\r\n", "X-App: 1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			heads := make(chan string, 1)
			r := newRig(t, task.Coroutines, scripted(heads, "HTTP/1.1 200 OK\r\nX-App: 1\r\nServer: app\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\n\r\n"))
			r.route(tt.rule)
			c := r.connect()
			_, _ = c.Write([]byte(tt.request))
			_ = c.CloseWrite()
			answer, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "answered", string(answer), tt.answer)
			if len(tt.upstream) == 0 {
				if len(heads) > 0 {
					t.Errorf("sent upstream %q", <-heads)
				}
				return
			}
			check(t, "sent upstream", <-heads, tt.upstream)
		})
	}
}

// check looks for parts in text, or for their absence after "!".
func check(t *testing.T, what, text string, parts []string) {
	t.Helper()
	for _, p := range parts {
		if absent, not := strings.CutPrefix(p, "!"); not == strings.Contains(text, absent) {
			t.Errorf("%s %q: %q", what, text, p)
		}
	}
}

func TestHeaders(t *testing.T) {
	heads := make(chan string, 1)
	r := newRig(t, task.Coroutines, scripted(heads, ok))
	c := r.connect()
	r.roundTrip(c, bufio.NewReader(c), "GET", "GET / HTTP/1.1\r\nHost: e\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX_Forwarded_For: 6.6.6.6\r\n"+
		"X-Envoy-Original-Path: /admin\r\nx_envoy_original_path: /admin\r\nX-Envoy-External-Address: 1.2.3.4\r\nTE: trailers, deflate\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\n"+
		"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings, X-Forwarded-Client-Cert, x-request-id\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n")
	check(t, "sent upstream", <-heads, []string{
		"X-Forwarded-For: 1.2.3.4, 10.0.9.9\r\n", "X-Forwarded-Proto: https\r\n", "!6.6.6.6", "!/admin", "X-Envoy-External-Address", "TE: trailers\r\n", "!deflate",
		"!Keep-Alive", "!roxy-", "!pgrade", "!h2c", "x-forwarded-client-cert: By=", "x-request-id: ", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-",
	})
}

func TestClientHeadersOff(t *testing.T) {
	heads := make(chan string, 1)
	r := newRig(t, task.Coroutines, scripted(heads, ok))
	r.fw.opts.ClientHeaders = false
	c := r.connect()
	r.roundTrip(c, bufio.NewReader(c), "GET", "GET / HTTP/1.1\r\nHost: e\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Client-Cert: x\r\n\r\n")
	check(t, "sent upstream", <-heads, []string{"X-Forwarded-For: 1.2.3.4\r\n", "!client-cert", "!Client-Cert"})
}

func TestDenied(t *testing.T) {
	tests := []struct {
		name, request string
		want          []string
	}{
		{"HTTP", "GET /secret HTTP/1.1\r\nHost: e\r\n\r\n", []string{"HTTP/1.1 403 Forbidden\r\n", "\r\n\r\naccess denied", "!policy", "!d/no"}},
		{"normalised", "GET /x/%2e%2e//secret HTTP/1.1\r\nHost: e\r\n\r\n", []string{"HTTP/1.1 403 Forbidden\r\n"}},
		{"gRPC", "POST /secret HTTP/1.1\r\nHost: e\r\nContent-Length: 0\r\nContent-Type: application/grpc+proto\r\n\r\n", []string{"HTTP/1.1 200 OK\r\n", "grpc-status: 7\r\n"}},
		{"preflight", "OPTIONS /secret HTTP/1.1\r\nHost: e\r\nOrigin: https://a\r\nAccess-Control-Request-Method: PUT\r\n\r\n", []string{"HTTP/1.1 403 Forbidden\r\n"}},
		{"body at hand", "POST /secret HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\nhiGET /open HTTP/1.1\r\nHost: e\r\n\r\n", []string{"HTTP/1.1 403 Forbidden\r\n", "\r\n\r\nok"}},
		{"body to come", "POST /secret HTTP/1.1\r\nHost: e\r\nContent-Length: 9\r\n\r\nhi", []string{"HTTP/1.1 403 Forbidden\r\n", "Connection: close\r\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, task.Coroutines, scripted(nil, ok))
			r.route(forward(&route.CORS{AllowOrigins: []string{"*"}}))
			r.deny("/secret")
			c := r.connect()
			_, _ = c.Write([]byte(tt.request))
			_ = c.CloseWrite()
			answer, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "answered", string(answer), tt.want)
			if f := r.flows(1)[0]; f.Policy != "d/no" || f.Flags != flow.Unauthorized || !strings.HasPrefix(f.Details, "rbac_access_denied_matched_policy") {
				t.Errorf("recorded policy %q, details %q", f.Policy, f.Details)
			}
		})
	}
}

func TestNoRoute(t *testing.T) {
	r := newRig(t, task.Coroutines, scripted(nil, ok))
	rule := forward()
	rule.Matches = []route.Match{{Path: route.PathMatch{Kind: route.PathExact, Value: "/only"}}}
	r.route(rule)
	c := r.connect()
	if res := r.roundTrip(c, bufio.NewReader(c), "GET", get); res.StatusCode != 404 {
		t.Errorf("answered %v", res)
	}
	if f := r.flows(1)[0]; f.Flags != flow.NoRoute || f.RouteName != "" {
		t.Errorf("recorded %v, route %q", f.Flags, f.RouteName)
	}
}

func TestMirror(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		got := make(chan string, 20)
		r := newRig(t, mode, httpApp(func(_ http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			got <- q.Method + " " + q.URL.Path + " " + string(body)
		}))
		key := r.port.Service.Key
		mirror := func(n uint32) route.Filter {
			return &route.Mirror{Backend: route.Backend{Service: key, Port: 80}, Numerator: n, Denominator: 100}
		}
		r.route(forward(mirror(100), mirror(0), mirror(100), &route.Mirror{Backend: route.Backend{Service: "no/such"}, Numerator: 1, Denominator: 1}))
		c := r.connect()
		r.roundTrip(c, bufio.NewReader(c), "POST", "POST /m HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\nhi")
		for i := range 3 {
			select {
			case request := <-got:
				if request != "POST /m hi" {
					t.Errorf("request %d is %q", i, request)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("%d requests of three", i)
			}
		}
		if n := len(r.flows(1)); n != 1 {
			t.Errorf("%d flows: copies are not recorded", n)
		}
	})
}

func TestMirrorIsNotCut(t *testing.T) {
	got := make(chan int, 20)
	r := newRig(t, task.Coroutines, httpApp(func(_ http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		got <- int(n)
	}))
	r.limit = 256 << 10
	r.route(forward(&route.Mirror{Backend: route.Backend{Service: r.port.Service.Key, Port: 80}, Numerator: 1, Denominator: 1}))
	c := r.connect()
	in := bufio.NewReader(c)
	for _, n := range []string{"70000", "3"} {
		size := map[string]int{"70000": 70000, "3": 3}[n]
		r.roundTrip(c, in, "POST", "POST /m HTTP/1.1\r\nHost: e\r\nContent-Length: "+n+"\r\n\r\n"+strings.Repeat("x", size))
	}
	sizes := []int{<-got, <-got, <-got}
	slices.Sort(sizes)
	if !slices.Equal(sizes, []int{3, 3, 70000}) {
		t.Errorf("bodies of %v", sizes)
	}
}
