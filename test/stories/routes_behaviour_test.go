package stories

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

func mirrorTo(pod, more string) string {
	return "{type: RequestMirror, requestMirror: {backendRef: " + toPod(pod) + more + "}}"
}

// Mirrors get copies, whole, in the share that was asked for; their answers go
// nowhere, and a mirror that is not there costs nothing.
func TestMirrors(t *testing.T) {
	w := newTown(t, meshRoute("HTTPRoute", "mirrors", "prod", "name: echo",
		prefixed("/all", mirrorTo("echo-v2", ""), toPod("echo-v1"))+", "+
			prefixed("/some", mirrorTo("echo-v2", ", percent: 20"), toPod("echo-v1"))+", "+
			prefixed("/fraction", mirrorTo("echo-v2", ", fraction: {numerator: 1, denominator: 2}"), toPod("echo-v1"))+", "+
			prefixed("/none", mirrorTo("echo-v2", ", percent: 0"), toPod("echo-v1"))+", "+
			prefixed("/missing", mirrorTo("nowhere", ""), toPod("echo-v1"))+", "+
			prefixed("/twice", mirrorTo("echo-v2", "")+", "+mirrorTo("echo-v1", ""), toPod("echo-v1"))), nil)
	mirrored := func(path string) (n int) {
		for _, r := range w.http["echo-v2"].Requests() {
			if strings.HasPrefix(r.Target, path) {
				n++
			}
		}
		return n
	}
	c := call{to: "echo/all?q=1", method: "PUT", body: strings.Repeat("body ", 5000), headers: "x-a: b"}
	w.check(c, w.send(c), want{app: "echo-v1", target: "/all?q=1"})
	w.Eventually("the copy has come", func() bool { return mirrored("/all") == 1 })
	w.Eventually("the copy has its body", func() bool { return w.http["echo-v2"].Requests()[0].Length == int64(len(c.body)) })
	copied := w.http["echo-v2"].Requests()[0]
	if copied.Method != "PUT" || copied.Target != "/all?q=1" || copied.Get("x-a") != "b" || string(copied.Body) != c.body {
		t.Errorf("the copy differs: %s %s %v, %d bytes", copied.Method, copied.Target, copied.Header, copied.Length)
	}

	// A mirror that fails or hangs is nobody's trouble.
	w.http["echo-v2"].Handle(func(x *meshtest.Exchange) { x.Close() })
	w.check(call{}, w.send(call{to: "echo/all"}), want{app: "echo-v1"})
	w.http["echo-v2"].Handle(nil)
	w.check(call{}, w.send(call{to: "echo/missing"}), want{app: "echo-v1"})

	const n = 300
	for _, path := range []string{"/some", "/fraction", "/none"} {
		for app, share := range shares(n, func() string {
			a, err := w.attempt(call{to: "echo" + path})
			if err != nil {
				return err.Error()
			}
			return a.app.App
		}) {
			if app != "echo-v1" {
				t.Errorf("%s: a share of %v got %s", path, share, app)
			}
		}
	}
	for path, want := range map[string][2]int{"/some": {n / 10, n * 3 / 10}, "/fraction": {n * 4 / 10, n * 6 / 10}, "/none": {0, 0}} {
		w.Eventually("enough copies of "+path, func() bool { return mirrored(path) >= want[0] })
		if got := mirrored(path); got > want[1] {
			t.Errorf("%s: %d copies of %d, want at most %d", path, got, n, want[1])
		}
	}
	before := mirrored("/twice")
	w.check(call{}, w.send(call{to: "echo/twice"}), want{app: "echo-v1"})
	w.Eventually("both mirrors", func() bool {
		n := 0
		for _, r := range w.http["echo-v1"].Requests() {
			if r.Target == "/twice" {
				n++
			}
		}
		return n == 2 && mirrored("/twice") == before+1
	})
}

// CORS as the Fetch standard has it.
func TestCORS(t *testing.T) {
	cors := func(fields string) string { return "{type: CORS, cors: {" + fields + "}}" }
	w := newTown(t, meshRoute("HTTPRoute", "cors", "prod", "name: echo",
		prefixed("/list", cors(`allowOrigins: ["https://www.foo.com", "https://*.bar.com"], allowMethods: [GET, PUT], allowHeaders: [x-a, x-b], exposeHeaders: [x-c], maxAge: 3600`), toPod("echo-v1"))+", "+
			prefixed("/any", cors(`allowOrigins: ["*"], allowMethods: ["*"], allowHeaders: ["*"]`), toPod("echo-v1"))+", "+
			prefixed("/credentials", cors(`allowOrigins: ["*"], allowCredentials: true, allowMethods: ["*"], allowHeaders: ["*"]`), toPod("echo-v1"))), nil)
	preflight := func(origin string) string {
		return "origin: " + origin + " | access-control-request-method: PUT | access-control-request-headers: x-a, x-z"
	}
	w.expect([]expectation{
		{
			"preflight",
			call{to: "echo/list", method: "OPTIONS", headers: preflight("https://www.foo.com")},
			want{app: "none", sent: "access-control-allow-origin: https://www.foo.com | access-control-allow-methods: GET, PUT | access-control-allow-headers: x-a, x-b | access-control-max-age: 3600 | vary: Origin"},
		},
		{"preflight from a subdomain", call{to: "echo/list", method: "OPTIONS", headers: preflight("https://x.bar.com")}, want{app: "none", sent: "access-control-allow-origin: https://x.bar.com"}},
		{"preflight from elsewhere", call{to: "echo/list", method: "OPTIONS", headers: preflight("https://evil.com")}, want{app: "none", sent: "access-control-allow-origin: | access-control-allow-methods:"}},
		{"suffix games", call{to: "echo/list", method: "OPTIONS", headers: preflight("https://evil.com/.bar.com")}, want{app: "none", sent: "access-control-allow-origin:"}},
		{"request", call{to: "echo/list", headers: "origin: https://www.foo.com"}, want{app: "echo-v1", sent: "access-control-allow-origin: https://www.foo.com | access-control-expose-headers: x-c | vary: Origin"}},
		{"request from elsewhere is the browser's to refuse", call{to: "echo/list", headers: "origin: https://evil.com"}, want{app: "echo-v1", sent: "access-control-allow-origin:"}},
		{"no origin", call{to: "echo/list"}, want{app: "echo-v1", sent: "access-control-allow-origin:"}},
		{"OPTIONS that is no preflight", call{to: "echo/list", method: "OPTIONS", headers: "origin: https://www.foo.com"}, want{app: "echo-v1", method: "OPTIONS"}},
		{"any origin", call{to: "echo/any", method: "OPTIONS", headers: preflight("https://z.com")}, want{app: "none", sent: "access-control-allow-origin: * | access-control-allow-methods: * | access-control-allow-headers: *"}},
		{
			"credentials never go with *",
			call{to: "echo/credentials", method: "OPTIONS", headers: preflight("https://z.com")},
			want{app: "none", sent: "access-control-allow-origin: https://z.com | access-control-allow-credentials: true | access-control-allow-methods: PUT | access-control-allow-headers: x-a, x-z"},
		},
	})
	w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
		x.Reply(200, "", meshtest.Field{Name: "Access-Control-Allow-Origin", Value: "*"}, meshtest.Field{Name: "Access-Control-Allow-Credentials", Value: "true"})
	})
	w.check(call{}, w.send(call{to: "echo/list", headers: "origin: https://www.foo.com"}), want{sent: "access-control-allow-origin: https://www.foo.com | access-control-allow-credentials:"})
}

