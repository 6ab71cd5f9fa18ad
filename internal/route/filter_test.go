package route

import (
	"fmt"
	"testing"
	"time"
)

// TestReplacePrefixMatch is the table at HTTPPathModifier.replacePrefixMatch.
func TestReplacePrefixMatch(t *testing.T) {
	for _, tt := range []struct{ path, prefix, value, want string }{
		{"/foo/bar", "/foo", "/xyz", "/xyz/bar"},
		{"/foo/bar", "/foo", "/xyz/", "/xyz/bar"},
		{"/foo/bar", "/foo/", "/xyz", "/xyz/bar"},
		{"/foo/bar", "/foo/", "/xyz/", "/xyz/bar"},
		{"/foo", "/foo", "/xyz", "/xyz"},
		{"/foo/", "/foo", "/xyz", "/xyz/"},
		{"/foo/bar", "/foo", "", "/bar"},
		{"/foo/", "/foo", "", "/"},
		{"/foo", "/foo", "", "/"},
		{"/foo/", "/foo", "/", "/"},
		{"/foo", "/foo", "/", "/"},
		{"/foo/bar", "/", "/xyz", "/xyz/foo/bar"},
		{"/", "/", "/xyz", "/xyz/"},
		{"*", "/", "/xyz", "*"},
	} {
		m := prefix(tt.prefix)
		if got := (&PathRewrite{Value: tt.value}).Apply(tt.path, &m); got != tt.want {
			t.Errorf("%s with %s replaced by %q: %s, want %s", tt.path, tt.prefix, tt.value, got, tt.want)
		}
	}
	if got := (&PathRewrite{Full: true, Value: "new"}).Apply("/old/x", &Match{}); got != "/new" {
		t.Error(got)
	}
	if got := (*PathRewrite)(nil).Apply("/old", &Match{}); got != "/old" {
		t.Error(got)
	}
	if got := (&PathRewrite{Value: "/x"}).Apply("/old", &Match{}); got != "/x/old" {
		t.Error(got)
	}
}

