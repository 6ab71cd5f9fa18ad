package node

import (
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	for path, want := range map[string]int64{"/": DefaultSize, "/other": DefaultSize, "/size/0": 0, "/size/70000?x=1": 70000, "/size/x": DefaultSize, "/size/-1": DefaultSize} {
		head := "GET " + path + " HTTP/1.1\r\nhost: a\r\n\r\n"
		if size, body := wanted([]byte(head), ""); size != want || body != nil {
			t.Errorf("%s: %d bytes, %q, want %d of filler", path, size, body, want)
		}
	}
}

func TestWantedBodies(t *testing.T) {
	head := "GET /version HTTP/1.1\r\nX-Version: 7\r\n\r\n"
	if _, body := wanted([]byte(head), ""); string(body) != "7" {
		t.Errorf("/version answers %q, want 7", body)
	}
	head = "GET /a/head HTTP/1.1\r\nx: y\r\n\r\n"
	size, body := wanted([]byte(head), "1.2.3.4:80")
	if string(body) != "1.2.3.4:80\r\n"+head || size != int64(len(body)) {
		t.Errorf("/a/head answers %q of %d bytes", body, size)
	}
}

func TestValue(t *testing.T) {
	head := []byte("GET / HTTP/1.1\r\nA: 1\r\nab:  2 \r\nAB: 3\r\n\r\n")
	for name, want := range map[string]string{"a": "1", "ab": "2", "b": "", "get / http/1.1": ""} {
		if got := Value(head, name); string(got) != want {
			t.Errorf("Value(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	if got := string(Message(3)); got != "\x00\x00\x00\x00\x03"+strings.Repeat("x", 3) {
		t.Errorf("Message(3) = %q", got)
	}
}
