package stories

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// What breaks one stream breaks that one alone.
func TestAttackStreams(t *testing.T) {
	w := newTown(t, "", nil)
	w.nodes["echo-v1"].Behave(meshtest.Stall())
	const stalled = "10.0.0.2:9090"
	field := func(name, value string) meshtest.Field { return meshtest.Field{Name: name, Value: value} }
	for _, tt := range []struct {
		name   string
		fields []meshtest.Field
		then   func(c *attacker, id uint32) error
		want   string // outcomes, any of them
	}{
		{"more data than the window", connectTo(stalled), func(c *attacker, id uint32) error {
			for range 64 {
				if err := c.framer.WriteData(id, false, make([]byte, 16384)); err != nil {
					return err
				}
			}
			return nil
		}, "RST FLOW_CONTROL_ERROR"},
		{"data after the end", connectTo(stalled), func(c *attacker, id uint32) error {
			return errors.Join(c.framer.WriteData(id, true, nil), c.framer.WriteData(id, false, []byte("x")))
		}, "RST STREAM_CLOSED|GOAWAY STREAM_CLOSED"},
		{"a head after the end", connectTo(stalled), func(c *attacker, id uint32) error {
			return errors.Join(c.framer.WriteData(id, true, nil),
				c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(connectTo(stalled)), EndHeaders: true}))
		}, "RST STREAM_CLOSED|GOAWAY STREAM_CLOSED"},
		{"trailers that do not end", connectTo(stalled), func(c *attacker, id uint32) error {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block([]meshtest.Field{field("x", "y")}), EndHeaders: true})
		}, "RST PROTOCOL_ERROR"},
		{"credit that overflows", connectTo(stalled), func(c *attacker, id uint32) error { return c.framer.WriteWindowUpdate(id, 1<<31-1) }, "RST FLOW_CONTROL_ERROR"},
		{"credit of 0", connectTo(stalled), func(c *attacker, id uint32) error {
			return c.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0})
		}, "RST PROTOCOL_ERROR"},
		{"CONNECT with a path", connectTo(stalled, field(":path", "/")), nil, "RST PROTOCOL_ERROR"},
		{"CONNECT with a scheme", connectTo(stalled, field(":scheme", "https")), nil, "RST PROTOCOL_ERROR"},
		{"CONNECT without authority", []meshtest.Field{field(":method", "CONNECT")}, nil, "RST PROTOCOL_ERROR"},
		{"CONNECT with a protocol", append([]meshtest.Field{field(":protocol", "websocket")}, h2Request("CONNECT", "10.0.0.2:80", "/")...), nil, "404|RST PROTOCOL_ERROR"},
		{"a GET on the HBONE port", h2Request("GET", "10.0.0.2:80", "/"), nil, "404"},
		{"a POST with a body", h2Request("POST", "10.0.0.2:80", "/"), func(c *attacker, id uint32) error { return c.framer.WriteData(id, true, []byte("x")) }, "404"},
		{"a head of 20 KiB", connectTo("10.0.0.2:80", field("x", strings.Repeat("y", 20<<10))), nil, "431"},
		{"300 fields", connectTo("10.0.0.2:80", bytesOfFields(300)...), nil, "431"},
		{"fields that HTTP/2 does not have", connectTo("10.0.0.2:80", field("connection", "close")), nil, "RST PROTOCOL_ERROR"},
	} {
		c := w.rawTunnel("prod/attacker")
		other := c.open(connectTo("10.0.0.3:80"), false)
		id := c.open(tt.fields, false)
		if tt.then != nil {
			c.must(tt.then(c, id))
		}
		got := c.outcome(id)
		if !containsWord(tt.want, got) {
			t.Errorf("%s: %q, want %s", tt.name, got, tt.want)
		}
		if !strings.HasPrefix(got, "GOAWAY") {
			c.must(c.framer.WriteData(other, true, []byte("GET / HTTP/1.1\r\nHost: echo-v2\r\n\r\n")))
			if !c.hears(other, "HTTP/1.1 200") {
				t.Errorf("%s: another stream of the connection suffers", tt.name)
			}
		}
		c.Close()
	}
}

func bytesOfFields(n int) (fields []meshtest.Field) {
	for range n {
		fields = append(fields, meshtest.Field{Name: "x", Value: "y"})
	}
	return fields
}

// hears waits for the first bytes of a stream, after a 200 of its own if there is
// one.
func (c *attacker) hears(id uint32, want string) bool {
	c.deadline(patience)
	var got []byte
	for len(got) < len(want) {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return false
		}
		if f, ok := frame.(*http2.DataFrame); ok && f.StreamID == id {
			got = append(got, f.Data()...)
		}
	}
	return strings.HasPrefix(string(got), want)
}

