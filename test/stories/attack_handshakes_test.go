package stories

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// Handshakes that are begun and not gone on with hold nobody else's up, and end.
func TestAttackHalfHandshakes(t *testing.T) {
	w := newTown(t, "", nil)
	for range 300 {
		conn, err := net.Dial("tcp", w.wp.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") // half a hello
	}
	start := time.Now()
	for i := range 5 {
		w.check(call{}, w.send(call{from: fmt.Sprintf("prod/new-%d", i)}), want{})
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("five new clients took %v", took)
	}
}

// What HTTP/2 has for later, or had: unknown frames and settings pass unnoticed.
func TestAttackUnknownFrames(t *testing.T) {
	w := newTown(t, "", nil)
	for _, where := range []string{"a tunnel", "a stream of it"} {
		c := w.attackIn(where)
		id := c.open(c.request, false)
		for typ := http2.FrameType(0x0a); typ < 0x20; typ++ {
			c.must(c.framer.WriteRawFrame(typ, 0xff, 0, []byte("whatever")))
			c.must(c.framer.WriteRawFrame(typ, 0xff, id, nil))
		}
		c.must(c.framer.WriteSettings(http2.Setting{ID: 0xffff, Val: 1}, http2.Setting{ID: 0, Val: 1}))
		c.must(c.framer.WriteData(id, true, nil))
		if got := c.answered(id); got != "200" {
			t.Errorf("in %s: %s", where, got)
		}
		c.Close()
	}
}

// Trailers of HTTP/2 requests: bounded, without pseudo-fields, and the end.
func TestAttackTrailers(t *testing.T) {
	w := newTown(t, "", nil)
	field := func(name, value string) meshtest.Field { return meshtest.Field{Name: name, Value: value} }
	for name, tt := range map[string]struct {
		fields []meshtest.Field
		end    bool
		want   string
	}{
		"plain":                 {[]meshtest.Field{field("x-sum", "1")}, true, "200"},
		"that do not end":       {[]meshtest.Field{field("x-sum", "1")}, false, "RST PROTOCOL_ERROR"},
		"with a pseudo-field":   {[]meshtest.Field{field(":path", "/evil")}, true, "RST PROTOCOL_ERROR"},
		"with CR LF":            {[]meshtest.Field{field("x-sum", "1\r\nx: y")}, true, "RST PROTOCOL_ERROR"},
		"that frame":            {[]meshtest.Field{field("transfer-encoding", "chunked")}, true, "RST PROTOCOL_ERROR"},
		"that are an authority": {[]meshtest.Field{field("host", "evil"), field("authorization", "evil"), field("content-length", "5")}, true, "200"},
		"of 2,000 fields":       {bytesOfFields(2000), true, "431|400|RST ENHANCE_YOUR_CALM|RST PROTOCOL_ERROR"},
	} {
		before := len(w.http["echo-v1"].Requests())
		c := w.innerH2("10.0.0.2:80")
		id := c.open(h2Request("POST", "echo-v1", "/"), false)
		c.must(c.framer.WriteData(id, false, []byte("body")))
		c.trailers(id, tt.fields, tt.end)
		got := c.outcome(id)
		c.Close()
		if !containsWord(tt.want, got) {
			t.Errorf("trailers %s: %q, want %s", name, got, tt.want)
		}
		for _, r := range w.http["echo-v1"].Requests()[before:] {
			for _, f := range r.Trailer {
				if f.Name != "x-sum" || f.Value != "1" {
					t.Errorf("trailers %s: the application was told %v", name, f)
				}
			}
		}
	}
}
