package route

import (
	"errors"
	"strings"
	"testing"
)

func TestNormalizePath(t *testing.T) {
	for in, want := range map[string]string{
		"/": "/", "/a/b": "/a/b", "/a/b/": "/a/b/", "/a;v=1/b,c": "/a;v=1/b,c", "/.well-known/x": "/.well-known/x", "/a..b/...": "/a..b/...",

		// RFC 3986 section 5.2.4
		"/a/b/c/./../../g": "/a/g", "/mid/content=5/../6": "/mid/6", "/./a": "/a", "/a/.": "/a/", "/a/..": "/", "/a/./": "/a/", "/a/../": "/",
		"/..": "/", "/../../a": "/a", "/a/b/..": "/a/",
		// Section 6.2.2: unreserved decoded, digits in upper case, the rest kept.
		"/%61%2D%7e": "/a-~", "/%2e%2E/x": "/x", "/a/%2e": "/a/", "/%c3%a9": "/%C3%A9", "/%20%3f%23%25": "/%20%3F%23%25",
		"/%252e%252e/x": "/%252e%252e/x", "/a%2fb": "/a%2Fb", "/a%5cb": "/a%5Cb", "/..%2fx": "/..%2Fx", "/%41": "/A",
		// Slashes.
		"//": "/", "//admin": "/admin", "/a//b///c": "/a/b/c", `/a\b`: "/a/b", `\a`: "/a", `/a\..\b`: "/b", `/\/a`: "/a", "/a//": "/a/", "/a//../b": "/b",
		// Parameters at dot segments.
		"/a/..;x/b": "/b", "/a/.;/b": "/a/b", "/a/..;": "/", "/a/%2e%2e;a=b/b": "/b", "/a;x/..": "/", "/..;/..;/x": "/x",
		// Not ASCII.
		"/caf\xc3\xa9": "/caf%C3%A9", "/\xff": "/%FF",
	} {
		got, err := NormalizePath(in)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		"": ErrTargetForm, "a": ErrTargetForm, "*": ErrTargetForm, "http://x/": ErrTargetForm, "%2f": ErrTargetForm,
		"/a#b": ErrTargetChar, "/a b": ErrTargetChar, "/a\x00": ErrTargetChar, "/a\r\n": ErrTargetChar, "/a\x7f": ErrTargetChar, "/a/../\t": ErrTargetChar,
		"/%": ErrTargetEscape, "/%2": ErrTargetEscape, "/%zz": ErrTargetEscape, "/%%32%65": ErrTargetEscape, "/%u002e": ErrTargetEscape,
		"/%00": ErrTargetEscape0, "/a%00.html": ErrTargetEscape0,
	} {
		if got, err := NormalizePath(in); !errors.Is(err, want) {
			t.Errorf("%q: %q, %v, want %v", in, got, err, want)
		}
	}
}

func TestNormalizeTarget(t *testing.T) {
	for _, tt := range []struct {
		method, target, path, query string
		err                         error
	}{
		{"GET", "/a/../b?x=/../y?z", "/b", "x=/../y?z", nil},
		{"GET", "/a?", "/a", "", nil},
		{"OPTIONS", "*", "*", "", nil},
		{"GET", "*", "", "", ErrTargetForm},
		{"GET", "?x", "", "", ErrTargetForm},
		{"GET", "/a?b#c", "", "", ErrTargetChar},
		{"GET", "/a?b c", "", "", ErrTargetChar},
		{"GET", "/health%3Fx=1", "/health%3Fx=1", "", nil},
	} {
		path, query, err := NormalizeTarget(tt.method, tt.target)
		if !errors.Is(err, tt.err) || err == nil && (path != tt.path || query != tt.query) {
			t.Errorf("%s %q: %q %q %v", tt.method, tt.target, path, query, err)
		}
	}
	if JoinTarget("/a", "") != "/a" || JoinTarget("/a", "b") != "/a?b" {
		t.Error("JoinTarget")
	}
}

func TestNormalizePattern(t *testing.T) {
	for in, want := range map[string]string{
		"/a*": "/a*", "*/caf\xc3\xa9": "*/caf%C3%A9", "/a%2fb*": "/a%2Fb*", "/%61": "/a", `\x`: "/x", "/100%": "/100%", "/{*}/{**}": "/{*}/{**}",
	} {
		if got := NormalizePattern(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, s := range []string{"/a/../b", `/\..;x/%2e%2E/%2f`, "//a/./b%41", "/\xff%ff", "/a;b/..;c/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := NormalizePath(in)
		if err != nil {
			return
		}
		if again, err := NormalizePath(out); err != nil || again != out {
			t.Fatalf("%q: %q, and again: %q, %v", in, out, again, err)
		}
		if !strings.HasPrefix(out, "/") || strings.ContainsAny(out, "\\#? \x00") && !strings.Contains(in, "?") || strings.Contains(out, "//") {
			t.Fatalf("%q: %q", in, out)
		}
		for seg := range strings.SplitSeq(out, "/") {
			if name, _, _ := strings.Cut(seg, ";"); name == "." || name == ".." {
				t.Fatalf("%q: a dot segment is left in %q", in, out)
			}
		}
		if i := strings.Index(strings.ToLower(out), "%2e"); i >= 0 {
			t.Fatalf("%q: an escaped dot is left in %q", in, out)
		}
	})
}

func TestNormalizeHost(t *testing.T) {
	for in, want := range map[string]string{
		"a.b": "a.b", "A.B:80": "a.b", "a.b.": "a.b", "[::1]:80": "[::1]", "[FE80::1]": "[fe80::1]", "": "", "10.0.0.1:8080": "10.0.0.1", "a.:1": "a",
	} {
		if got := NormalizeHost(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzMatch feeds a request of any strings to a table with something in every
// place: nothing panics, and Match and Explain agree.
func FuzzMatch(f *testing.F) {
	table := newTable(f, rules(
		exact("/a/b"), prefix("/a").header("x", "1"), prefix("/a").query("q", "1"), regex("/c.*"), grpc("s", "m"), grpc("", "m"),
		grpcRegex("s.*", ""), prefix("/").headerRegex("x", ".+"), prefix("/").method("PUT")))
	f.Add("GET", "/a/b", "q=1&x", "x", "1", "1")
	f.Add("", "", "%", "", "\xff", "")
	f.Fuzz(func(t *testing.T, method, path, query, name, value1, value2 string) {
		r := &Request{Method: method, Path: path, Query: query, Headers: []Field{{name, value1}, {name, value2}}}
		rule, _, ok := table.Match(r)
		tried, _ := table.Explain(r)
		if ok && tried[len(tried)-1].Rule != rule.Name {
			t.Fatalf("rule %s, explained %+v", rule.Name, tried)
		}
		for _, e := range tried {
			if !ok && e.Why == "" {
				t.Fatalf("no rule, but explained %+v", e)
			}
		}
	})
}
