package stories

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// spoken is what came of bytes that were sent as they are on one stream.
type spoken struct {
	statuses []int // of the responses that came back
	bodies   []string
	end      error              // of the stream; nil: a clean end
	reached  []meshtest.Request // what the application was told
}

// speak sends raw to Service echo-v1, whose only pod is echo-v1, ends the
// client's direction and reads to the end.
func (w *town) speak(raw string) (s spoken) {
	w.t.Helper()
	return w.speakTo("10.0.0.2:80", raw, true)
}

// speakTo does so to any target; with closes, the client's direction ends.
func (w *town) speakTo(to, raw string, closes bool) (s spoken) {
	w.t.Helper()
	before := len(w.http["echo-v1"].Requests())
	c := w.open(to)
	defer c.Close()
	io.WriteString(c, raw) // it may be cut while we write: what comes back tells
	if closes {
		c.Conn.(interface{ CloseWrite() error }).CloseWrite() // as above
	}
	for {
		method := "GET"
		if strings.HasPrefix(raw, "HEAD ") {
			method = "HEAD"
		}
		resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				s.end = err
			}
			break
		}
		body, err := io.ReadAll(resp.Body)
		s.statuses = append(s.statuses, resp.StatusCode)
		s.bodies = append(s.bodies, string(body))
		if err != nil {
			s.end = err
			break
		}
	}
	s.reached = w.http["echo-v1"].Requests()[before:]
	return s
}

// told is what the application was told, in short: "METHOD target".
func (s spoken) told() (lines []string) {
	for _, r := range s.reached {
		lines = append(lines, r.Method+" "+r.Target)
	}
	return lines
}

// One form of a path for policy, route, log and application. A policy denies what
// begins with /admin, and no spelling gets there.
func TestAttackPaths(t *testing.T) {
	w := newTown(t, policyOn("Service echo-v1", "p", "prod", "DENY", to(`paths: ["/admin", "/admin/*"]`)), nil)
	for raw, want := range map[string]string{ // the status, and with 200 the path at the application
		"/admin": "403", "/admin/": "403", "/admin/x": "403", "/admin?x": "403", "/administrator": "200 /administrator",
		"//admin": "403", "///admin//x": "403", "/./admin": "403", "/x/../admin": "403", "/x/..//admin": "403",
		"/%61dmin": "403", "/%61%64%6d%69%6e": "403", "/a%64min%2e": "200 /admin.", "/x/%2e%2e/admin": "403", "/x/%2E%2E/admin": "403", "/x/.%2e/admin": "403",
		"/x/..;/admin": "403", "/x/..;a=b/admin": "403", "/x/%2e%2e;x/admin": "403", "/;/admin": "200 /;/admin",
		`/x\..\admin`: "403", `\admin`: "400", `/\admin`: "403", `/x/..\admin`: "403",
		"/admin%2Fx": "200 /admin%2Fx", "/admin%2fx": "200 /admin%2Fx", "/x%2F..%2Fadmin": "200 /x%2F..%2Fadmin", "/admin%5Cx": "200 /admin%5Cx", "/admin%5cx": "200 /admin%5Cx",
		"/admin%00": "400", "/%00admin": "400", "/admin%": "400", "/admin%2": "400", "/admin%zz": "400", "/%2500": "200 /%2500",
		"/admin#x": "400", "/x#/../admin": "400", "/x?a#b": "400", "/x\x00": "400", "/x\x7f": "400", "/x\ty": "400", "/x?\x01": "400",
		"admin": "400", "": "400", "?x": "400", "*": "400", "x:80": "400", "/x y": "400",
		"/admin%3Fx": "200 /admin%3Fx", "/admin;x": "200 /admin;x", "/é": "200 /%C3%A9", "/\xff": "200 /%FF",
		"/..": "200 /", "/../../..": "200 /", "/x/.": "200 /x/", "/x/..": "200 /", "/%7Euser": "200 /~user",
		"http://echo-v1/admin": "403", "http://ECHO-v1/x/../admin": "403", "http://echo-v1": "200 /", "http://echo-v1/x?y": "200 /x?y",
		"http://other/": "400", "http://user@echo-v1/": "400", "ftp://echo-v1/": "400", "http:///x": "400", "//echo-v1/admin": "200 /echo-v1/admin",
		"http://echo-v1?x": "400", "http://echo-v1#x": "400",
	} {
		got := w.speak("GET " + raw + " HTTP/1.1\r\nHost: echo-v1\r\n\r\n")
		seen := "no answer"
		if len(got.statuses) == 1 {
			seen = fmt.Sprint(got.statuses[0])
		}
		for _, r := range got.reached {
			seen += " " + r.Target
		}
		if seen != want {
			t.Errorf("%q: %s, want %s", raw, seen, want)
		}
	}
}