// HPACK bombs: a few bytes on the wire that stand for very many. A field put into
// the table once is referred to again and again, in CONNECTs and in requests
// inside (CVE-2026-47774).
func TestAttackHPACKBombs(t *testing.T) {
	w := newTown(t, "", nil)
	large := strings.Repeat("v", 3900)
	bomb := func(c *attacker, first []meshtest.Field, name string) uint32 {
		block := c.block(append(first, meshtest.Field{Name: name, Value: large}))
		block = append(block, bytes.Repeat([]byte{0x80 | 62}, 16000)...) // the newest entry of the table, 16,000 times
		id := c.next
		c.next += 2
		c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:16000], EndStream: true}))
		c.must(c.framer.WriteContinuation(id, true, block[16000:]))
		return id
	}
	w.bystanders(func() {
		for range 20 {
			c := w.rawTunnel("prod/attacker")
			if got := c.outcome(bomb(c, connectTo("10.0.0.2:80"), "x-bomb")); got != "431" && !strings.HasPrefix(got, "RST") && !strings.HasPrefix(got, "GOAWAY") {
				t.Errorf("in a CONNECT: %s", got)
			}
			c.Close()
			for _, name := range []string{"x-bomb", "cookie", "host"} {
				inner := w.innerH2("10.0.0.2:80")
				if got := inner.outcome(bomb(inner, h2Request("GET", "echo-v1", "/"), name)); got != "431" && !strings.HasPrefix(got, "RST") && !strings.HasPrefix(got, "GOAWAY") {
					t.Errorf("%s in a request: %s", name, got)
				}
				inner.Close()
			}
		}
	})
	if n := len(w.http["echo-v1"].Requests()); n > 0 {
		for _, r := range w.http["echo-v1"].Requests() {
			if r.Get("x-bomb") != "" || r.Get("cookie") != "" {
				t.Errorf("the application was told %d fields", len(r.Header))
			}
		}
	}
}

// The limits of a head, which HTTP/1.1 and HTTP/2 share: 59 KiB pass, 61 KiB are
// 431; so with the number of fields, with cookies and with trailers.
func TestAttackHeaderLimits(t *testing.T) {
	w := newTown(t, "", nil)
	field := func(name, value string) string { return name + ": " + value }
	for _, h2c := range []bool{false, true} {
		for _, tt := range []struct {
			name, headers string
			want          int
		}{
			{"59 KiB", field("x-large", strings.Repeat("a", 59<<10)), 200},
			{"61 KiB", field("x-large", strings.Repeat("a", 61<<10)), 431},
			{"150 fields", strings.Repeat("x-many: y | ", 150), 200},
			{"900 fields", strings.Repeat("x-many: y | ", 900), 200},
			{"1,100 fields", strings.Repeat("x-many: y | ", 1100), 431},
			{"61 KiB of cookies", field("cookie", strings.Repeat("a=b; ", 12500)+"c=d"), 431},
		} {
			got := 0
			if h2c { // by hand: Go's own client would not send what is too large
				c := w.innerH2("10.0.0.2:80")
				got, _ = strconv.Atoi(c.ask(h2Request("GET", "echo-v1", "/", headerLines(tt.headers)...), ""))
				c.Close()
			} else {
				got = w.send(call{to: "echo-v1/", headers: tt.headers}).status
			}
			if got != tt.want {
				t.Errorf("%s (h2c %v): %d, want %d", tt.name, h2c, got, tt.want)
			}
		}
	}
	a := w.send(call{to: "echo-v1/", method: "POST", body: "x"})
	w.check(call{}, a, want{app: "echo-v1"})
	for name, raw := range map[string]string{
		"trailers of 70 KiB":      "POST / HTTP/1.1\r\nHost: echo-v1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: " + strings.Repeat("y", 70<<10) + "\r\n\r\n",
		"1,100 trailers":          "POST / HTTP/1.1\r\nHost: echo-v1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + strings.Repeat("X: y\r\n", 1100) + "\r\n",
		"10,000 names in Trailer": "POST / HTTP/1.1\r\nHost: echo-v1\r\nTrailer: " + strings.Repeat("x,", 10000) + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
	} {
		got := w.speak(raw)
		if name == "10,000 names in Trailer" {
			if len(got.statuses) != 1 || got.statuses[0] != 200 {
				t.Errorf("%s: %v", name, got.statuses)
			}
			continue
		}
		if len(got.statuses) != 1 || got.statuses[0] < 400 {
			t.Errorf("%s: %v", name, got.statuses)
		}
	}
}
