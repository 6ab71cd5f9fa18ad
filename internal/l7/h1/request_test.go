package h1

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var limits = Limits{Fields: 100}

// parse reads a whole request head from s.
func parse(r *Request, s string) error {
	var sc Scanner
	n, err := sc.Scan([]byte(s), 8192)
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("incomplete")
	}
	return r.Parse([]byte(s[:n]), limits)
}

func lines(s ...string) string { return strings.Join(s, "\r\n") + "\r\n\r\n" }

func TestRequest(t *testing.T) {
	var r Request
	err := parse(&r, lines("POST /a/b?x=1 HTTP/1.1", "HOST: echo:80", "X-ReQ-ID:  7 ", "content-length: 5", "SOAPAction: \"x\"",
		"Connection: x-drop, Close", "X-Drop: 1", "TE: gzip, Trailers;q=1", "Expect: 100-Continue"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Method != "POST" || r.Path != "/a/b?x=1" || r.Authority != "echo:80" || r.Minor != 1 || r.Length != 5 {
		t.Errorf("parsed %+v", r)
	}
	if !r.Close || !r.Trailers || !r.Expect || r.Chunked || r.Framing() != (Framing{FixedBody, 5}) {
		t.Errorf("close %v, trailers %v, expect %v, framing %+v", r.Close, r.Trailers, r.Expect, r.Framing())
	}
	want := []Field{{"x-req-id", "7"}, {"soapaction", `"x"`}, {"expect", "100-Continue"}}
	if !slices.Equal(r.Fields, want) {
		t.Errorf("fields %q, want %q", r.Fields, want)
	}
	if r.Spelling(0) != "X-ReQ-ID" || r.Spelling(1) != "SOAPAction" {
		t.Errorf("spelled %q and %q", r.Spelling(0), r.Spelling(1))
	}
}

func TestRequestUpgrade(t *testing.T) {
	var r Request
	if err := parse(&r, lines("GET /ws HTTP/1.1", "Host: e", "A: 1", "Upgrade: websocket", "Connection: keep-alive, Upgrade", "B: 2")); err != nil {
		t.Fatal(err)
	}
	want := []Field{{"a", "1"}, {"upgrade", "websocket"}, {"b", "2"}}
	if r.Upgrade != "websocket" || !slices.Equal(r.Fields, want) || r.Spelling(1) != "Upgrade" {
		t.Errorf("upgrade %q, fields %q", r.Upgrade, r.Fields)
	}
	if err := parse(&r, lines("GET /ws HTTP/1.1", "Host: e", "Upgrade: websocket")); err != nil || r.Upgrade != "" || r.Len() != 0 {
		t.Errorf("an Upgrade that Connection does not name was kept: %q, %v", r.Upgrade, err)
	}
}

func TestRequestTargets(t *testing.T) {
	tests := []struct {
		line, host              string
		scheme, authority, path string
		err                     error
	}{
		{"GET / HTTP/1.1", "a", "", "a", "/", nil},
		{"GET http://a/x?y HTTP/1.1", "a", "http", "a", "/x?y", nil},
		{"GET HTTPS://A:1 HTTP/1.1", "a:1", "HTTPS", "A:1", "/", nil},
		{"GET http://b/ HTTP/1.1", "a", "", "", "", ErrHostMismatch},
		{"GET http://u@a/ HTTP/1.1", "a", "", "", "", ErrTarget},
		{"GET http:///x HTTP/1.1", "a", "", "", "", ErrTarget},
		{"GET http://a?x HTTP/1.1", "a", "", "", "", ErrTarget},
		{"GET ftp://a/ HTTP/1.1", "a", "", "", "", ErrTarget},
		{"OPTIONS * HTTP/1.1", "a", "", "a", "*", nil},
		{"GET * HTTP/1.1", "a", "", "", "", ErrTarget},
		{"GET a HTTP/1.1", "a", "", "", "", ErrTarget},
		{"CONNECT a:80 HTTP/1.1", "a:80", "", "", "", ErrConnect},
		{"GET / HTTP/1.1", "a/b", "", "", "", ErrHost},
		{"GET / HTTP/1.1", "", "", "", "", ErrHost},
		{"GET / HTTP/1.1", "[::1]:80", "", "[::1]:80", "/", nil},
		{"GET / HTTP/2.0", "a", "", "", "", ErrVersion},
		{"GET / HTTP/1.2", "a", "", "", "", ErrVersion},
		{"GET / http/1.1", "a", "", "", "", ErrStartLine},
		{"GET  / HTTP/1.1", "a", "", "", "", ErrTarget},
		{"GET / x HTTP/1.1", "a", "", "", "", ErrStartLine},
		{"GET /", "a", "", "", "", ErrStartLine},
		{"G@T / HTTP/1.1", "a", "", "", "", ErrMethod},
		{" / HTTP/1.1", "a", "", "", "", ErrMethod},
		{"GET /\x00 HTTP/1.1", "a", "", "", "", ErrTarget},
		{"GET /\x7f HTTP/1.1", "a", "", "", "", ErrTarget},
	}
	for _, tt := range tests {
		var r Request
		err := parse(&r, lines(tt.line, "Host: "+tt.host))
		if !errors.Is(err, tt.err) {
			t.Errorf("%q with host %q: %v, want %v", tt.line, tt.host, err, tt.err)
		}
		if err == nil && (r.Scheme != tt.scheme || r.Authority != tt.authority || r.Path != tt.path) {
			t.Errorf("%q: scheme %q, authority %q, path %q", tt.line, r.Scheme, r.Authority, r.Path)
		}
	}
}

func TestRequestRefused(t *testing.T) {
	tests := []struct {
		name   string
		fields []string
		err    error
	}{
		{"no host", nil, ErrNoHost},
		{"two hosts", []string{"Host: a", "Host: a"}, ErrHosts},
		{"length and chunked", []string{"Host: a", "Content-Length: 1", "Transfer-Encoding: chunked"}, ErrSmuggling},
		{"differing lengths", []string{"Host: a", "Content-Length: 1", "Content-Length: 2"}, ErrLengths},
		{"list of lengths", []string{"Host: a", "Content-Length: 1, 1"}, ErrLength},
		{"signed length", []string{"Host: a", "Content-Length: +1"}, ErrLength},
		{"empty length", []string{"Host: a", "Content-Length:"}, ErrLength},
		{"huge length", []string{"Host: a", "Content-Length: 9999999999999999999"}, ErrLength},
		{"gzip", []string{"Host: a", "Transfer-Encoding: gzip, chunked"}, ErrCoding},
		{"obfuscated chunked", []string{"Host: a", "Transfer-Encoding: xchunked"}, ErrCoding},
		{"tab before chunked", []string{"Host: a", "Transfer-Encoding: \vchunked"}, ErrFieldValue},
		{"two codings", []string{"Host: a", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}, ErrTE},
		{"fold", []string{"Host: a", "A: b", " c"}, ErrFolded},
		{"space before colon", []string{"Host: a", "A : b"}, ErrFieldName},
		{"no colon", []string{"Host: a", "Ab"}, ErrFieldName},
		{"no name", []string{"Host: a", ": b"}, ErrFieldName},
		{"bare CR", []string{"Host: a", "A: b\rc: d"}, ErrFieldValue},
		{"NUL", []string{"Host: a", "A: b\x00"}, ErrFieldValue},
		{"bare LF", []string{"Host: a", "A: b\nC: d"}, ErrBareLF},
		{"LF LF", []string{"Host: a\n\nGET / HTTP/1.1"}, ErrBareLF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Request
			if err := parse(&r, lines(append([]string{"GET / HTTP/1.1"}, tt.fields...)...)); !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
		})
	}
	var r Request
	if err := parse(&r, lines("GET / HTTP/1.0", "Transfer-Encoding: chunked")); !errors.Is(err, ErrTE) {
		t.Errorf("chunked in HTTP/1.0: %v", err)
	}
	if err := r.Parse([]byte(lines("GET / HTTP/1.1", "Host: a", "A: 1", "B: 2")), Limits{Fields: 2}); !errors.Is(err, ErrTooMany) {
		t.Errorf("three fields of two: %v", err)
	}
}

func TestRequestOfHTTP10(t *testing.T) {
	var r Request
	if err := parse(&r, lines("GET / HTTP/1.0")); err != nil || r.Authority != "" || !r.Close {
		t.Errorf("authority %q, close %v: %v", r.Authority, r.Close, err)
	}
	if err := parse(&r, lines("GET / HTTP/1.0", "Connection: Keep-Alive")); err != nil || r.Close {
		t.Errorf("keep-alive: close %v, %v", r.Close, err)
	}
}

func TestSameLengthTwiceCountsOnce(t *testing.T) {
	var r Request
	if err := parse(&r, lines("PUT / HTTP/1.1", "Host: a", "Content-Length: 3", "Content-Length: 3")); err != nil || r.Length != 3 {
		t.Errorf("length %d: %v", r.Length, err)
	}
}

// TestRelease: what follows is not taken for what was before.
func TestRelease(t *testing.T) {
	var r Request
	if err := parse(&r, lines("GET http://a/b HTTP/1.1", "Host: a", "Expect: 100-continue")); err != nil {
		t.Fatal(err)
	}
	r.Release()
	if r.Method != "" || r.Scheme != "" || r.Authority != "" || r.Path != "" || r.Expect {
		t.Errorf("left: %q %q %q %q %v", r.Method, r.Scheme, r.Authority, r.Path, r.Expect)
	}
}

// TestScanInPieces feeds a head byte by byte.
func TestScanInPieces(t *testing.T) {
	head := lines("GET / HTTP/1.1", "Host: a")
	var s Scanner
	for i := range len(head) {
		n, err := s.Scan([]byte(head[:i]), 1000)
		if n != 0 || err != nil {
			t.Fatalf("after %d bytes: %d, %v", i, n, err)
		}
	}
	if n, err := s.Scan([]byte(head+"rest"), 1000); n != len(head) || err != nil {
		t.Errorf("Scan = %d, %v, want %d", n, err, len(head))
	}
	s.Reset()
	if _, err := s.Scan([]byte(strings.Repeat("x", 1001)), 1000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1001 bytes of 1000: %v", err)
	}
	s.Reset()
	if _, err := s.Scan([]byte(strings.Repeat("x", 1000)), 1000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1000 bytes of 1000 without an end: %v", err) // who waits for more may wait for ever
	}
	s.Reset()
	if _, err := s.Scan([]byte(head), len(head)-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte above the limit: %v", err)
	}
	s.Reset()
	if n, err := s.Scan([]byte(head), len(head)); n != len(head) || err != nil {
		t.Errorf("at the limit: %d, %v", n, err)
	}
}

const typicalRequest = "GET /api/v1/reviews/42?lang=en HTTP/1.1\r\nHost: reviews.default.svc.cluster.local:9080\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: application/json\r\nAccept-Encoding: gzip, deflate\r\n" +
	"X-Request-Id: 2f1c3d5e-0000-4000-8000-5b6a7c8d9e0f\r\nCookie: a=b; c=d\r\nConnection: keep-alive\r\nend-user: jason\r\n\r\n"

func TestParseDoesNotAllocate(t *testing.T) {
	var r Request
	head := []byte(typicalRequest)
	_ = r.Parse(head, limits)
	if n := testing.AllocsPerRun(1000, func() {
		var s Scanner
		n, _ := s.Scan(head, 8192)
		if err := r.Parse(head[:n], limits); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkParseRequest(b *testing.B) {
	var r Request
	head := []byte(typicalRequest)
	b.ReportAllocs()
	b.SetBytes(int64(len(head)))
	for b.Loop() {
		var s Scanner
		n, _ := s.Scan(head, 8192)
		_ = r.Parse(head[:n], limits)
	}
}