// The same through HTTP/2, where nothing cuts a request line.
func TestAttackPathsOverHTTP2(t *testing.T) {
	w := newTown(t, policyOn("Service echo-v1", "p", "prod", "DENY", to(`paths: ["/admin", "/admin/*"]`)), nil)
	for path, want := range map[string]string{
		"/admin": "403", "//admin": "403", "/x/%2e%2e/admin": "403", `\admin`: "400", "/x": "200 /x",
		"admin": "400", "": "400", "*": "400", "/x#y": "400", "/x y": "400", "/x HTTP/1.1\r\nhost: y": "400", "/%00": "400", "http://echo-v1/admin": "400", "?x": "400",
	} {
		before := len(w.http["echo-v1"].Requests())
		inner := w.innerH2("10.0.0.2:80")
		status := inner.ask([]meshtest.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "echo-v1"}, {Name: ":path", Value: path}}, "")
		for _, r := range w.http["echo-v1"].Requests()[before:] {
			status += " " + r.Target
		}
		inner.Close()
		// Whether what is malformed is answered or reset is HTTP/2's choice (RFC 9113 8.1.1).
		if status != want && !(want == "400" && status == "RST PROTOCOL_ERROR") {
			t.Errorf("%q: %s, want %s", path, status, want)
		}
	}
}

// Hosts: one, and the same wherever it is said.
func TestAttackHosts(t *testing.T) {
	w := newTown(t, policyOn("Service echo-v1", "p", "prod", "DENY", to(`hosts: [secret.example]`)), nil)
	for head, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: echo-v1":                                                          "200 echo-v1",
		"GET / HTTP/1.1\r\nHost: secret.example":                                                   "403",
		"GET / HTTP/1.1\r\nHost: SECRET.Example":                                                   "403",
		"GET / HTTP/1.1\r\nHost: echo-v1\r\nHost: echo-v1":                                         "400",
		"GET / HTTP/1.1\r\nHost: echo-v1\r\nHost: secret.example":                                  "400",
		"GET / HTTP/1.1\r\nHost: secret.example\r\nhost : echo-v1":                                 "400",
		"GET / HTTP/1.1\r\nX: y":                                                                   "400",
		"GET / HTTP/1.1\r\nHost:":                                                                  "400",
		"GET / HTTP/1.1\r\nHost: a b":                                                              "400",
		"GET / HTTP/1.1\r\nHost: user@echo-v1":                                                     "400",
		"GET / HTTP/1.1\r\nHost: echo-v1/admin":                                                    "400",
		"GET / HTTP/1.1\r\nHost: echo-v1, secret.example":                                          "400",
		"GET http://secret.example/ HTTP/1.1\r\nHost: echo-v1":                                     "400",
		"GET http://secret.example/ HTTP/1.1\r\nHost: secret.example":                              "403",
		"GET http://echo-v1/ HTTP/1.1\r\nHost: echo-v1:80":                                         "400",
		"GET / HTTP/1.1\r\nHost: echo-v1\r\nX-Forwarded-Host: secret.example":                      "200 echo-v1",
		"GET / HTTP/1.1\r\nHost: echo-v1\r\nX_Forwarded_Host: secret.example":                      "200 echo-v1",
		"GET / HTTP/1.1\r\nHost: [::1]:80":                                                         "200 [::1]:80",
		"CONNECT echo-v1:80 HTTP/1.1\r\nHost: echo-v1:80":                                          "400",
		"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80":                          "400",
		"GET / HTTP/1.1\r\nHost: echo-v1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings": "400",
	} {
		got := w.speak(head + "\r\n\r\n")
		seen := "no answer"
		if len(got.statuses) == 1 {
			seen = fmt.Sprint(got.statuses[0])
		}
		for _, r := range got.reached {
			seen += " " + r.Host
		}
		if strings.HasPrefix(head, "CONNECT") && len(got.reached) == 0 && len(got.statuses) == 1 && got.statuses[0] >= 400 {
			continue // refused, whatever the number
		}
		if seen != want {
			t.Errorf("%q: %s, want %s", head, seen, want)
		}
	}
}

