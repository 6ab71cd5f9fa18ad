package stories

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// want is what must come of a call. Empty fields ask nothing.
type want struct {
	status   int    // default: 200
	app      string // who answered; "none": nobody may have been asked
	method   string // as it reached the application, as are:
	target   string
	host     string
	seen     string // "name: value | name: value"; lines of one name are joined by commas; without a value: it must not be there
	sent     string // the same of the response
	location string // of a redirect
}

// check compares.
func (w *town) check(c call, a answer, want want) {
	w.t.Helper()
	if want.status == 0 {
		want.status = http.StatusOK
	}
	who := a.app.App
	if who == "" {
		who = "none"
	}
	for _, v := range []struct{ what, got, want string }{
		{"status", fmt.Sprint(a.status), fmt.Sprint(want.status)},
		{"application", who, want.app},
		{"method", a.app.Method, want.method},
		{"target", a.app.Target, want.target},
		{"host", a.app.Host, want.host},
		{"location", a.header.Get("location"), want.location},
	} {
		if v.want != "" && v.got != v.want {
			w.t.Errorf("%+v: %s %q, want %q", c, v.what, v.got, v.want)
		}
	}
	w.checkHeader(c, "request", want.seen, a.app.Values)
	w.checkHeader(c, "response", want.sent, a.header.Values)
}

func (w *town) checkHeader(c call, of, lines string, values func(string) []string) {
	w.t.Helper()
	for _, f := range headerLines(lines) {
		if got := strings.Join(values(f.Name), ","); got != f.Value {
			w.t.Errorf("%+v: field %s of the %s is %q, want %q", c, f.Name, of, got, f.Value)
		}
	}
}

// expectation is one row of a table.
type expectation struct {
	name string
	call
	want
}

// expect makes the calls of a table.
func (w *town) expect(rows []expectation) {
	w.t.Helper()
	for _, row := range rows {
		whole := w.t
		whole.Run(row.name, func(t *testing.T) {
			w.t = t
			defer func() { w.t = whole }()
			w.check(row.call, w.send(row.call), row.want)
		})
	}
}

// meshRoute is a route of any kind whose parent is a Service of prod. parent and
// rules are YAML of the flow style.
func meshRoute(kind, name, namespace, parent, rules string) string {
	version := map[string]string{"HTTPRoute": "v1", "GRPCRoute": "v1", "TCPRoute": "v1", "TLSRoute": "v1"}[kind]
	return fmt.Sprintf(`
---
apiVersion: gateway.networking.k8s.io/%s
kind: %s
metadata: {name: %s, namespace: %s}
spec:
  parentRefs: [{group: "", kind: Service, namespace: prod, %s}]
  rules: [%s]
`, version, kind, name, namespace, parent, rules)
}

// toPod is a backendRefs entry.
func toPod(name string, more ...string) string {
	ref := "{name: " + name + ", namespace: prod, port: 8080"
	for _, m := range more {
		ref += ", " + m
	}
	return ref + "}"
}

