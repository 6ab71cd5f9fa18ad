package stories

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// answerWith answers a CONNECT with a header block of these fields, as it is.
func answerWith(end bool, fields ...meshtest.Field) meshtest.Behaviour {
	return frames(func(f *http2.Framer, id uint32) error {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, field := range fields {
			// Never indexed: the table that the kit's own encoder keeps stays as it is.
			if err := encoder.WriteField(hpack.HeaderField{Name: field.Name, Value: field.Value, Sensitive: true}); err != nil {
				return err
			}
		}
		p := block.Bytes()
		first := min(len(p), 16<<10)
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p[:first], EndStream: end, EndHeaders: first == len(p)})
		for p = p[first:]; err == nil && len(p) > 0; {
			n := min(len(p), 16<<10)
			err = f.WriteContinuation(id, n == len(p), p[:n])
			p = p[n:]
		}
		return err
	})
}

// frames answers with frames of any kind, and then waits for the end.
func frames(write func(f *http2.Framer, id uint32) error) meshtest.Behaviour {
	return func(ctx context.Context, s *meshtest.Stream) {
		err := s.Conn().Frames(func(f *http2.Framer) error {
			f.AllowIllegalWrites = true
			return write(f, s.ID())
		})
		if err == nil {
			io.Copy(io.Discard, s) // until the waypoint has had enough
		}
	}
}

// floodOf repeats a frame until the waypoint has had enough.
func floodOf(write func(f *http2.Framer, id uint32) error) meshtest.Behaviour {
	return func(_ context.Context, s *meshtest.Stream) {
		for range 100000 {
			if s.Conn().Frames(func(f *http2.Framer) error { return write(f, s.ID()) }) != nil {
				return
			}
		}
	}
}

// A destination's node proxy is no more trusted than a client: whatever it says,
// the request gets an answer, others are served, and so is the next once it
// behaves again.
func TestAttackDestination(t *testing.T) {
	status := func(s string) meshtest.Field { return meshtest.Field{Name: ":status", Value: s} }
	field := func(n, v string) meshtest.Field { return meshtest.Field{Name: n, Value: v} }
	setting := func(id http2.SettingID, v uint32) meshtest.Behaviour {
		return frames(func(f *http2.Framer, _ uint32) error { return f.WriteSettings(http2.Setting{ID: id, Val: v}) })
	}
	for name, behaviour := range map[string]meshtest.Behaviour{
		"400": meshtest.Refuse(400), "401": meshtest.Refuse(401), "404": meshtest.Refuse(404), "503": meshtest.Refuse(503), "204": meshtest.Refuse(204), "301": meshtest.Refuse(301),
		"never an answer": meshtest.Stall(),
		"interim answers for ever": floodOf(func(f *http2.Framer, id uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x08, 3, '1', '0', '3'}, EndHeaders: true})
		}),
		"101":                 answerWith(false, status("101")),
		"no status":           answerWith(false, field("x", "y")),
		"a status of letters": answerWith(false, status("abc")),
		"status 999":          answerWith(true, status("999")),
		"two statuses":        answerWith(false, status("200"), status("200")),
		"a request":           answerWith(false, field(":method", "GET"), field(":path", "/")),
		"upper-case names":    answerWith(false, status("200"), field("X-A", "b")),
		"CR LF in a value":    answerWith(false, status("200"), field("x", "a\r\nb: c")),
		"a head of 300 KiB":   answerWith(false, status("200"), field("x", strings.Repeat("y", 300<<10))),
		"5,000 fields":        answerWith(false, append([]meshtest.Field{status("200")}, bytesOfFields(5000)...)...),
		"200 and the end":     answerWith(true, status("200")),
		"data before the answer": frames(func(f *http2.Framer, id uint32) error {
			return f.WriteData(id, false, []byte("HTTP/1.1 200 OK\r\n\r\n"))
		}),
		"data on another stream": frames(func(f *http2.Framer, id uint32) error { return f.WriteData(id+1000, false, []byte("x")) }),
		"a promise": frames(func(f *http2.Framer, id uint32) error {
			return f.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: []byte{0x82}, EndHeaders: true})
		}),
		"broken HPACK": frames(func(f *http2.Framer, id uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
		}),
		"a frame too large": frames(func(f *http2.Framer, id uint32) error {
			return f.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 1<<20))
		}),
		"a frame size of 0":     setting(http2.SettingMaxFrameSize, 0),
		"a window of 2^31":      setting(http2.SettingInitialWindowSize, 1<<31),
		"a table of 0":          setting(http2.SettingHeaderTableSize, 0),
		"a table of 4 GiB":      setting(http2.SettingHeaderTableSize, 1<<32-1),
		"no streams any more":   setting(http2.SettingMaxConcurrentStreams, 0),
		"no window any more":    setting(http2.SettingInitialWindowSize, 0),
		"credit that overflows": frames(func(f *http2.Framer, id uint32) error { return f.WriteWindowUpdate(0, 1<<31-1) }),
		"a goodbye to all":      frames(func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }),
		"a goodbye in anger": frames(func(f *http2.Framer, id uint32) error {
			return f.WriteGoAway(id, http2.ErrCodeInternal, []byte("text\x00"))
		}),
		"refused":                 meshtest.Reset(http2.ErrCodeRefusedStream),
		"cancelled":               meshtest.Reset(http2.ErrCodeCancel),
		"an unknown code":         meshtest.Reset(http2.ErrCode(0xfffffff)),
		"reset after the request": meshtest.ResetAfter(10, http2.ErrCodeInternal),
		"pings for ever":          floodOf(func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) }),
		"settings for ever":       floodOf(func(f *http2.Framer, _ uint32) error { return f.WriteSettings() }),
		"empty data for ever":     floodOf(func(f *http2.Framer, id uint32) error { return f.WriteData(id, false, nil) }),
		"resets for ever":         floodOf(func(f *http2.Framer, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) }),
		"unknown frames for ever": floodOf(func(f *http2.Framer, _ uint32) error { return f.WriteRawFrame(0x0a, 0, 0, nil) }),
		"a head without end": floodOf(func(f *http2.Framer, id uint32) error {
			return f.WriteContinuation(id, false, []byte{0, 1, 'x', 1, 'y'})
		}),
		"the connection cut": func(_ context.Context, s *meshtest.Stream) { s.Conn().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // what takes time are pauses and timeouts
			w := newTown(t, "", func(o *app.Options) { o.ConnectTimeout = 500 * time.Millisecond })
			w.Eventually("the bystander's tunnel is there", func() bool { return w.send(call{to: "echo-v2/"}).app.App == "echo-v2" })
			w.nodes["echo-v1"].Behave(behaviour)
			start := time.Now()
			a := w.send(call{to: "echo-v1/"})
			if a.status != 503 && a.status != 502 {
				t.Errorf("status %d", a.status)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("answered after %v", took)
			}
			w.check(call{}, w.send(call{to: "echo-v2/"}), want{app: "echo-v2"})
			w.nodes["echo-v1"].Behave(nil)
			w.nodes["echo-v1"].Cut()
			w.Eventually("it is served again", func() bool { return w.send(call{to: "echo-v1/"}).app.App == "echo-v1" })
		})
	}
}

