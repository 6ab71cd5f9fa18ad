package stories

import "testing"

// prefixed is a rule for a path prefix, with one filter and, unless that answers,
// a backend.
func prefixed(prefix, filter string, backends ...string) string {
	refs := ""
	for i, b := range backends {
		if i > 0 {
			refs += ", "
		}
		refs += b
	}
	return "{matches: [{path: {type: PathPrefix, value: " + prefix + "}}], filters: [" + filter + "], backendRefs: [" + refs + "]}"
}

func redirect(fields string) string {
	return "{type: RequestRedirect, requestRedirect: {" + fields + "}}"
}

// Redirects of the conformance suite, which asserts their status alone.
func TestRedirects(t *testing.T) {
	rules := ""
	for _, rule := range []string{
		prefixed("/hostname", redirect("hostname: example.org")),
		prefixed("/status", redirect("statusCode: 301")),
		prefixed("/host-and-status", redirect("hostname: example.org, statusCode: 301")),
		prefixed("/scheme", redirect("scheme: https")),
		prefixed("/scheme-and-host", redirect("scheme: https, hostname: example.org, statusCode: 301")),
		prefixed("/port", redirect("port: 8083")),
		prefixed("/port-and-host", redirect("port: 8083, hostname: example.org, statusCode: 301")),
		prefixed("/scheme-and-port", redirect("scheme: https, port: 443")),
		prefixed("/original-prefix", redirect("path: {type: ReplacePrefixMatch, replacePrefixMatch: /replacement-prefix}")),
		prefixed("/to-root", redirect("path: {type: ReplacePrefixMatch, replacePrefixMatch: /}")),
		prefixed("/full", redirect("path: {type: ReplaceFullPath, replaceFullPath: /full-path-replacement}")),
		prefixed("/full-path-and-host", redirect("hostname: example.org, path: {type: ReplaceFullPath, replaceFullPath: /replacement-full}")),
		prefixed("/path-and-host", redirect("hostname: example.org, path: {type: ReplacePrefixMatch, replacePrefixMatch: /replacement-prefix}")),
		prefixed("/path-and-status", redirect("statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /replacement-prefix}")),
	} {
		rules += rule + ", "
	}
	w := newTown(t, meshRoute("HTTPRoute", "redirects", "prod", "name: echo", rules)+
		meshRoute("HTTPRoute", "codes", "prod", "name: echo", prefixed("/see-other", redirect("statusCode: 303"))+", "+
			prefixed("/temporary", redirect("statusCode: 307"))+", "+prefixed("/permanent", redirect("statusCode: 308"))), nil)
	for _, tt := range []struct {
		to       string
		status   int
		location string
	}{
		{"echo/hostname", 302, "http://example.org/hostname"},
		{"echo/hostname/and?q=1&r=%2F", 302, "http://example.org/hostname/and?q=1&r=%2F"},
		{"echo/status", 301, "http://echo/status"},
		{"echo/host-and-status", 301, "http://example.org/host-and-status"},
		{"echo/scheme", 302, "https://echo/scheme"},
		{"echo:8080/scheme", 302, "https://echo/scheme"},
		{"echo/scheme-and-host", 301, "https://example.org/scheme-and-host"},
		{"echo/port", 302, "http://echo:8083/port"},
		{"echo/port-and-host", 301, "http://example.org:8083/port-and-host"},
		{"echo/scheme-and-port", 302, "https://echo/scheme-and-port"},
		{"echo:8080/hostname", 302, "http://example.org:8080/hostname"},
		{"echo/original-prefix", 302, "http://echo/replacement-prefix"},
		{"echo/original-prefix/lemon?x=y", 302, "http://echo/replacement-prefix/lemon?x=y"},
		{"echo/original-prefix/", 302, "http://echo/replacement-prefix/"},
		{"echo/to-root", 302, "http://echo/"},
		{"echo/to-root/one", 302, "http://echo/one"},
		{"echo/full", 302, "http://echo/full-path-replacement"},
		{"echo/full/path?q", 302, "http://echo/full-path-replacement?q"},
		{"echo/full-path-and-host", 302, "http://example.org/replacement-full"},
		{"echo/path-and-host/a", 302, "http://example.org/replacement-prefix/a"},
		{"echo/path-and-status/a", 301, "http://echo/replacement-prefix/a"},
		{"echo/see-other", 303, "http://echo/see-other"},
		{"echo/temporary", 307, "http://echo/temporary"},
		{"echo/permanent", 308, "http://echo/permanent"},
		{"echo/hostname-not", 404, ""},
		{"echo//hostname//x", 302, "http://example.org/hostname/x"},
		{"echo/hostname/%0d%0aset-cookie:x", 302, "http://example.org/hostname/%0D%0Aset-cookie:x"},
	} {
		c := call{to: tt.to}
		w.check(c, w.send(c), want{status: tt.status, location: tt.location, app: "none"})
	}
	a := w.send(call{to: "echo/hostname", method: "POST", body: "a body that nobody reads"})
	w.check(call{}, a, want{status: 302, location: "http://example.org/hostname", app: "none"})
	entry := w.entry(a)
	for key, value := range map[string]any{"response_code": 302.0, "response_code_details": "direct_response", "upstream_host": nil, "response_flags": nil} {
		if entry[key] != value {
			t.Errorf("access log: %s is %v, want %v", key, entry[key], value)
		}
	}
}
