package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzRequest holds that whatever is accepted means the same to net/http.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		typicalRequest,
		lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\nT: 1\r\n\r\n",
		lines("POST http://a/b?c HTTP/1.1", "Host: A", "Content-Length: 3") + "abc",
		lines("OPTIONS * HTTP/1.1", "Host: a", "Connection: x, close", "X: y"),
		lines("GET / HTTP/1.0"),
		"GET / HTTP/1.1\nHost: a\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var sc Scanner
		n, err := sc.Scan(in, 8192)
		if n == 0 || err != nil {
			return
		}
		var r Request
		if r.Parse(in[:n], limits) != nil {
			return
		}
		body, ok := fuzzBody(&r, in[n:])
		std, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			if onlyOurs(&r, err) {
				return
			}
			t.Fatalf("net/http refuses what we read as %+v: %v", r, err)
		}
		compareRequest(t, &r, std)
		stdBody, err := io.ReadAll(std.Body)
		if ok && (err != nil || string(stdBody) != body) {
			t.Errorf("body %q, net/http reads %q, %v", body, stdBody, err)
		}
	})
}

// onlyOurs are targets that net/url cannot take, which cannot be misunderstood:
// the path is checked and normalised behind this package.
func onlyOurs(r *Request, err error) bool {
	s := err.Error()
	return strings.Contains(s, "invalid URL escape") || strings.Contains(s, "invalid URI") ||
		strings.Contains(s, "parse \"") || r.Authority == "" && r.Minor == 0
}

func compareRequest(t *testing.T, r *Request, std *http.Request) {
	t.Helper()
	if std.Method != r.Method || !strings.EqualFold(std.Host, r.Authority) {
		t.Errorf("method %q, authority %q; net/http reads %q and %q", r.Method, r.Authority, std.Method, std.Host)
	}
	if want := r.Length; !r.Chunked && std.ContentLength != max(want, 0) {
		t.Errorf("length %d, net/http reads %d", want, std.ContentLength)
	}
	if r.Chunked != (len(std.TransferEncoding) == 1) {
		t.Errorf("chunked %v, net/http reads %q", r.Chunked, std.TransferEncoding)
	}
	for _, field := range r.Fields {
		found := false
		for _, v := range std.Header[http.CanonicalHeaderKey(field.Name)] {
			found = found || v == field.Value
		}
		if !found {
			t.Errorf("field %q is %q, net/http reads %q", field.Name, field.Value, std.Header[http.CanonicalHeaderKey(field.Name)])
		}
	}
}

// fuzzBody decodes the body in in; ok is false if it is incomplete or malformed.
func fuzzBody(r *Request, in []byte) (body string, ok bool) {
	switch {
	case r.Chunked:
		body, _, err := decode(newChunks(), string(in), max(len(in), 1))
		return body, err == nil
	case r.Length > int64(len(in)):
		return "", false
	}
	return string(in[:max(r.Length, 0)]), true
}

// FuzzResponse holds the same for responses.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(lines("HTTP/1.1 200 OK", "Content-Length: 2", "A: b")+"ab"), "GET")
	f.Add([]byte(lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")+"2\r\nab\r\n0\r\n\r\n"), "POST")
	f.Add([]byte(lines("HTTP/1.0 304 x", "Content-Length: 2")), "HEAD")
	f.Fuzz(func(t *testing.T, in []byte, method string) {
		var sc Scanner
		n, err := sc.Scan(in, 8192)
		if n == 0 || err != nil {
			return
		}
		var r Response
		if r.Parse(in[:n], limits) != nil {
			return
		}
		std, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), &http.Request{Method: method})
		if err != nil {
			t.Fatalf("net/http refuses what we read as %+v: %v", r, err)
		}
		if std.StatusCode != r.Status {
			t.Errorf("status %d, net/http reads %d", r.Status, std.StatusCode)
		}
		fr := r.Framing(method)
		if fr.Kind == FixedBody && std.ContentLength != fr.Length || fr.Kind == UntilClose && std.ContentLength != -1 {
			t.Errorf("framing %+v, net/http reads %d", fr, std.ContentLength)
		}
	})
}

// FuzzChunks holds that the pieces in which a body arrives do not matter.
func FuzzChunks(f *testing.F) {
	f.Add("5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n", uint8(3))
	f.Fuzz(func(t *testing.T, in string, piece uint8) {
		whole, rest, err := decode(newChunks(), in, max(len(in), 1))
		cut, cutRest, cutErr := decode(newChunks(), in, max(int(piece), 1))
		if (err == nil) != (cutErr == nil) || err == nil && (whole != cut || rest != cutRest) {
			t.Fatalf("whole: %q %q %v; in pieces: %q %q %v", whole, rest, err, cut, cutRest, cutErr)
		}
	})
}