// The same from an application that speaks HTTP/2.
func TestAttackHTTP2Application(t *testing.T) {
	w := newTownWithout(t)
	var attack func(f *http2.Framer, id uint32) error
	w.TCP("evil", w.Addr(23, 7070), evilH2(&attack))
	w.NodeProxy(w.IP(23), "spiffe://cluster.local/ns/prod/sa/evil")
	w.start(townBase+strings.Replace(townPod("evil", 23), "app: echo, ", "", 1)+strings.Replace(townService("other", "version: evil"), "prod", "prod", 1), nil)
	enc := func(fields ...meshtest.Field) []byte {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, f := range fields {
			encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value, Sensitive: true}) // into memory
		}
		return block.Bytes()
	}
	field := func(n, v string) meshtest.Field { return meshtest.Field{Name: n, Value: v} }
	head := func(end bool, fields ...meshtest.Field) func(f *http2.Framer, id uint32) error {
		return func(f *http2.Framer, id uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: enc(fields...), EndStream: end, EndHeaders: true})
		}
	}
	for name, a := range map[string]func(f *http2.Framer, id uint32) error{
		"CR LF in a value":    head(true, field(":status", "200"), field("x", "a\r\nset-cookie: evil")),
		"LF in a name":        head(true, field(":status", "200"), field("x\ny", "a")),
		"an upper-case name":  head(true, field(":status", "200"), field("X", "a")),
		"transfer-encoding":   head(true, field(":status", "200"), field("transfer-encoding", "chunked")),
		"connection":          head(true, field(":status", "200"), field("connection", "close")),
		"no status":           head(true, field("x", "y")),
		"status 2000":         head(true, field(":status", "2000")),
		"two lengths":         head(false, field(":status", "200"), field("content-length", "5"), field("content-length", "6")),
		"status 101":          head(true, field(":status", "101")),
		"a pseudo-field late": head(true, field("x", "y"), field(":status", "200")),
	} {
		attack = a
		for _, h2c := range []bool{false, true} {
			got, err := w.attempt(call{to: "other:7070/", h2c: h2c})
			if err != nil || got.status != 502 && got.status != 503 || got.header.Get("set-cookie") != "" {
				t.Errorf("%s (h2c %v): %d, %v", name, h2c, got.status, err)
			}
		}
		w.check(call{}, w.send(call{to: "echo/"}), want{})
	}
	for name, a := range map[string]func(f *http2.Framer, id uint32) error{
		"a length without a body": head(true, field(":status", "200"), field("content-length", "5")),
		"too much body": func(f *http2.Framer, id uint32) error {
			return errors2(head(false, field(":status", "200"), field("content-length", "2"))(f, id), f.WriteData(id, true, []byte("more")))
		},
		"too little body": func(f *http2.Framer, id uint32) error {
			return errors2(head(false, field(":status", "200"), field("content-length", "20"))(f, id), f.WriteData(id, true, []byte("less")))
		},
	} {
		attack = a
		for _, h2c := range []bool{false, true} {
			if got, err := w.attempt(call{to: "other:7070/", h2c: h2c}); err == nil && got.status == 200 {
				t.Errorf("%s (h2c %v): taken for complete: %q", name, h2c, got.body)
			}
		}
	}
	if got := w.send(call{to: "echo/"}); got.status != 200 {
		t.Errorf("another service: %d", got.status)
	}
}

// evilH2 serves HTTP/2 and answers every request with what attack writes.
func evilH2(attack *func(f *http2.Framer, id uint32) error) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		if _, err := io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		f.AllowIllegalWrites = true
		if f.WriteSettings() != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() && f.WriteSettingsAck() != nil {
					return
				}
			case *http2.HeadersFrame:
				if (*attack)(f, frame.StreamID) != nil {
					return
				}
			}
		}
	}
}