// The rules of the mesh profile of the Gateway API's conformance suite, test by
// test, with what the suite does not look at asserted too: the target and host
// at the application, and the Location of redirects. The others of its tests are
// TestRedirects, TestHeaderModifiers, TestRewrites, TestHTTPRouteWeights,
// TestGRPCRouteWeights and TestGRPCRoute. MeshFrontend, MeshFrontendHostname,
// MeshPorts, MeshConsumerRoute and the redirects with 303, 307 and 308 are run by
// the suite and counted in no profile.
func TestConformanceMesh(t *testing.T) {
	for _, tt := range []struct {
		name   string
		routes string
		rows   []expectation
	}{
		{"MeshBasic", "", []expectation{
			{"plain", call{to: "echo/"}, want{target: "/", host: "echo"}},
			{"from another namespace", call{from: "consumer/client"}, want{}},
		}},
		{"MeshTrafficSplit", meshRoute("HTTPRoute", "split", "prod", "name: echo",
			"{matches: [{path: {type: Exact, value: /v1}}], backendRefs: ["+toPod("echo-v1")+"]}, {matches: [{path: {type: Exact, value: /v2}}], backendRefs: ["+toPod("echo-v2")+"]}"), []expectation{
			{"v1", call{to: "echo/v1"}, want{app: "echo-v1", target: "/v1"}},
			{"v2", call{to: "echo/v2"}, want{app: "echo-v2", target: "/v2"}},
			{"exact", call{to: "echo/v2/"}, want{status: 404, app: "none"}},
		}},
		{"MeshHTTPRouteSimpleSameNamespace", meshRoute("HTTPRoute", "simple", "prod", "name: echo, port: 80", "{backendRefs: ["+toPod("echo-v1")+"]}"), []expectation{
			{"everything", call{to: "echo/"}, want{app: "echo-v1"}},
			{"anything", call{to: "echo/any/thing?q=1", method: "PUT"}, want{app: "echo-v1", target: "/any/thing?q=1", method: "PUT"}},
		}},
		{"MeshHTTPRouteMatching", meshRoute("HTTPRoute", "matching", "prod", "name: echo", `
			{matches: [{path: {type: PathPrefix, value: /}}, {headers: [{name: version, value: one}]}], backendRefs: [`+toPod("echo-v1")+`]},
			{matches: [{path: {type: PathPrefix, value: /v2}}, {headers: [{name: version, value: two}]}], backendRefs: [`+toPod("echo-v2")+`]}`), []expectation{
			{"root", call{to: "echo/"}, want{app: "echo-v1"}},
			{"example", call{to: "echo/example"}, want{app: "echo-v1"}},
			{"version one", call{to: "echo/", headers: "Version: one"}, want{app: "echo-v1"}},
			{"v2", call{to: "echo/v2"}, want{app: "echo-v2"}},
			{"v2/", call{to: "echo/v2/"}, want{app: "echo-v2"}},
			{"v2/example", call{to: "echo/v2/example"}, want{app: "echo-v2", target: "/v2/example"}},
			{"version two", call{to: "echo/", headers: "Version: two"}, want{app: "echo-v2"}},
			{"segments", call{to: "echo/v2example"}, want{app: "echo-v1"}},
			{"foo/v2/example", call{to: "echo/foo/v2/example"}, want{app: "echo-v1"}},
		}},
		{"MeshHTTPRouteQueryParamMatching", meshRoute("HTTPRoute", "query", "prod", "name: echo", `
			{matches: [{queryParams: [{name: animal, value: whale}]}], backendRefs: [`+toPod("echo-v1")+`]},
			{matches: [{queryParams: [{name: animal, value: dolphin}]}], backendRefs: [`+toPod("echo-v2")+`]},
			{matches: [{queryParams: [{name: animal, value: dolphin}, {name: color, value: blue}]}, {queryParams: [{name: ANIMAL, value: Whale}]}], backendRefs: [`+toPod("echo-v1")+`]},
			{matches: [{path: {type: PathPrefix, value: /path1}, queryParams: [{name: animal, value: whale}]}], backendRefs: [`+toPod("echo-v2")+`]},
			{matches: [{headers: [{name: version, value: one}], queryParams: [{name: animal, value: whale}]}], backendRefs: [`+toPod("echo-v2")+`]},
			{matches: [{path: {type: PathPrefix, value: /path5}}], backendRefs: [`+toPod("echo-v2")+`]}`), []expectation{
			{"whale", call{to: "echo/?animal=whale"}, want{app: "echo-v1", target: "/?animal=whale"}},
			{"dolphin", call{to: "echo/?animal=dolphin"}, want{app: "echo-v2"}},
			{"and", call{to: "echo/?animal=dolphin&color=blue"}, want{app: "echo-v1"}},
			{"or", call{to: "echo/?ANIMAL=Whale"}, want{app: "echo-v1"}},
			{"path and query", call{to: "echo/path1?animal=whale"}, want{app: "echo-v2"}},
			{"header and query", call{to: "echo/?animal=whale", headers: "version: one"}, want{app: "echo-v2"}},
			{"path before query", call{to: "echo/path5?animal=whale"}, want{app: "echo-v2"}},
			{"no query", call{to: "echo/"}, want{status: 404, app: "none"}},
			{"another value", call{to: "echo/?animal=cat"}, want{status: 404, app: "none"}},
			{"another case", call{to: "echo/?Animal=whale"}, want{status: 404, app: "none"}},
			{"a prefix of the value", call{to: "echo/?animal=whales"}, want{status: 404, app: "none"}},
		}},
		{"MeshHTTPRouteNamedRule", meshRoute("HTTPRoute", "named", "prod", "name: echo",
			"{name: named-rule, matches: [{path: {type: PathPrefix, value: /named}}], backendRefs: ["+toPod("echo-v1")+"]}, {matches: [{path: {type: PathPrefix, value: /unnamed}}], backendRefs: ["+toPod("echo-v2")+"]}"), []expectation{
			{"named", call{to: "echo/named"}, want{app: "echo-v1"}},
			{"unnamed", call{to: "echo/unnamed"}, want{app: "echo-v2", target: "/unnamed"}},
		}},
		{"MeshFrontend", meshRoute("HTTPRoute", "frontend", "prod", "name: echo-v2", markResponses("echo-v2")), []expectation{
			{"through the Service", call{to: "echo-v2/"}, want{app: "echo-v2", sent: "x-header-set: yes"}},
			{"another Service of the same pod", call{to: "echo-v1/"}, want{app: "echo-v1", sent: "x-header-set:"}},
		}},
		{"MeshFrontendHostname", meshRoute("HTTPRoute", "frontend", "prod", "name: echo-v2", markResponses("echo-v2")), []expectation{
			{"another name in Host", call{to: "echo-v2/", host: "echo-v1"}, want{app: "echo-v2", host: "echo-v1", sent: "x-header-set: yes"}},
			{"this name on another address", call{to: "echo-v1/", host: "echo-v2"}, want{app: "echo-v1", host: "echo-v2", sent: "x-header-set:"}},
		}},
		{"MeshPorts", meshRoute("HTTPRoute", "on-80", "prod", "name: echo-v1, port: 80", markResponses("echo-v1")) +
			meshRoute("HTTPRoute", "on-all", "prod", "name: echo-v2", markResponses("echo-v2")), []expectation{
			{"the port", call{to: "echo-v1/"}, want{app: "echo-v1", sent: "x-header-set: yes"}},
			{"another port", call{to: "echo-v1:8080/"}, want{app: "echo-v1", sent: "x-header-set:"}},
			{"all ports: 80", call{to: "echo-v2/"}, want{app: "echo-v2", sent: "x-header-set: yes"}},
			{"all ports: 8080", call{to: "echo-v2:8080/"}, want{app: "echo-v2", sent: "x-header-set: yes"}},
		}},
		{"MeshConsumerRoute", meshRoute("HTTPRoute", "consumer", "consumer", "name: echo-v1", markResponses("echo-v1")), []expectation{
			{"the consumer", call{to: "echo-v1/", from: "consumer/client"}, want{app: "echo-v1", sent: "x-header-set: yes"}},
			{"the producer", call{to: "echo-v1/"}, want{app: "echo-v1", sent: "x-header-set:"}},
			{"a third one", call{to: "echo-v1/", from: "third/client"}, want{app: "echo-v1", sent: "x-header-set:"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newTown(t, tt.routes, nil).expect(tt.rows)
		})
	}
}

// markResponses is a rule that leads to a Service and marks what comes from it.
func markResponses(service string) string {
	return "{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Header-Set, value: \"yes\"}]}}], backendRefs: [" + toPod(service) + "]}"
}