// Fields that a client may not say, or not in this way, and those that it cannot
// have removed.
func TestAttackHeaders(t *testing.T) {
	w := newTown(t, "", nil)
	const from = "spiffe://cluster.local/ns/prod/sa/client"
	for _, tt := range []struct {
		name, lines string
		want        map[string]string // joined values at the application
	}{
		{"x-forwarded-for is appended to", "X-Forwarded-For: 1.2.3.4\r\n", map[string]string{"x-forwarded-for": "1.2.3.4, 127.0.0.1"}},
		{"to the last line", "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n", map[string]string{"x-forwarded-for": "1.2.3.4|5.6.7.8, 127.0.0.1"}},
		{"x-forwarded-client-cert is ours", "X-Forwarded-Client-Cert: By=x;URI=spiffe://cluster.local/ns/admin/sa/root\r\nx-forwarded-client-cert: more\r\n", map[string]string{"x-forwarded-client-cert": "By=spiffe://cluster.local/ns/default/sa/waypoint;URI=" + from}},
		{"Connection cannot remove what we add", "Connection: x-forwarded-for, x-forwarded-client-cert, x-request-id, x-mine\r\nX-Mine: 1\r\n", map[string]string{"x-forwarded-for": "127.0.0.1", "x-forwarded-client-cert": "By=spiffe://cluster.local/ns/default/sa/waypoint;URI=" + from, "x-mine": ""}},
		{
			"aliases with underscores are dropped", "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Client-Cert: URI=evil\r\nx_request_id: 1\r\nX_Forwarded_Proto: https\r\nx_envoy_original_path: /admin\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\n",
			map[string]string{"x_forwarded_for": "", "x-forwarded_client-cert": "", "x_request_id": "", "x_forwarded_proto": "", "x_envoy_original_path": "", "content_length": "", "transfer_encoding": ""},
		},
		{"other underscores are nobody's business", "My_Header: 1\r\n", map[string]string{"my_header": "1"}},
		{"what steers an Envoy", "X-Envoy-Original-Path: /admin\r\nx-envoy-internal: true\r\nX-Envoy-Upstream-Rq-Timeout-Ms: 1\r\nx-envoy-retry-on: 5xx\r\n", map[string]string{"x-envoy-original-path": "", "x-envoy-internal": "", "x-envoy-upstream-rq-timeout-ms": "", "x-envoy-retry-on": ""}},
		{"hop by hop", "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers, deflate\r\nProxy-Authenticate: x\r\n", map[string]string{"keep-alive": "", "proxy-connection": ""}},
		{"Upgrade to what we do not carry", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n", map[string]string{"upgrade": "", "http2-settings": "", "connection": ""}},
		{"the application's own baggage and x-forwarded-proto stay", "baggage: k8s.namespace.name=evil\r\nX-Forwarded-Proto: https\r\n", map[string]string{"baggage": "k8s.namespace.name=evil", "x-forwarded-proto": "https"}},
	} {
		got := w.speak("GET / HTTP/1.1\r\nHost: echo-v1\r\n" + tt.lines + "\r\n")
		if !slices.Equal(got.statuses, []int{200}) || len(got.reached) != 1 {
			t.Errorf("%s: %v, %d requests", tt.name, got.statuses, len(got.reached))
			continue
		}
		for name, want := range tt.want {
			if seen := strings.Join(got.reached[0].Values(name), "|"); seen != want {
				t.Errorf("%s: %s is %q at the application, want %q", tt.name, name, seen, want)
			}
		}
	}
	line := w.logLine(func(line map[string]any) bool { return line["x_forwarded_for"] == "1.2.3.4" })
	if got, _ := line["downstream_remote_address"].(string); !strings.HasPrefix(got, "127.0.0.1:") || line["source_principal"] != from {
		t.Errorf("the log believes what the client says: %v", line)
	}
}

// Bytes above ASCII do not get a value past a rule (CVE-2026-73552).
func TestAttackObsText(t *testing.T) {
	w := newTown(t, policyOn("Service echo-v1", "p", "prod", "DENY", when("request.headers[x-role]", `values: ["admin*"]`))+
		meshRoute("HTTPRoute", "r", "prod", "name: echo-v1", matching(`headers: [{type: RegularExpression, name: x-kind, value: "a.*"}]`, "echo-v1")+", "+leadsTo("/", "echo-v1")), nil)
	for lines, want := range map[string]int{"X-Role: admin\xff": 403, "X-Role: \xffadmin": 200, "X-Kind: a\xff\xfe": 200, "X-Role: adm\xc3\xafn": 200} {
		if got := w.speak("GET / HTTP/1.1\r\nHost: echo-v1\r\n" + lines + "\r\n\r\n"); !slices.Equal(got.statuses, []int{want}) {
			t.Errorf("%q: %v, want %d", lines, got.statuses, want)
		}
	}
}

// Heads that never end, byte by byte, hold one stream each and nothing else.
func TestAttackSlowHeads(t *testing.T) {
	w := newTown(t, "", nil)
	var slow []*conversation
	for range 50 {
		c := w.open("10.0.0.2:80")
		c.say("GET / HTTP/1.1\r\nHost: echo-v1\r\n")
		slow = append(slow, c)
	}
	for i := range 20 {
		for _, c := range slow {
			c.say(fmt.Sprintf("X-%d: y\r\n", i))
		}
		start := time.Now()
		w.check(call{}, w.send(call{to: "echo-v1/"}), want{})
		if took := time.Since(start); took > time.Second {
			t.Errorf("another client waited %v", took)
		}
	}
	for _, c := range slow {
		c.Close()
	}
}
