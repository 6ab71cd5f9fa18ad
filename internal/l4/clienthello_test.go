package l4

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
)

// hello returns what a Go client sends first.
func hello(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, cfg).Handshake() // fails when the pipe closes
		_ = client.Close()
	}()
	buf := make([]byte, MaxHello)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// recut puts the handshake message of a hello into records of at most n bytes.
func recut(p []byte, n int) []byte {
	var out []byte
	for body := p[recordHeader:]; len(body) > 0; {
		k := min(n, len(body))
		out = append(out, recordHandshake, 3, 1, 0, byte(k))
		out = append(out, body[:k]...)
		body = body[k:]
	}
	return out
}

func TestServerName(t *testing.T) {
	named := hello(t, &tls.Config{ServerName: "Shop.Example.com"})
	unnamed := hello(t, &tls.Config{InsecureSkipVerify: true})
	tests := []struct {
		name string
		in   []byte
		want string
		err  error
	}{
		{"one record", named, "shop.example.com", nil},
		{"cut into records of 100 bytes", recut(named, 100), "shop.example.com", nil},
		{"cut into records of 1 byte", recut(named, 1), "shop.example.com", nil},
		{"no server name", unnamed, "", nil},
		{"early data behind it", append(bytes.Clone(named), 20, 3, 3, 0, 1, 1), "shop.example.com", nil},
		{"nothing yet", nil, "", errMoreHello},
		{"all but the last byte", named[:len(named)-1], "", errMoreHello},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), "", ErrNotTLS},
		{"another handshake message", []byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, "", ErrNotTLS},
		{"lengths beyond the message", []byte{22, 3, 1, 0, 6, 1, 0, 0, 2, 3, 3}, "", ErrNotTLS},
		{"an empty record", []byte{22, 3, 1, 0, 0}, "", ErrNotTLS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ServerName(tt.in)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("ServerName = %q, %v, want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestServerNameNeverSpeaksTooEarly(t *testing.T) {
	p := recut(hello(t, &tls.Config{ServerName: "a.example"}), 64)
	for i := range p {
		if _, err := ServerName(p[:i]); !errors.Is(err, errMoreHello) {
			t.Fatalf("with %d of %d bytes: %v, want errMoreHello", i, len(p), err)
		}
	}
}

func FuzzServerName(f *testing.F) {
	h := hello(f, &tls.Config{ServerName: "a.example"})
	f.Add(h)
	f.Add(recut(h, 30))
	f.Fuzz(func(t *testing.T, p []byte) {
		name, err := ServerName(p)
		if err != nil && name != "" {
			t.Errorf("both a name %q and an error %v", name, err)
		}
		if strings.ToLower(name) != name {
			t.Errorf("%q is not lower case", name)
		}
	})
}
