package stories

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// Smuggling, HTTP/1.1 in and out. For bytes that two parsers could read in two
// ways there is one outcome, and the application is told of no request that policy
// has not seen: /evil is denied.
func TestAttackRequestFraming(t *testing.T) {
	w := newTown(t, policyOn("Service echo-v1", "p", "prod", "DENY", to(`paths: ["/evil*"]`)), nil)
	const head = "POST /a HTTP/1.1\r\nHost: echo-v1\r\n"
	const evil = "GET /evil HTTP/1.1\r\nHost: echo-v1\r\n\r\n"
	for _, tt := range []struct {
		name, raw string
		statuses  []int
		told      []string
	}{
		{"length and chunks", head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil, []int{400}, nil},
		{"chunks and length", head + "Transfer-Encoding: chunked\r\nContent-Length: 100\r\n\r\n0\r\n\r\n" + evil, []int{400}, nil},
		{"two lengths", head + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + evil, []int{400}, nil},
		{"two lengths in one line", head + "Content-Length: 0, 44\r\n\r\n" + evil, []int{400}, nil},
		{"the same length twice", head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", []int{200}, []string{"POST /a"}},
		{"a signed length", head + "Content-Length: +2\r\n\r\nhi", []int{400}, nil},
		{"a negative length", head + "Content-Length: -1\r\n\r\n" + evil, []int{400}, nil},
		{"a hexadecimal length", head + "Content-Length: 0x2\r\n\r\nhi", []int{400}, nil},
		{"a huge length", head + "Content-Length: 18446744073709551617\r\n\r\nh", []int{400}, nil},
		{"an empty length", head + "Content-Length:\r\n\r\n" + evil, []int{400}, nil},
		{"a length in a folded line", head + "Content-Length:\r\n 44\r\n\r\n" + evil, []int{400}, nil},
		{"a name with a space", head + "Content-Length : 44\r\n\r\n" + evil, []int{400}, nil},
		{"a name with a tab", head + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", []int{400}, nil},
		{"a line without a colon", head + "Transfer-Encoding chunked\r\n\r\n", []int{400}, nil},
		{"a folded field", head + "X-A: b\r\n c\r\n\r\n", []int{400}, nil},
		{"a folded first line", "GET /a HTTP/1.1\r\n Host: echo-v1\r\n\r\n", []int{400}, nil},
		{"bare LF between lines", "GET /a HTTP/1.1\nHost: echo-v1\n\n", []int{400}, nil},
		{"bare LF in the end", "GET /a HTTP/1.1\r\nHost: echo-v1\r\n\n" + evil, []int{400}, nil},
		{"bare CR in a value", head + "X-A: b\rTransfer-Encoding: chunked\r\n\r\n", []int{400}, nil},
		{"NUL in a value", head + "X-A: b\x00c\r\n\r\n", []int{400}, nil},
		{"NUL in a name", head + "X\x00A: b\r\n\r\n", []int{400}, nil},
		{"a coding that is none", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + evil, []int{501}, nil},
		{"identity", head + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi", []int{400}, nil},
		{"gzip, chunked", head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", []int{501}, nil},
		{"chunked twice", head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", []int{501}, nil},
		{"two codings", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + evil, []int{400}, nil},
		{"a quoted coding", head + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", []int{501}, nil},
		{"a vertical tab", head + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", []int{400}, nil},
		{"chunks in HTTP/1.0", "POST /a HTTP/1.0\r\nHost: echo-v1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}, nil},
		{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", []int{200}, []string{"POST /a"}},
		{"CHUNKED", head + "Transfer-Encoding: CHUNKED\r\n\r\n2\r\nhi\r\n0\r\n\r\n", []int{200}, []string{"POST /a"}},
		{"bare LF in a chunk size", head + "Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"a chunk too long", head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhiX0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"a chunk size with a sign", head + "Transfer-Encoding: chunked\r\n\r\n+2\r\nhi\r\n0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"a chunk size with a space", head + "Transfer-Encoding: chunked\r\n\r\n2 \r\nhi\r\n0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"a chunk size that overflows", head + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nhi\r\n0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"a huge chunk extension", head + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 5000) + "\r\nhi\r\n0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"LF in a chunk extension", head + "Transfer-Encoding: chunked\r\n\r\n2;a\nb\r\nhi\r\n0\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"no end of the chunks", head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", nil, []string{"POST /a"}},
		{"pipelined, and judged one by one", "GET /1 HTTP/1.1\r\nHost: echo-v1\r\n\r\n" + evil + "GET /3 HTTP/1.1\r\nHost: echo-v1\r\n\r\n", []int{200, 403, 200}, []string{"GET /1", "GET /3"}},
		{"a body that looks like a request", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(evil)) + evil, []int{200}, []string{"POST /a"}},
		{"a GET with such a body", "GET /a HTTP/1.1\r\nHost: echo-v1\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(evil)) + evil, []int{200}, []string{"GET /a"}},
		{"a denied request with a body, then another", strings.Replace(head, "/a", "/evil", 1) + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(evil)) + evil + "GET /3 HTTP/1.1\r\nHost: echo-v1\r\n\r\n", []int{403, 200}, []string{"GET /3"}},
		{"HTTP/0.9", "GET /evil\r\n", nil, nil},
		{"HTTP/1.2", "GET /a HTTP/1.2\r\nHost: echo-v1\r\n\r\n", []int{505}, nil},
		{"HTTP/2.0 as HTTP/1", "GET /a HTTP/2.0\r\nHost: echo-v1\r\n\r\n", []int{505}, nil},
		{"a lower-case version", "GET /a http/1.1\r\nHost: echo-v1\r\n\r\n", []int{400}, nil},
		{"two spaces", "GET  /a HTTP/1.1\r\nHost: echo-v1\r\n\r\n", []int{400}, nil},
		{"a tab", "GET\t/a\tHTTP/1.1\r\nHost: echo-v1\r\n\r\n", []int{400}, nil},
		{"a method that is no token", "G(T /a HTTP/1.1\r\nHost: echo-v1\r\n\r\n", []int{400}, nil},
		{"a leading empty line", "\r\nGET /a HTTP/1.1\r\nHost: echo-v1\r\n\r\n", []int{200}, []string{"GET /a"}},
		{"trailers that may not be", head + "Transfer-Encoding: chunked\r\nTrailer: Host\r\n\r\n0\r\nHost: evil\r\nContent-Length: 5\r\nX-Ok: 1\r\n\r\n", []int{200}, []string{"POST /a"}},
		{"a trailer section that is none", head + "Transfer-Encoding: chunked\r\n\r\n0\r\nX\r\n\r\n", []int{400}, []string{"POST /a"}},
		{"HTTP/2 in the middle", "GET /a HTTP/1.1\r\nHost: echo-v1\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{200, 505}, []string{"GET /a"}},
	} {
		got := w.speak(tt.raw)
		if !equalOrRefused(got.statuses, tt.statuses) {
			t.Errorf("%s: %v %q, want %v", tt.name, got.statuses, got.bodies, tt.statuses)
		}
		told := got.told()
		if !slices.Contains(tt.statuses, 200) && len(told) == 0 {
			continue // not even begun: all the better
		}
		if !slices.Equal(told, tt.told) {
			t.Errorf("%s: the application was told %v, want %v", tt.name, told, tt.told)
		}
	}
	for _, app := range w.http {
		for _, r := range app.Requests() {
			if strings.HasPrefix(r.Target, "/evil") {
				t.Errorf("%s was reached: %+v", app.Name, r)
			}
			for _, f := range r.Trailer {
				if f.Name != "X-Ok" && f.Name != "x-ok" {
					t.Errorf("trailer %s was passed on", f.Name)
				}
			}
		}
	}
}

// equalOrRefused takes 400 and 501 for the same: both refuse.
func equalOrRefused(got, want []int) bool {
	refused := func(status int) int {
		if status == 501 || status == 505 {
			return 400
		}
		return status
	}
	return slices.EqualFunc(got, want, func(a, b int) bool { return refused(a) == refused(b) })
}

// HTTP/2 in, HTTP/1.1 out: what HTTP/2 can carry and HTTP/1.1 would read otherwise
// (CVE-2023-27491, CVE-2026-48743).
func TestAttackDowngrade(t *testing.T) {
	w := newTown(t, policyOn("Service echo-v1", "p", "prod", "DENY", to(`paths: ["/evil*"]`)), nil)
	field := func(name, value string) meshtest.Field { return meshtest.Field{Name: name, Value: value} }
	const protocolError = "RST PROTOCOL_ERROR"
	for _, tt := range []struct {
		name   string
		fields []meshtest.Field
		body   string
		want   string
		told   []string
	}{
		{"plain", h2Request("GET", "echo-v1", "/a"), "", "200", []string{"GET /a"}},
		{"a body without a length", h2Request("POST", "echo-v1", "/a"), "hello", "200", []string{"POST /a"}},
		{"the right length", h2Request("POST", "echo-v1", "/a", field("content-length", "5")), "hello", "200", []string{"POST /a"}},
		{"a length without a body", h2Request("POST", "echo-v1", "/a", field("content-length", "5")), "", protocolError, nil},
		{"too small a length", h2Request("POST", "echo-v1", "/a", field("content-length", "2")), "hello", protocolError, nil},
		{"too large a length", h2Request("POST", "echo-v1", "/a", field("content-length", "50")), "hello", protocolError, nil},
		{"two lengths", h2Request("POST", "echo-v1", "/a", field("content-length", "5"), field("content-length", "6")), "hello", protocolError, nil},
		{"transfer-encoding", h2Request("POST", "echo-v1", "/a", field("transfer-encoding", "chunked")), "hello", protocolError, nil},
		{"connection", h2Request("GET", "echo-v1", "/a", field("connection", "close")), "", protocolError, nil},
		{"keep-alive", h2Request("GET", "echo-v1", "/a", field("keep-alive", "1")), "", protocolError, nil},
		{"proxy-connection", h2Request("GET", "echo-v1", "/a", field("proxy-connection", "1")), "", protocolError, nil},
		{"upgrade", h2Request("GET", "echo-v1", "/a", field("upgrade", "websocket")), "", protocolError, nil},
		{"te other than trailers", h2Request("GET", "echo-v1", "/a", field("te", "gzip")), "", protocolError, nil},
		{"te: trailers", h2Request("GET", "echo-v1", "/a", field("te", "trailers")), "", "200", []string{"GET /a"}},
		{"CR LF in a value", h2Request("GET", "echo-v1", "/a", field("x-a", "b\r\nx-evil: 1")), "", protocolError, nil},
		{"a request in a value", h2Request("GET", "echo-v1", "/a", field("x-a", "b\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n")), "", protocolError, nil},
		{"NUL in a value", h2Request("GET", "echo-v1", "/a", field("x-a", "b\x00")), "", protocolError, nil},
		{"LF in a name", h2Request("GET", "echo-v1", "/a", field("x\na", "b")), "", protocolError, nil},
		{"a colon in a name", h2Request("GET", "echo-v1", "/a", field("x:a", "b")), "", protocolError, nil},
		{"a space in a name", h2Request("GET", "echo-v1", "/a", field("x a", "b")), "", protocolError, nil},
		{"an upper-case name", h2Request("GET", "echo-v1", "/a", field("X-A", "b")), "", protocolError, nil},
		{"an empty name", h2Request("GET", "echo-v1", "/a", field("", "b")), "", protocolError, nil},
		{"a method that is a request", h2Request("GET /evil HTTP/1.1\r\nHost: x\r\n\r\nGET", "echo-v1", "/a"), "", protocolError, nil},
		{"a method with a space", h2Request("GET /evil", "echo-v1", "/a"), "", protocolError, nil},
		{"a path that is a request", h2Request("GET", "echo-v1", "/a HTTP/1.1\r\nHost: x\r\n\r\nGET /evil"), "", protocolError, nil},
		{"an authority that is a field", h2Request("GET", "echo-v1\r\nx: y", "/a"), "", protocolError, nil},
		{"an authority with userinfo", h2Request("GET", "u:p@echo-v1", "/a"), "", protocolError, nil},
		{"host and authority agree", h2Request("GET", "echo-v1", "/a", field("host", "echo-v1")), "", "200", []string{"GET /a"}},
		{"host and authority differ", h2Request("GET", "echo-v1", "/a", field("host", "other")), "", protocolError, nil},
		{"host twice", h2Request("GET", "echo-v1", "/a", field("host", "echo-v1"), field("host", "echo-v1")), "", protocolError, nil},
		{"a pseudo-field after others", append(h2Request("GET", "echo-v1", "/a", field("x", "y")), field(":path", "/evil")), "", protocolError, nil},
		{"a pseudo-field twice", append([]meshtest.Field{field(":path", "/evil")}, h2Request("GET", "echo-v1", "/a")...), "", protocolError, nil},
		{"an unknown pseudo-field", append([]meshtest.Field{field(":evil", "1")}, h2Request("GET", "echo-v1", "/a")...), "", protocolError, nil},
		{"a pseudo-field of responses", append([]meshtest.Field{field(":status", "200")}, h2Request("GET", "echo-v1", "/a")...), "", protocolError, nil},
		{"no path", []meshtest.Field{field(":method", "GET"), field(":scheme", "http"), field(":authority", "echo-v1")}, "", protocolError, nil},
		{"no method", []meshtest.Field{field(":path", "/a"), field(":scheme", "http"), field(":authority", "echo-v1")}, "", protocolError, nil},
		{"CONNECT", []meshtest.Field{field(":method", "CONNECT"), field(":authority", "169.254.169.254:80")}, "", "refused", nil},
		{"extended CONNECT to what we do not carry", append([]meshtest.Field{field(":protocol", "connect-udp")}, h2Request("CONNECT", "echo-v1", "/a")...), "", "refused", nil},
	} {
		before := len(w.http["echo-v1"].Requests())
		inner := w.innerH2("10.0.0.2:80")
		got := inner.ask(tt.fields, tt.body)
		inner.Close()
		refused := got == protocolError || strings.HasPrefix(got, "4") || strings.HasPrefix(got, "5") || got == "GOAWAY PROTOCOL_ERROR"
		if got != tt.want && !(tt.want != "200" && refused) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		var told []string
		for _, r := range w.http["echo-v1"].Requests()[before:] {
			told = append(told, r.Method+" "+r.Target)
		}
		// A request whose body turns out wrong may have begun to be told; not another.
		if !slices.Equal(told, tt.told) && !(tt.body != "" && len(tt.told) == 0 && slices.Equal(told, []string{"POST /a"})) {
			t.Errorf("%s: the application was told %v, want %v", tt.name, told, tt.told)
		}
	}
	for _, node := range w.nodes {
		for _, c := range node.Connects() {
			if sent := string(c.Sent()); strings.Contains(sent, "evil") || strings.Contains(sent, "\x00") {
				t.Errorf("an application's connection carries %q", sent)
			}
		}
	}
}
