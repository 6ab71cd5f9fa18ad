package stories

import (
	"testing"
)

// headerFilters are the rules of the conformance suite's tests of header
// modifiers, as filters of a rule or of its backend.
func headerFilters(kind string) string {
	field := map[string]string{"RequestHeaderModifier": "requestHeaderModifier", "ResponseHeaderModifier": "responseHeaderModifier"}[kind]
	filter := func(what string) string { return "{type: " + kind + ", " + field + ": {" + what + "}}" }
	return "set: " + filter(`set: [{name: X-Header-Set, value: set-overwrites-values}]`) +
		"|add: " + filter(`add: [{name: X-Header-Add, value: add-appends-values}]`) +
		"|remove: " + filter(`remove: [X-Header-Remove]`) +
		"|multiple: " + filter(`set: [{name: X-Header-Set-1, value: s1}, {name: X-Header-Set-2, value: s2}], add: [{name: X-Header-Add-1, value: a1}, {name: X-Header-Add-2, value: a2}], remove: [X-Header-Remove-1, X-Header-Remove-2]`) +
		"|case: " + filter(`set: [{name: X-Header-SET, value: s}], add: [{name: x-HEADER-add, value: a}], remove: [x-HEADER-REMOVE]`)
}

// headerCases are what they must do to a message with the fields of before.
var headerCases = []struct{ path, before, after string }{
	{"set", "", "x-header-set: set-overwrites-values"},
	{"set", "x-header-set: some-other-value", "x-header-set: set-overwrites-values"},
	{"set", "x-header-set: one | x-header-set: two", "x-header-set: set-overwrites-values"},
	{"add", "", "x-header-add: add-appends-values"},
	{"add", "x-header-add: some-other-value", "x-header-add: some-other-value,add-appends-values"},
	{"remove", "x-header-remove: val | x-header-stay: 1", "x-header-remove: | x-header-stay: 1"},
	{
		"multiple", "x-header-set-2: 0 | x-header-add-2: 0 | x-header-remove-2: val | another: val",
		"x-header-set-1: s1 | x-header-set-2: s2 | x-header-add-1: a1 | x-header-add-2: 0,a2 | x-header-remove-1: | x-header-remove-2: | another: val",
	},
	{
		"case", "x-header-set: 0 | x-header-add: 0 | x-header-remove: val | another: val",
		"x-header-set: s | x-header-add: 0,a | x-header-remove: | another: val",
	},
}

// Header modifiers: MeshHTTPRouteRequestHeaderModifier and
// MeshHTTPRouteBackendRequestHeaderModifier of the conformance suite, and the same
// for responses.
func TestHeaderModifiers(t *testing.T) {
	for _, kind := range []string{"RequestHeaderModifier", "ResponseHeaderModifier"} {
		for _, on := range []string{"rule", "backend"} {
			t.Run(kind+" of a "+on, func(t *testing.T) {
				rules := ""
				for path, filter := range splitPairs(headerFilters(kind)) {
					if on == "rule" {
						rules += prefixed("/"+path, filter, toPod("echo-v1")) + ", "
					} else {
						rules += prefixed("/"+path, "", toPod("echo-v1", "filters: ["+filter+"]")) + ", "
					}
				}
				w := newTown(t, meshRoute("HTTPRoute", "headers", "prod", "name: echo", rules), nil)
				if kind == "ResponseHeaderModifier" {
					w.http["echo-v1"].Handle(answerWithFields)
				}
				for _, tt := range headerCases {
					for _, h2c := range []bool{false, true} {
						c := call{to: "echo/" + tt.path, headers: tt.before, h2c: h2c}
						if kind == "ResponseHeaderModifier" {
							w.check(c, w.send(c), want{sent: tt.after})
						} else {
							w.check(c, w.send(c), want{app: "echo-v1", seen: tt.after})
						}
					}
				}
			})
		}
	}
}

