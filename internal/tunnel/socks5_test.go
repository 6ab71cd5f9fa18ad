package tunnel

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// script is a client whose bytes are there already.
type script struct {
	io.Reader
	answers bytes.Buffer
}

func (s *script) Write(p []byte) (int, error) { return s.answers.Write(p) }

func TestReadSocksRequest(t *testing.T) {
	const greeting = "\x05\x01\x00"
	tests := []struct {
		name string
		in   string
		want string
		code byte // of the socksError, 0: none
		ok   bool
	}{
		{"IPv4", greeting + "\x05\x01\x00\x01\x0a\x00\x00\x01\x1f\x90", "10.0.0.1:8080", 0, true},
		{"IPv6", greeting + "\x05\x01\x00\x04\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50", "[fd00::1]:80", 0, true},
		{"name", greeting + "\x05\x01\x00\x03\x06echo.d\x00\x50", "echo.d:80", 0, true},
		{"several methods", "\x05\x02\x02\x00\x05\x01\x00\x03\x01a\x00\x50", "a:80", 0, true},
		{"authentication only", "\x05\x01\x02", "", 0, false},
		{"SOCKS4", "\x04\x01\x00\x50\x0a\x00\x00\x01\x00", "", 0, false},
		{"BIND", greeting + "\x05\x02\x00\x01\x0a\x00\x00\x01\x1f\x90", "", replyUnsupportedCommand, false},
		{"unknown address type", greeting + "\x05\x01\x00\x09", "", replyUnsupportedAddress, false},
		{"cut short", greeting + "\x05\x01\x00\x03\x06ec", "", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readSocksRequest(&script{Reader: bytes.NewReader([]byte(tt.in))})
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %q, %v", got, err)
			}
			var se *socksError
			if errors.As(err, &se) != (tt.code != 0) || se != nil && se.code != tt.code {
				t.Errorf("error %v, want code %d", err, tt.code)
			}
		})
	}
}

func TestSocksLeavesTheClientsBytes(t *testing.T) {
	in := bytes.NewReader([]byte("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50GET /"))
	if _, err := readSocksRequest(&script{Reader: in}); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(in); string(rest) != "GET /" {
		t.Errorf("left %q", rest)
	}
}

func FuzzReadSocksRequest(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50"))
	f.Add([]byte("\x05\x02\x02\x00\x05\x01\x00\x01\x0a\x00\x00\x01\x1f\x90"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, p []byte) {
		target, err := readSocksRequest(&script{Reader: bytes.NewReader(p)})
		if (err == nil) == (target == "") {
			t.Errorf("target %q with error %v", target, err)
		}
	})
}
