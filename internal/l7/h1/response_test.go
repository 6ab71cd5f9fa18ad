package h1

import (
	"errors"
	"testing"
)

func TestResponse(t *testing.T) {
	tests := []struct {
		head, method string
		status       int
		reason       string
		framing      Framing
		err          error
	}{
		{lines("HTTP/1.1 200 OK", "Content-Length: 3"), "GET", 200, "OK", Framing{FixedBody, 3}, nil},
		{lines("HTTP/1.1 200 OK", "Content-Length: 3"), "HEAD", 200, "OK", Framing{Kind: NoBody}, nil},
		{lines("HTTP/1.1 200 All is well", "Transfer-Encoding: Chunked"), "GET", 200, "All is well", Framing{Kind: ChunkedBody}, nil},
		{lines("HTTP/1.1 200"), "GET", 200, "", Framing{Kind: UntilClose}, nil},
		{lines("HTTP/1.0 200 "), "GET", 200, "", Framing{Kind: UntilClose}, nil},
		{lines("HTTP/1.1 204 No Content"), "GET", 204, "No Content", Framing{Kind: NoBody}, nil},
		{lines("HTTP/1.1 304 Not Modified", "Content-Length: 9"), "GET", 304, "Not Modified", Framing{Kind: NoBody}, nil},
		{lines("HTTP/1.1 100 Continue"), "GET", 100, "Continue", Framing{Kind: NoBody}, nil},
		{lines("HTTP/1.1 204 x", "Transfer-Encoding: chunked"), "GET", 0, "", Framing{}, ErrBodyOfNoBody},
		{lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Length: 3"), "GET", 0, "", Framing{}, ErrSmuggling},
		{lines("HTTP/1.1 2000 OK"), "GET", 0, "", Framing{}, ErrStatus},
		{lines("HTTP/1.1 2x0 OK"), "GET", 0, "", Framing{}, ErrStatus},
		{lines("HTTP/1.1 099 OK"), "GET", 0, "", Framing{}, ErrStatus},
		{lines("HTTP/1.1 20"), "GET", 0, "", Framing{}, ErrStartLine},
		{lines("HTTP/1.1 200 a\rb"), "GET", 0, "", Framing{}, ErrStartLine},
		{lines("ICY 200 OK"), "GET", 0, "", Framing{}, ErrStartLine},
		{lines("HTTP/3.1 200 OK"), "GET", 0, "", Framing{}, ErrVersion},
	}
	for _, tt := range tests {
		var r Response
		err := r.Parse([]byte(tt.head), limits)
		if !errors.Is(err, tt.err) {
			t.Errorf("%q: %v, want %v", tt.head, err, tt.err)
		}
		if err == nil && (r.Status != tt.status || r.Reason != tt.reason || r.Framing(tt.method) != tt.framing) {
			t.Errorf("%q: %d %q %+v", tt.head, r.Status, r.Reason, r.Framing(tt.method))
		}
	}
}

func TestResponseCloses(t *testing.T) {
	for head, want := range map[string]bool{
		lines("HTTP/1.1 200 OK"):                               false,
		lines("HTTP/1.1 200 OK", "Connection: CLOSE"):          true,
		lines("HTTP/1.0 200 OK"):                               true,
		lines("HTTP/1.0 200 OK", "Connection: keep-alive"):     false,
		lines("HTTP/1.1 200 OK", "Connection: a", "A: closed"): false,
	} {
		var r Response
		if err := r.Parse([]byte(head), limits); err != nil || r.Close != want {
			t.Errorf("%q: close %v, %v", head, r.Close, err)
		}
	}
}

func BenchmarkParseResponse(b *testing.B) {
	var r Response
	head := []byte(lines("HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Length: 1024", "Date: Mon, 30 Nov 2026 15:00:00 GMT", "Server: x"))
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Parse(head, limits)
	}
}