// What modifiers may and may not touch, and in which order they come.
func TestHeaderModifiersTogether(t *testing.T) {
	w := newTown(t, meshRoute("HTTPRoute", "headers", "prod", "name: echo",
		prefixed("/order", `{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: rule}, {name: x-b, value: rule}]}}`,
			toPod("echo-v1", `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: backend}], remove: [x-b]}}]`))+", "+
			prefixed("/shares", "",
				toPod("echo-v1", `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-share, value: one}]}}]`),
				toPod("echo-v2", `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-share, value: two}]}}]`)))+
		meshRoute("HTTPRoute", "framing", "prod", "name: echo-v1",
			prefixed("/hop", `{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Content-Length, value: "3"}]}}`, toPod("echo-v1"))), nil)
	w.expect([]expectation{
		{"backend after rule", call{to: "echo/order", headers: "x-b: mine"}, want{seen: "x-a: backend | x-b:"}},
		{"framing is not to be touched", call{to: "echo-v1/hop", method: "POST", body: "hello"}, want{status: 500, app: "none"}},
	})
	for range 20 {
		c := call{to: "echo/shares"}
		a := w.send(c)
		w.check(c, a, want{seen: "x-share: " + map[string]string{"echo-v1": "one", "echo-v2": "two"}[a.app.App]})
	}
}

// MeshHTTPRouteRewritePath, with the paths that the application saw, and rewrites
// of the host.
func TestRewrites(t *testing.T) {
	rewrite := func(what string) string { return "{type: URLRewrite, urlRewrite: {" + what + "}}" }
	w := newTown(t, meshRoute("HTTPRoute", "rewrites", "prod", "name: echo",
		prefixed("/prefix/one", rewrite("path: {type: ReplacePrefixMatch, replacePrefixMatch: /one}"), toPod("echo-v1"))+", "+
			prefixed("/strip-prefix", rewrite("path: {type: ReplacePrefixMatch, replacePrefixMatch: /}"), toPod("echo-v1"))+", "+
			prefixed("/full/one", rewrite("path: {type: ReplaceFullPath, replaceFullPath: /one}"), toPod("echo-v1"))+", "+
			prefixed("/full/rewrite-path-and-modify-headers", rewrite("path: {type: ReplaceFullPath, replaceFullPath: /test}")+`, {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Header-Set, value: s}], add: [{name: X-Header-Add, value: a}], remove: [X-Header-Remove]}}`, toPod("echo-v1"))+", "+
			prefixed("/host", rewrite("hostname: rewritten.example"), toPod("echo-v1"))+", "+
			prefixed("/both", rewrite("hostname: rewritten.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new/}"), toPod("echo-v1"))+", "+
			prefixed("/of-backend", "", toPod("echo-v1", "filters: ["+rewrite("hostname: backend.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}")+"]"))+", "+
			"{matches: [{path: {type: Exact, value: /exact}}], filters: ["+rewrite("path: {type: ReplaceFullPath, replaceFullPath: /elsewhere}")+"], backendRefs: ["+toPod("echo-v2")+"]}"), nil)
	w.expect([]expectation{
		{"prefix", call{to: "echo/prefix/one/two"}, want{target: "/one/two", host: "echo"}},
		{"prefix alone", call{to: "echo/prefix/one"}, want{target: "/one"}},
		{"query stays", call{to: "echo/prefix/one/x?q=%2Fa&b"}, want{target: "/one/x?q=%2Fa&b"}},
		{"escapes stay", call{to: "echo/prefix/one/a%2Fb%20c"}, want{target: "/one/a%2Fb%20c"}},
		{"strip", call{to: "echo/strip-prefix/three"}, want{target: "/three"}},
		{"strip all", call{to: "echo/strip-prefix"}, want{target: "/"}},
		{"strip with query", call{to: "echo/strip-prefix?x=1"}, want{target: "/?x=1"}},
		{"full", call{to: "echo/full/one/two?a=b"}, want{target: "/one?a=b"}},
		{
			"full and headers",
			call{to: "echo/full/rewrite-path-and-modify-headers/test", headers: "x-header-remove: 1 | x-header-add: 0"},
			want{target: "/test", seen: "x-header-set: s | x-header-add: 0,a | x-header-remove:"},
		},
		{"host", call{to: "echo/host"}, want{target: "/host", host: "rewritten.example"}},
		{"both", call{to: "echo/both/x"}, want{target: "/new/x", host: "rewritten.example"}},
		{"of the backend", call{to: "echo/of-backend/x"}, want{target: "/b/x", host: "backend.example"}},
		{"exact", call{to: "echo/exact"}, want{target: "/elsewhere", app: "echo-v2"}},
		{"HTTP/2", call{to: "echo/both/x", h2c: true}, want{target: "/new/x", host: "rewritten.example"}},
	})
	a := w.send(call{to: "echo/both/x?q"})
	if got := w.entry(a); got["path"] != "/both/x?q" || got["authority"] != "echo" {
		t.Errorf("the access log tells what was asked: path %v, authority %v", got["path"], got["authority"])
	}
}