// Timeouts of rules: of the whole request, of one attempt, and grpc-timeout.
func TestRouteTimeouts(t *testing.T) {
	timed := func(prefix, timeouts string) string {
		return "{matches: [{path: {type: PathPrefix, value: " + prefix + "}}], timeouts: {" + timeouts + "}, backendRefs: [" + toPod("echo-v1") + "]}"
	}
	w := newTown(t, meshRoute("HTTPRoute", "timed", "prod", "name: echo",
		timed("/request", "request: 300ms")+", "+timed("/backend", "request: 2s, backendRequest: 300ms")+", "+timed("/none", "request: 0s")), nil)
	release := make(chan struct{})
	w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
		select {
		case <-release:
		case <-time.After(patience):
		}
		meshtest.Tell(x)
	})
	for path, details := range map[string]string{"/request": "response_timeout", "/backend": "upstream_per_try_timeout"} {
		start := time.Now()
		c := call{to: "echo" + path}
		a := w.send(c)
		w.check(c, a, want{status: 504, app: "none"})
		if took := time.Since(start); took < 300*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("%s: answered after %v", path, took)
		}
		entry := w.entry(a)
		if entry["response_flags"] != "UT" || entry["response_code_details"] != details {
			t.Errorf("%s: %v %v", path, entry["response_flags"], entry["response_code_details"])
		}
	}
	done := make(chan answer, 1)
	w.Go(func(context.Context) { done <- w.send(call{to: "echo/none"}) })
	w.Eventually("the request is at the application", func() bool { return len(w.http["echo-v1"].Requests()) == 3 })
	select {
	case a := <-done:
		t.Errorf("0s is no timeout, but there was an answer: %d", a.status)
	case <-time.After(400 * time.Millisecond): // longer than the other rules have
	}
	close(release)
	w.check(call{}, <-done, want{app: "echo-v1"})
}

// HTTPRoute retries: the codes that are listed, as often as is said, with the
// body each time.
func TestRouteRetries(t *testing.T) {
	w := newTown(t, meshRoute("HTTPRoute", "retries", "prod", "name: echo",
		"{matches: [{path: {type: PathPrefix, value: /retry}}], retry: {codes: [503], attempts: 2, backoff: 10ms}, backendRefs: ["+toPod("echo-v1")+"]}, "+
			"{matches: [{path: {type: PathPrefix, value: /plain}}], backendRefs: ["+toPod("echo-v1")+"]}"), nil)
	var failures atomic.Int64
	w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
		if failures.Add(-1) >= 0 {
			io.Copy(io.Discard, x) // the body is to be on record when the answer is there
			x.Reply(503, "not now")
			return
		}
		meshtest.Tell(x)
	})
	for _, tt := range []struct {
		path     string
		failures int64
		status   int
		requests int
	}{{"/retry", 1, 200, 2}, {"/retry", 2, 200, 3}, {"/retry", 3, 503, 3}, {"/plain", 1, 503, 1}} {
		before := len(w.http["echo-v1"].Requests())
		failures.Store(tt.failures)
		c := call{to: "echo" + tt.path, method: "POST", body: "the body"}
		a := w.send(c)
		w.check(c, a, want{status: tt.status})
		if tt.status == 503 && a.body != "not now" {
			t.Errorf("%s: the answer is not the application's: %q", tt.path, a.body)
		}
		requests := w.http["echo-v1"].Requests()[before:]
		if len(requests) != tt.requests {
			t.Errorf("%s with %d failures: %d requests, want %d", tt.path, tt.failures, len(requests), tt.requests)
		}
		for _, r := range requests {
			if string(r.Body) != "the body" {
				t.Errorf("%s: a body of %q", tt.path, r.Body)
			}
		}
		if entry := w.entry(a); entry["retries"] != float64(tt.requests-1) && tt.requests > 1 {
			t.Errorf("%s: the access log has %v retries", tt.path, entry["retries"])
		}
	}
}
