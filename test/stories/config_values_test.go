package stories

import (
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/app"
)

// What stands in a filter is sent as one value or not at all: it cannot end the
// line, or the path, that it stands in.
func TestConfigValuesCannotSplit(t *testing.T) {
	const lines = `"a\r\nx-evil: 1"`
	for name, filter := range map[string]string{
		"a header's value":    "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: " + lines + "}]}}",
		"a header's name":     "{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: " + lines + ", value: a}]}}",
		"NUL in a value":      `{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: "a\0b"}]}}`,
		"a response's value":  "{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-a, value: " + lines + "}]}}",
		"a path":              "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: " + strings.Replace(lines, "a", "/a", 1) + "}}}",
		"a path with a query": "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: \"/a?admin=1\"}}}",
		"a path with a space": `{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: "/a HTTP/1.1"}}}`,
		"a host":              "{type: URLRewrite, urlRewrite: {hostname: " + lines + "}}",
		"a redirect's host":   "{type: RequestRedirect, requestRedirect: {hostname: " + lines + "}}",
		"a redirect's path":   "{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: " + strings.Replace(lines, "a", "/a", 1) + "}}}",
		"an origin":           `{type: CORS, cors: {allowOrigins: ["https://a.example"], allowHeaders: [` + lines + `]}}`,
	} {
		w := newTown(t, meshRoute("HTTPRoute", "r", "prod", "name: echo-v1", prefixed("/", filter, toPod("echo-v1"))), nil)
		got := w.speak("OPTIONS /x HTTP/1.1\r\nHost: echo-v1\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n")
		if len(got.statuses) != 1 || got.statuses[0] != 500 || len(got.reached) != 0 {
			t.Errorf("%s: %v, %v", name, got.statuses, got.told())
		}
		if log := w.wp.Log.String(); !strings.Contains(log, "HTTPRoute prod/r: spec.rules[0].filters[0]") {
			t.Errorf("%s: the log does not say what is wrong:\n%s", name, log)
		}
	}
}

// Regular expressions have a size, in what is written and in what it stands for.
func TestConfigRegularExpressionsAreBounded(t *testing.T) {
	for name, expression := range map[string]string{
		"long":     strings.Repeat("a", 5000),
		"repeated": "((a{100}){100}){100}",
	} {
		w := newTown(t, meshRoute("HTTPRoute", "r", "prod", "name: echo-v1", matching(`headers: [{type: RegularExpression, name: x-a, value: "`+expression+`"}]`, "echo-v1")), nil)
		w.check(call{to: name}, w.send(call{to: "echo-v1/"}), want{status: 500, app: "none"})
		w.check(call{to: name}, w.send(call{to: "echo-v2/"}), want{app: "echo-v2"})
	}
}

// Whatever a client sends, a request is one line of the log.
func TestAttackAccessLog(t *testing.T) {
	w := newTown(t, "", func(o *app.Options) { o.AccessLog = "text" })
	const evil = "\" 200 - \"-\" x\x1b[31m\\n\tinjected"
	got := w.speak("GET /x%0A[2026-01-01] HTTP/1.1\r\nHost: echo-v1\r\nUser-Agent: " + evil + "\r\nX-Request-Id: one\xe2\x80\xaetwo\r\nX-Forwarded-For: " + evil + "\r\n\r\n")
	if len(got.statuses) != 1 || got.statuses[0] != 400 && got.statuses[0] != 200 {
		t.Fatalf("%v", got.statuses)
	}
	w.Eventually("the line is written", func() bool { return strings.HasSuffix(w.wp.AccessLog.String(), "\n") })
	log := w.wp.AccessLog.String()
	if n := strings.Count(log, "\n"); n != 1 || strings.ContainsAny(log, "\x1b\t\r") || strings.Contains(log, "\u202e") {
		t.Errorf("%d lines: %q", n, log)
	}
}