func TestLocation(t *testing.T) {
	called := Called{Scheme: "http", Host: "echo:8080", Port: 8080, Path: "/a/b", Query: "q=1"}
	for _, tt := range []struct {
		name     string
		redirect Redirect
		called   Called
		want     string
	}{
		{"nothing but the status", Redirect{}, called, "http://echo:8080/a/b?q=1"},
		{"host", Redirect{Hostname: "example.org"}, called, "http://example.org:8080/a/b?q=1"},
		{"scheme: its well-known port, which is left out", Redirect{Scheme: "https"}, called, "https://echo/a/b?q=1"},
		{"scheme and port", Redirect{Scheme: "https", Port: 8443}, called, "https://echo:8443/a/b?q=1"},
		{"https on 80 is not well known", Redirect{Scheme: "https", Port: 80}, called, "https://echo:80/a/b?q=1"},
		{"port 80 is left out", Redirect{Port: 80}, called, "http://echo/a/b?q=1"},
		{"called on port 80", Redirect{Hostname: "x"}, Called{Scheme: "http", Host: "echo", Port: 80, Path: "/"}, "http://x/"},
		{"the port in Host is not looked at", Redirect{}, Called{Scheme: "http", Host: "echo:9", Port: 80, Path: "/"}, "http://echo/"},
		{"path", Redirect{Path: &PathRewrite{Value: "/x"}}, called, "http://echo:8080/x/b?q=1"},
		{"full path", Redirect{Path: &PathRewrite{Full: true, Value: "/x"}}, called, "http://echo:8080/x?q=1"},
		{"IPv6", Redirect{}, Called{Scheme: "http", Host: "[::1]:8080", Port: 8080, Path: "/"}, "http://[::1]:8080/"},
	} {
		m := prefix("/a")
		if got := tt.redirect.Location(tt.called, &m); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestHeaderModifierString(t *testing.T) {
	h := &HeaderModifier{Response: true, Set: []Field{{"a", "1"}}, Add: []Field{{"b", "2"}}, Remove: []string{"c"}}
	if got := h.String(); got != "response headers: set a: 1, add b: 2, remove c" {
		t.Error(got)
	}
}

func TestOrigins(t *testing.T) {
	for _, tt := range []struct {
		pattern, origin string
		want            bool
	}{
		{"*", "https://a", true},
		{"*", "", false},
		{"https://a.com", "https://a.com", true},
		{"https://a.com", "HTTPS://A.com", true},
		{"https://a.com", "http://a.com", false},
		{"https://a.com", "https://a.com:8443", false},
		{"https://*.a.com", "https://x.a.com", true},
		{"https://*.a.com", "https://x.y.a.com", true},
		{"https://*.a.com", "https://a.com", false},
		{"https://*.a.com", "https://.a.com", false},
		{"https://*.a.com", "https://evil.com/x.a.com", false},
		{"https://*.a.com", "https://xa.com", false},
		{"https://*.a.com:8443", "https://x.a.com:8443", true},
		{"https://*", "https://x", true},
		{"https://*", "https://x:8443", false},
		{"https://*", "http://x", false},
		{"https://a.com", "", false},
	} {
		if got := (&CORS{AllowOrigins: []string{tt.pattern}}).AllowsOrigin(tt.origin); got != tt.want {
			t.Errorf("%s allows %s: %v, want %v", tt.pattern, tt.origin, got, tt.want)
		}
	}
}

func TestCORS(t *testing.T) {
	preflight := []Field{{"origin", "https://a.com"}, {"access-control-request-method", "PUT"}, {"access-control-request-headers", "x-a, x-b"}}
	if !IsPreflight("OPTIONS", preflight) || IsPreflight("GET", preflight) || IsPreflight("OPTIONS", preflight[:1]) {
		t.Error("IsPreflight")
	}
	for _, tt := range []struct {
		name      string
		cors      CORS
		preflight string
		response  string
	}{
		{
			"any origin without credentials",
			CORS{AllowOrigins: []string{"*"}, AllowMethods: []string{"*"}, AllowHeaders: []string{"*"}, ExposeHeaders: []string{"*"}, MaxAge: 5 * time.Second},
			"[{access-control-allow-origin *} {access-control-allow-methods *} {access-control-allow-headers *} {access-control-max-age 5}]",
			"[{access-control-allow-origin *} {access-control-expose-headers *}]",
		},
		{
			"any origin with credentials is named, as what is asked for",
			CORS{AllowOrigins: []string{"*"}, AllowCredentials: true, AllowMethods: []string{"*"}, AllowHeaders: []string{"*"}, ExposeHeaders: []string{"*"}},
			"[{access-control-allow-origin https://a.com} {vary Origin} {access-control-allow-credentials true} {access-control-allow-methods PUT} {access-control-allow-headers x-a, x-b}]",
			"[{access-control-allow-origin https://a.com} {vary Origin} {access-control-allow-credentials true}]",
		},
		{
			"lists",
			CORS{AllowOrigins: []string{"https://b.com", "https://a.com"}, AllowMethods: []string{"GET", "PUT"}, ExposeHeaders: []string{"x-a", "x-b"}},
			"[{access-control-allow-origin https://a.com} {vary Origin} {access-control-allow-methods GET, PUT}]",
			"[{access-control-allow-origin https://a.com} {vary Origin} {access-control-expose-headers x-a, x-b}]",
		},
		{"another origin", CORS{AllowOrigins: []string{"https://b.com"}, AllowMethods: []string{"GET"}}, "[{vary Origin}]", "[{vary Origin}]"},
	} {
		if got := fmt.Sprint(tt.cors.AppendPreflight(nil, preflight)); got != tt.preflight {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.preflight)
		}
		if got := fmt.Sprint(tt.cors.AppendResponse([]Field{{"access-control-allow-origin", "app"}}, "https://a.com")); got != tt.response {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.response)
		}
	}
}
