package stories

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// MeshGRPCRouteRequestHeaderModifier, and the rest of what a GRPCRoute can match.
func TestGRPCRoute(t *testing.T) {
	caseOf := func(name, filters string) string {
		return "{matches: [{headers: [{name: x-test-case, value: " + name + "}]}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {" + filters + "}}], backendRefs: [" + toGRPC("echo-v2") + "]}"
	}
	w := newTown(t, meshRoute("GRPCRoute", "modifier", "prod", "name: echo-v2",
		caseOf("set", "set: [{name: X-Header-Set, value: s}]")+", "+
			caseOf("add", "add: [{name: X-Header-Add, value: add-appends-values}]")+", "+
			caseOf("remove", "remove: [X-Header-Remove]"))+
		meshRoute("GRPCRoute", "methods", "prod", "name: echo, port: 7070", `
			{matches: [{method: {service: shop.Cart, method: Add}}], backendRefs: [`+toGRPC("echo-v1")+`]},
			{matches: [{method: {service: shop.Cart}}], backendRefs: [`+toGRPC("echo-v2")+`]},
			{matches: [{method: {method: Ping}}], backendRefs: [`+toGRPC("echo-v1")+`]},
			{matches: [{method: {type: RegularExpression, service: "^wire\\.v[0-9]+$"}}], backendRefs: [`+toGRPC("echo-v1")+`]},
			{matches: [{method: {service: shop.Cart, method: Add}, headers: [{name: tenant, value: blue}]}], backendRefs: [`+toGRPC("echo-v2")+`]}`), nil)
	for _, who := range []string{"prod/client", "prod/echo-v2"} {
		conn := w.as(who).GRPC(w.wp.Addr, vipOf("echo-v2:7070"))
		for _, tt := range []struct {
			md   []string
			name string
			want []string
		}{
			{[]string{"x-test-case", "set", "x-header-set", "other"}, "x-header-set", []string{"s"}},
			{[]string{"x-test-case", "add", "x-header-add", "other"}, "x-header-add", []string{"other", "add-appends-values"}},
			{[]string{"x-test-case", "remove", "x-header-remove", "val"}, "x-header-remove", nil},
		} {
			if got := echoOnce(conn, "/any.Service/Method", tt.md...); got != "echo-v2" {
				t.Fatalf("%v: %s", tt.md, got)
			}
			calls := w.grpc["echo-v2"].Calls()
			// gRPC applications see lines joined by commas, or one by one.
			got := strings.Join(calls[len(calls)-1].Metadata.Get(tt.name), ",")
			if got != strings.Join(tt.want, ",") {
				t.Errorf("%v: the application has %s %q, want %q", tt.md, tt.name, got, tt.want)
			}
		}
	}
	conn := w.stage.client.GRPC(w.wp.Addr, vipOf("echo:7070"))
	for _, tt := range []struct {
		method string
		md     []string
		want   string
	}{
		{"/shop.Cart/Add", nil, "echo-v1"},
		{"/shop.Cart/Add", []string{"tenant", "blue"}, "echo-v2"},
		{"/shop.Cart/List", nil, "echo-v2"},
		{"/other.Service/Ping", nil, "echo-v1"},
		{"/wire.v12/Any", nil, "echo-v1"},
		{"/wire.v12x/Any", nil, codes.Unimplemented.String()},
		{"/shop.Carts/Add", nil, codes.Unimplemented.String()},
		{"/shop.cart/Add", nil, codes.Unimplemented.String()},
	} {
		if got := echoOnce(conn, tt.method, tt.md...); got != tt.want {
			t.Errorf("%s %v: %s, want %s", tt.method, tt.md, got, tt.want)
		}
	}
}

