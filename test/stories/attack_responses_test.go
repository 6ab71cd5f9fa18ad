package stories

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// Responses of an application that is broken, or an attacker's: the client gets
// one well-formed answer or an error that it cannot take for one, and the next
// client on the same connection nothing of it.
func TestAttackResponses(t *testing.T) {
	w := newTown(t, "", nil)
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	const cut = "cut" // the client sees a reset, and no complete response
	for _, tt := range []struct {
		name, raw string
		want      string // "STATUS body", or cut
	}{
		{"plain", ok, "200 ok"},
		{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "502"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", "502"},
		{"a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok!", "502"},
		{"a coding that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", "502"},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "502"},
		{"a folded field", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"NUL", "HTTP/1.1 200 OK\r\nX-A: b\x00\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"CR in a value", "HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"a name with a space", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", "502"},
		{"no status", "HTTP/1.1\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"a status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"status 099", "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"a control character in the reason", "HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"another protocol", "ICY 200 OK\r\n\r\n", "502"},
		{"not HTTP", "SSH-2.0-OpenSSH_9.9\r\n", "503"},
		{"a switch that nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "502"},
		{"nothing", "", "503"},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", "503"},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok", cut},
		{"half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nok", cut},
		{"chunks that break off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nZZ\r\n", cut},
		{"bare LF in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n", cut},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nok", "200 ok"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok", "200 ok"},
		{"a second response behind it", ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "200 ok"},
		{"bytes behind it", ok + "evil", "200 ok"},
		{"a 204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil", "204 "},
		{"a 304 with a body", "HTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "304 "},
		{"too large a head", "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 70<<10) + "\r\nContent-Length: 2\r\n\r\nok", "502"},
		{"too many fields", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1100) + "Content-Length: 2\r\n\r\nok", "502"},
		{"interim responses", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok, "200 ok"},
	} {
		for _, h2c := range []bool{false, true} {
			var first atomic.Bool
			first.Store(true)
			w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
				if first.Swap(false) {
					x.Write([]byte(tt.raw)) // the waypoint may have had enough
					if !strings.HasPrefix(tt.raw, ok) {
						x.Close()
					}
					return
				}
				x.Reply(200, "next")
			})
			a, err := w.attempt(call{to: "echo-v1/", h2c: h2c, method: "POST", body: "x"})
			got := cut
			switch {
			case err == nil && a.status >= 500:
				got = strconv.Itoa(a.status)
			case err == nil:
				got = strconv.Itoa(a.status) + " " + a.body
			}
			if got != tt.want {
				t.Errorf("%s (h2c %v): %.100q %v, want %q", tt.name, h2c, got, err, tt.want)
			}
			if c := a.header.Get("set-cookie"); c != "" {
				t.Errorf("%s: a cookie came in: %s", tt.name, c)
			}
			for range 3 {
				if a := w.send(call{to: "echo-v1/", from: "prod/next", h2c: h2c}); a.status != 200 || a.body != "next" {
					t.Errorf("%s (h2c %v): the next client got %d %q", tt.name, h2c, a.status, a.body)
				}
			}
		}
	}
}

// An application that never stops saying 103, or sending a body, to a client that
// does not read: it is held up, not kept.
func TestAttackResponsesThatNeverEnd(t *testing.T) {
	for name, part := range map[string]string{
		"interim responses": "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n",
		"a body":            "",
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, "", nil)
			var written atomic.Int64
			w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
				defer x.Close()
				if part == "" {
					io.WriteString(x, "HTTP/1.1 200 OK\r\n\r\n") // what follows tells
				}
				chunk := bytes.Repeat([]byte(part+strings.Repeat("x", 1024-len(part))), 32)
				if part != "" {
					chunk = []byte(strings.Repeat(part, 400))
				}
				for {
					n, err := x.Write(chunk)
					written.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
			stalled := w.as("prod/stalled")
			stalled.Settings.StreamWindow = 1000
			tunnel, err := stalled.Tunnel(t.Context(), w.wp.Addr)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := tunnel.Connect(t.Context(), "10.0.0.2:80")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(stream, "GET / HTTP/1.1\r\nHost: echo-v1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			w.Eventually("the application answers", func() bool { return written.Load() > 0 })
			w.still("the application is held up", written.Load)
			// The sockets between application and node proxy hold most of it.
			if held := written.Load(); held > 16<<20 {
				t.Errorf("%d MiB were taken of what nobody reads", held>>20)
			} else {
				t.Logf("%d KiB taken", held>>10)
			}
			w.check(call{}, w.send(call{to: "echo-v2/"}), want{app: "echo-v2"})
			tunnel.Close()
		})
	}
}

// A response may come while the request is still being sent, and a client may go
// away in the middle; neither holds anything up.
func TestAttackEarlyResponses(t *testing.T) {
	w := newTown(t, "", nil)
	w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
		x.Reply(413, "too much", meshtest.Field{Name: "Connection", Value: "close"})
		x.Close()
		x.Conn.SetLinger(0) // a reset is the worst that can come
	})
	for range 20 {
		c := w.open("10.0.0.2:80")
		c.say("POST / HTTP/1.1\r\nHost: echo-v1\r\nContent-Length: 100000000\r\n\r\n")
		go io.Copy(c.Conn, io.LimitReader(neverEnding('x'), 10<<20)) // it is to be cut
		if got := c.reply("POST"); got.StatusCode != 413 && got.StatusCode != 503 {
			t.Errorf("status %d", got.StatusCode)
		}
		c.Conn.(*meshtest.Stream).Reset(8)
	}
	w.http["echo-v1"].Handle(nil)
	w.check(call{}, w.send(call{to: "echo-v1/"}), want{app: "echo-v1"})
}

type neverEnding byte

func (n neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(n)
	}
	return len(p), nil
}
