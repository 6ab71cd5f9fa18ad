package proxy

import "testing"

func TestClassify(t *testing.T) {
	tests := []struct {
		in   string
		want guess
	}{
		{"", undecided},
		{"G", undecided},
		{"GET", undecided},
		{"GET /a", undecided},
		{"GET /a HTTP", undecided},
		{"GET / HTTP/1.1\r\n", http1},
		{"GET / HTTP/1.0\r\n", http1},
		{"M-SEARCH * HTTP/1.1\r\n", http1},
		{"OPTIONS * HTTP/1.1\r\n", http1},
		{"P", undecided},
		{"PRI * HTTP/2.0\r\n", undecided},
		{preface, http2},
		{preface + "\x00\x00\x00\x04", http2},
		{"PRI * HTTP/3", opaque},
		{"POST /x HTTP/1.1", http1},
		{"\x16", undecided},
		{"\x16\x03\x01\x02", tlsHello},
		{"\x16\x02", opaque},
		{"get / HTTP/1.1", opaque},
		{" GET / HTTP/1.1", opaque},
		{"EHLO mail.example\r\n", opaque},
		{"USER joe\r\n", opaque},
		{"QUIT\r\n", opaque},
		{"SET key value\r\n", opaque},
		{"GET  HTTP/1.1", opaque},
		{"*1\r\n$4\r\nPING\r\n", opaque},
		{"\x00\x00\x00\x08\x04\xd2\x16\x2f", opaque},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", opaque},
	}
	for _, tt := range tests {
		if got := classify([]byte(tt.in)); got != tt.want {
			t.Errorf("classify(%q) = %d, want %d", tt.in, got, tt.want)
		}
	}
}

// FuzzClassify holds the promise that makes cutting harmless: once decided, more
// bytes never change the answer.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", preface, "\x16\x03\x01", "EHLO x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		decided := undecided
		for i := 0; i <= len(p); i++ {
			got := classify(p[:i])
			if decided != undecided && got != decided {
				t.Fatalf("%q: %d after %d with fewer bytes", p[:i], got, decided)
			}
			decided = got
		}
	})
}