// HTTPRoute and GRPCRoute on one port: what has a gRPC content type asks
// GRPCRoutes first, all else only HTTPRoutes.
func TestGRPCBesideHTTP(t *testing.T) {
	w := newTown(t, meshRoute("GRPCRoute", "rpc", "prod", "name: echo, port: 7070", "{matches: [{method: {service: shop.Cart}}], backendRefs: ["+toGRPC("echo-v1")+"]}")+
		meshRoute("HTTPRoute", "web", "prod", "name: echo, port: 7070", "{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: ["+toGRPC("echo-v2")+"]}"), nil)
	conn := w.stage.client.GRPC(w.wp.Addr, vipOf("echo:7070"))
	for method, want := range map[string]string{"/shop.Cart/Add": "echo-v1", "/shop.Other/Add": "echo-v2"} {
		if got := echoOnce(conn, method); got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
	before := len(w.grpc["echo-v1"].Calls())
	a := w.send(call{to: "echo:7070/shop.Cart/Add", method: "POST", headers: "content-type: text/plain", h2c: true})
	if a.status != 415 || len(w.grpc["echo-v1"].Calls()) != before { // which is what grpc-go says to a browser
		t.Errorf("status %d; a request that is not gRPC took a GRPCRoute", a.status)
	}
}

// gRPC is told in its own terms: trailers-only, always HTTP status 200.
func TestGRPCAnswersOfOurs(t *testing.T) {
	w := newTown(t, meshRoute("GRPCRoute", "rpc", "prod", "name: echo", "{matches: [{method: {service: shop.Cart}}], backendRefs: ["+toGRPC("nowhere")+"]}"), nil)
	for _, tt := range []struct{ path, code string }{{"shop.Cart/Add", "14"}, {"shop.Other/Add", "12"}} {
		c := call{to: "echo:7070/" + tt.path, method: "POST", headers: "content-type: application/grpc | te: trailers", body: "\x00\x00\x00\x00\x00", h2c: true}
		a := w.send(c)
		w.check(c, a, want{status: 200, app: "none", sent: "content-type: application/grpc | grpc-status: " + tt.code})
		if len(a.trailer) != 0 || a.body != "" {
			t.Errorf("%s: not trailers-only: %q, %v", tt.path, a.body, a.trailer)
		}
		if got := w.entry(a); got["grpc_status"] != tt.code {
			t.Errorf("the access log has grpc_status %v, want %s", got["grpc_status"], tt.code)
		}
	}
	if n := w.metric("istio_requests_total", `grpc_response_status="12"`, `destination_service="echo.prod.svc.cluster.local"`); n != 1 {
		t.Errorf("%v requests were counted with grpc status 12", n)
	}
}

// A rule's filters and a server's stream both ways go together.
func TestGRPCStreams(t *testing.T) {
	w := newTown(t, meshRoute("GRPCRoute", "rpc", "prod", "name: echo", "{backendRefs: ["+toGRPC("echo-v1")+"]}"), nil)
	conn := w.stage.client.GRPC(w.wp.Addr, vipOf("echo:7070"))
	stream := openGRPC(t, conn, "/shop.Cart/Watch")
	for _, message := range []string{"one", "two", strings.Repeat("three", 20000)} {
		stream.say(message)
		if got := stream.hear(); got != message {
			t.Fatalf("heard %.20q of %d bytes, want %.20q", got, len(got), message)
		}
	}
	stream.end()
	if _, err := stream.next(); err != io.EOF { // grpc returns it bare
		t.Errorf("the end: %v", err)
	}
	if app := stream.Trailer().Get("x-app"); !slices.Equal(app, []string{"echo-v1"}) {
		t.Errorf("trailers from %v", app)
	}
}

// rpc is a stream of messages both ways.
type rpc struct {
	grpc.ClientStream
	t *testing.T
}

func openGRPC(t *testing.T, conn *grpc.ClientConn, method string) *rpc {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, meshtest.Raw())
	if err != nil {
		t.Fatal(err)
	}
	return &rpc{s, t}
}

func (r *rpc) say(message string) {
	r.t.Helper()
	p := []byte(message)
	if err := r.SendMsg(&p); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rpc) next() (string, error) {
	var p []byte
	err := r.RecvMsg(&p)
	return string(p), err
}

func (r *rpc) hear() string {
	r.t.Helper()
	message, err := r.next()
	if err != nil {
		r.t.Fatal(err)
	}
	return message
}

func (r *rpc) end() {
	r.t.Helper()
	if err := r.CloseSend(); err != nil {
		r.t.Fatal(err)
	}
}
