package h2

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// TestServerAnswers feeds a server frames and compares what it sends. Most of the
// protocol's rules are h2spec's to check; these are those that it does not know.
func TestServerAnswers(t *testing.T) {
	const end = flagEndStream
	tests := []struct {
		name string
		in   func(r *raw)
		want string
	}{
		{"a good request", func(r *raw) { r.get(1, end) }, ""},
		{"host alone", func(r *raw) {
			r.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/", "host", "a")
		}, ""},
		{"host agrees", func(r *raw) { r.get(1, end, "host", "A") }, ""},
		{"host differs", func(r *raw) { r.get(1, end, "host", "b") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"host twice", func(r *raw) { r.get(1, end, "host", "a", "host", "a") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"userinfo", func(r *raw) {
			r.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "u@a")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"path not absolute", func(r *raw) {
			r.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "x", ":authority", "a")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"path * for GET", func(r *raw) {
			r.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "*", ":authority", "a")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"path * for OPTIONS", func(r *raw) {
			r.headers(1, end, ":method", "OPTIONS", ":scheme", "http", ":path", "*", ":authority", "a")
		}, ""},
		{"path with a space", func(r *raw) {
			r.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/a b", ":authority", "a")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"obs-text in a value", func(r *raw) { r.get(1, end, "x-a", "\xff\x80") }, ""},
		{"obs-text in the path", func(r *raw) {
			r.headers(1, end, ":method", "GET", ":scheme", "http", ":path", "/\xff", ":authority", "a")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"NUL in a value", func(r *raw) { r.get(1, end, "x-a", "a\x00b") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"CR in a value", func(r *raw) { r.get(1, end, "x-a", "a\rb") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"LF in a value", func(r *raw) { r.get(1, end, "x-a", "a\nb") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"outer space in a value", func(r *raw) { r.get(1, end, "x-a", " a") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"space in a name", func(r *raw) { r.get(1, end, "x a", "a") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"empty name", func(r *raw) { r.get(1, end, "", "a") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"transfer-encoding", func(r *raw) { r.get(1, end, "transfer-encoding", "chunked") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"upgrade", func(r *raw) { r.get(1, end, "upgrade", "x") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"content-length too large", func(r *raw) { r.get(1, 0, "content-length", "5").data(1, end, "abc") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"content-length too small", func(r *raw) { r.get(1, 0, "content-length", "2").data(1, 0, "abc") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"content-length without content", func(r *raw) { r.get(1, end, "content-length", "2") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"content-length before trailers", func(r *raw) {
			r.get(1, 0, "content-length", "2").headers(1, end, "x-t", "1")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"content-length twice alike", func(r *raw) {
			r.get(1, 0, "content-length", "2", "content-length", "2").data(1, end, "ab")
		}, ""},
		{"content-length twice", func(r *raw) { r.get(1, 0, "content-length", "2", "content-length", "3") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"content-length +1", func(r *raw) { r.get(1, 0, "content-length", "+1") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"trailers that do not end", func(r *raw) { r.get(1, 0).headers(1, 0, "x-t", "1") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"pseudo-header field in trailers", func(r *raw) { r.get(1, 0).headers(1, end, ":path", "/") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"CONNECT", func(r *raw) { r.headers(1, 0, ":method", "CONNECT", ":authority", "a:1") }, ""},
		{"CONNECT with a path", func(r *raw) {
			r.headers(1, 0, ":method", "CONNECT", ":authority", "a:1", ":path", "/")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"CONNECT without an authority", func(r *raw) { r.headers(1, 0, ":method", "CONNECT") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"CONNECT whose content-length means nothing", func(r *raw) {
			r.headers(1, 0, ":method", "CONNECT", ":authority", "a:1", "content-length", "1").data(1, 0, "abc")
		}, ""},
		{"extended CONNECT that we did not offer", func(r *raw) {
			r.headers(1, 0, ":method", "CONNECT", ":authority", "a:1", ":protocol", "websocket", ":scheme", "http", ":path", "/")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"DATA larger than the stream's window", func(r *raw) {
			r.get(1, 0)
			for range 17 {
				r.data(1, 0, strings.Repeat("x", maxFrame))
			}
		}, "RST_STREAM 1 FLOW_CONTROL_ERROR"},
		{"late frames on a stream that we reset", func(r *raw) {
			r.get(1, 0, "upgrade", "x").data(1, 0, "abc").u32(frameWindowUpdate, 1, 5).reset(1, StreamClosed).
				headers(1, end, "x-t", "1").data(1, end, "abc")
		}, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"reset of a stream that has ended is no error", func(r *raw) { r.get(1, end).reset(1, Cancel).reset(1, StreamClosed) }, ""},
		{"unknown frames and settings", func(r *raw) {
			r.frame(0x77, 0xff, 1, 1, 2, 3).settings(setting{0x99, 7})
		}, "SETTINGS ACK"},
		{"padded DATA and HEADERS", func(r *raw) {
			block := r.enc.field(r.enc.field(r.enc.field([]byte{3}, ":method", "GET"), ":scheme", "http"), ":path", "/")
			r.frame(frameHeaders, flagPadded|flagEndHeaders, 1, append(block, 0, 0, 0)...)
			r.frame(frameData, flagPadded|end, 1, 2, 'a', 0, 0)
		}, ""},
		{"PING", func(r *raw) { r.frame(framePing, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8) }, "PING ack=true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLone(t, true, Config{})
			tt.in(l.raw)
			l.feed(l.raw)
			if got := l.output(); got != tt.want {
				t.Errorf("sent\n%s\nwant\n%s", got, tt.want)
			}
			if l.c.Err() != nil {
				t.Errorf("the connection ended: %v", l.c.Err())
			}
		})
	}
}

// TestServerEndsConnection feeds a server what no connection survives.
func TestServerEndsConnection(t *testing.T) {
	flood := func(f func(r *raw, i int)) func(r *raw) {
		return func(r *raw) {
			for i := range 20_000 {
				f(r, i)
			}
		}
	}
	tests := []struct {
		name string
		in   func(r *raw)
		code ErrCode
	}{
		{"a frame that is too large", func(r *raw) { r.frame(frameData, 0, 1, make([]byte, maxFrame+1)...) }, FrameSizeError},
		{"PUSH_PROMISE", func(r *raw) { r.frame(framePushPromise, flagEndHeaders, 1, 0, 0, 0, 2) }, ProtocolError},
		{"bad compression", func(r *raw) { r.frame(frameHeaders, flagEndHeaders, 1, 0xff, 0xff, 0xff, 0xff, 0xff) }, CompressionError},
		{"an old stream id", func(r *raw) { r.get(5, 0).get(3, 0) }, ProtocolError},
		{"an even stream id", func(r *raw) { r.get(2, 0) }, ProtocolError},
		{"SETTINGS_MAX_FRAME_SIZE 0", func(r *raw) { r.settings(setting{settingMaxFrameSize, 0}) }, ProtocolError},
		{"pings", flood(func(r *raw, _ int) { r.frame(framePing, 0, 0, make([]byte, 8)...) }), EnhanceYourCalm},
		{"settings", flood(func(r *raw, _ int) { r.settings() }), EnhanceYourCalm},
		{"priorities", flood(func(r *raw, _ int) { r.frame(framePriority, 0, 1, 0, 0, 0, 3, 1) }), EnhanceYourCalm},
		{"unknown frames", flood(func(r *raw, _ int) { r.frame(0x0b, 0, 1) }), EnhanceYourCalm},
		{"empty DATA", func(r *raw) {
			r.get(1, 0)
			flood(func(r *raw, _ int) { r.data(1, 0, "") })(r)
		}, EnhanceYourCalm},
		{"padding alone", func(r *raw) {
			r.get(1, 0)
			flood(func(r *raw, _ int) { r.frame(frameData, flagPadded, 1, 1, 0) })(r)
		}, EnhanceYourCalm},
		{"window updates", flood(func(r *raw, _ int) { r.u32(frameWindowUpdate, 0, 1) }), EnhanceYourCalm},
		{"rapid reset", flood(func(r *raw, i int) {
			id := uint32(2*i + 1)
			r.get(id, flagEndStream).reset(id, Cancel)
		}), EnhanceYourCalm},
		{"resets that we are led to", flood(func(r *raw, i int) {
			id := uint32(2*i + 1)
			r.get(id, flagEndStream).u32(frameWindowUpdate, id, 0)
		}), EnhanceYourCalm},
		{"malformed requests", flood(func(r *raw, i int) { r.get(uint32(2*i+1), flagEndStream, "upgrade", "x") }), EnhanceYourCalm},
		{"streams above the limit", flood(func(r *raw, i int) { r.get(uint32(2*i+1), 0) }), EnhanceYourCalm},
		{"frames on closed streams", func(r *raw) {
			r.get(1, flagEndStream).get(99, flagEndStream)
			flood(func(r *raw, i int) { r.data(uint32(3+2*(i%40)), 0, "x") })(r)
		}, EnhanceYourCalm},
		{"CONTINUATION without end", func(r *raw) {
			r.frame(frameHeaders, 0, 1, 0x82)
			flood(func(r *raw, _ int) { r.frame(frameContinuation, 0, 1) })(r)
		}, EnhanceYourCalm},
		{"a header block without end", func(r *raw) {
			r.frame(frameHeaders, 0, 1, 0x82)
			block := make([]byte, 0, maxFrame)
			for len(block) < maxFrame-100 {
				block = r.enc.field(block, "authorization", strings.Repeat("{", 50))
			}
			for range 20 {
				r.frame(frameContinuation, 0, 1, block...)
			}
		}, EnhanceYourCalm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLone(t, true, Config{})
			tt.in(l.raw)
			l.feed(l.raw)
			out := l.output()
			last := out[strings.LastIndexByte(out, '\n')+1:]
			if !strings.HasPrefix(last, "GOAWAY ") || !strings.HasSuffix(last, " "+tt.code.String()) {
				t.Errorf("ended with %q, want GOAWAY %v", last, tt.code)
			}
			if !l.pipe.shut {
				t.Error("the transport was not ended")
			}
			if accepted := len(l.events.accepted); accepted > 2*100 {
				t.Errorf("%d handlers were at work at once", accepted)
			}
		})
	}
}

// TestHonestTrafficIsNotAFlood: frames that carry something pay for those that do
// not.
func TestHonestTrafficIsNotAFlood(t *testing.T) {
	l := newLone(t, true, Config{})
	l.feed(l.raw.headers(1, 0, ":method", "CONNECT", ":authority", "a:1"))
	s := l.events.accepted[0]
	l.sched.Turn(func(b *task.Batch) { _ = s.WriteHead(b, &Head{Status: 200}, false) })
	for i := range 20_000 {
		l.feed(l.raw.data(1, 0, "x").frame(framePing, 0, 0, make([]byte, 8)...))
		l.sched.Turn(func(b *task.Batch) {
			s.Discard(b, 1)
			_, _ = s.Write(b, []byte("y"))
		})
		l.feed(l.raw.u32(frameWindowUpdate, 0, 1).u32(frameWindowUpdate, 1, 1))
		id := uint32(2*i + 3)
		l.feed(l.raw.get(id, flagEndStream))
		l.sched.Turn(func(b *task.Batch) {
			r := l.events.accepted[len(l.events.accepted)-1]
			_ = r.WriteHead(b, &Head{Status: 404}, true)
			r.Done(b)
		})
		l.pipe.sent = nil
	}
	if err := l.c.Err(); err != nil {
		t.Error(err)
	}
}

// TestCreditInSmallPortionsIsNotAFlood: a peer that reads fast, or has let much come
// before it read, may return the credit for it every 4 KiB, on both levels.
func TestCreditInSmallPortionsIsNotAFlood(t *testing.T) {
	l := newLone(t, true, Config{})
	l.feed(l.raw.settings(setting{settingInitialWindowSize, 16 << 20}).u32(frameWindowUpdate, 0, 16<<20))
	l.feed(l.raw.headers(1, 0, ":method", "CONNECT", ":authority", "a:1"))
	s := l.events.accepted[0]
	l.sched.Turn(func(b *task.Batch) { _ = s.WriteHead(b, &Head{Status: 200}, false) })
	portion := make([]byte, 64<<10)
	for sent := 0; sent < 16<<20; {
		l.sched.Turn(func(b *task.Batch) {
			n, err := s.Write(b, portion)
			if err != nil || n == 0 {
				t.Fatalf("wrote %d bytes: %v", n, err)
			}
			sent += n
		})
		l.pipe.sent = nil
	}
	for range 16 << 20 / (4 << 10) {
		l.feed(l.raw.u32(frameWindowUpdate, 0, 4<<10).u32(frameWindowUpdate, 1, 4<<10))
	}
	if err := l.c.Err(); err != nil {
		t.Error(err)
	}
}

func TestTooLargeRequestIsMarked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fields int
		size   int
	}{{"bytes", 7, 10_000}, {"fields", 300, 1}, {"one long field", 1, 100_000}} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLone(t, true, Config{})
			block := []byte{0x82, 0x86, 0x84}
			for range tt.fields {
				block = l.raw.enc.field(block, "cookie", strings.Repeat("c", tt.size))
			}
			n := min(len(block), maxFrame)
			l.raw.frame(frameHeaders, flagEndStream, 1, block[:n]...)
			for block = block[n:]; len(block) > maxFrame; block = block[maxFrame:] {
				l.raw.frame(frameContinuation, 0, 1, block[:maxFrame]...)
			}
			l.feed(l.raw.frame(frameContinuation, flagEndHeaders, 1, block...))
			if len(l.events.accepted) != 1 {
				t.Fatalf("not accepted; sent %s; %v", l.output(), l.c.Err())
			}
			if h := l.events.accepted[0].Head(); !h.TooLarge || h.Path != "/" {
				t.Errorf("head is not marked: %d fields", len(h.Fields))
			}
		})
	}
}

// TestIndexedAmplification: a small block that stands for a large section costs
// no more memory than the limit.
func TestIndexedAmplification(t *testing.T) {
	l := newLone(t, true, Config{})
	block := []byte{0x82, 0x86, 0x84, 0x40} // and a literal that enters the table
	block = appendString(block, "x-a")
	block = appendString(block, strings.Repeat("{", 3900))
	for range 8000 {
		block = append(block, 0x80|62)
	}
	l.feed(l.raw.frame(frameHeaders, flagEndStream|flagEndHeaders, 1, block...))
	h := l.events.accepted[0].Head()
	if !h.TooLarge || len(h.Fields) > 20 {
		t.Errorf("%d fields kept, TooLarge %v", len(h.Fields), h.TooLarge)
	}
}

func TestSurplusIsRefused(t *testing.T) {
	l := newLone(t, true, Config{})
	for i := range 130 {
		l.raw.get(uint32(2*i+1), 0)
	}
	l.feed(l.raw)
	if n := len(l.events.accepted); n != 100 {
		t.Errorf("%d streams accepted, want 100", n)
	}
	if n := strings.Count(l.output(), "REFUSED_STREAM"); n != 30 {
		t.Errorf("%d refused, want the surplus of 30", n)
	}
	if l.c.Err() != nil {
		t.Error(l.c.Err())
	}
	// One that ends makes room for one, also while its owner still works.
	l.feed(l.raw.reset(1, Cancel).get(1001, 0))
	if got := l.output(); got != "" || len(l.events.accepted) != 101 {
		t.Errorf("sent %q", got)
	}
}

// TestWorkingHandlersAreCounted: a peer that resets streams does not get more
// work done at once than twice the limit.
func TestWorkingHandlersAreCounted(t *testing.T) {
	l := newLone(t, true, Config{MaxConcurrentStreams: 100})
	id := uint32(1)
	for range 250 {
		l.feed(l.raw.get(id, flagEndStream))
		l.feed(l.raw.reset(id, Cancel))
		id += 2
	}
	if n := len(l.events.accepted); n != 200 {
		t.Errorf("%d handlers at work, want 200", n)
	}
	for _, s := range l.events.accepted {
		l.sched.Turn(s.Done)
	}
	l.feed(l.raw.get(id, flagEndStream))
	if n := len(l.events.accepted); n != 201 {
		t.Error("the place of those that let go is not free")
	}
}

// TestPeerThatDoesNotReadIsCut bounds the output that headers and control frames
// make.
func TestPeerThatDoesNotReadIsCut(t *testing.T) {
	l := newLone(t, true, Config{})
	l.pipe.limit = 1000
	for i := uint32(1); l.c.Err() == nil; i += 2 {
		l.feed(l.raw.get(i, flagEndStream))
		if len(l.events.accepted) == 0 {
			t.Fatal(l.output())
		}
		s := l.events.accepted[len(l.events.accepted)-1]
		l.sched.Turn(func(b *task.Batch) {
			_ = s.WriteHead(b, &Head{Status: 200, Fields: []Field{{"x-a", strings.Repeat("{", 10_000)}}}, true)
			s.Done(b)
		})
		if q := l.c.out.queued(); q > hardLimit+20_000 {
			t.Fatalf("%d bytes queued", q)
		}
	}
	if l.pipe.cause == nil {
		t.Error("the transport was not aborted")
	}
}

func TestNegativeWindow(t *testing.T) {
	l := newLone(t, true, Config{})
	l.feed(l.raw.headers(1, 0, ":method", "CONNECT", ":authority", "a:1"))
	s := l.events.accepted[0]
	var woken wakes
	s.SetWaker(&woken)
	l.sched.Turn(func(b *task.Batch) {
		_ = s.WriteHead(b, &Head{Status: 200}, false)
		_, _ = s.Write(b, make([]byte, 60_000))
	})
	l.feed(l.raw.settings(setting{settingInitialWindowSize, 50_000}))
	l.output()
	write := func(want int) {
		t.Helper()
		l.sched.Turn(func(b *task.Batch) {
			if n, err := s.Write(b, make([]byte, 100)); n != want || err != nil {
				t.Errorf("Write = %d, %v, want %d", n, err, want)
			}
		})
	}
	write(0) // the window is -10,000
	l.feed(l.raw.u32(frameWindowUpdate, 1, 10_000))
	write(0)
	if woken != 0 {
		t.Error("woken for nothing")
	}
	l.feed(l.raw.u32(frameWindowUpdate, 1, 7))
	if woken == 0 {
		t.Error("not woken")
	}
	write(7)
	if got := l.output(); got != "DATA 1 7" {
		t.Errorf("sent %q", got)
	}
}

// TestFramesCutAnywhere feeds a conversation byte by byte.
func TestFramesCutAnywhere(t *testing.T) {
	l := newLone(t, true, Config{})
	p := l.raw.get(1, 0, "x-a", strings.Repeat("{", 3000)).data(1, 0, "hello ").
		frame(frameData, flagPadded, 1, 3, 'w', 'o', 0, 0, 0).data(1, 0, "rld").headers(1, flagEndStream, "x-t", "1").p
	l.raw.p = nil
	for i := range p {
		l.sched.Turn(func(b *task.Batch) { _ = l.c.Receive(b, p[i:i+1]) })
	}
	s := l.events.accepted[0]
	if got := string(s.Peek()); got != "hello world" || len(s.Trailers()) != 1 {
		t.Errorf("body %q, trailers %v", got, s.Trailers())
	}
	if l.c.partial != nil {
		t.Error("a buffer is kept between frames")
	}
}

// TestClientAnswers feeds a client answers to a GET on stream 1, a HEAD on 3 and a
// CONNECT on 5.
func TestClientAnswers(t *testing.T) {
	const end = flagEndStream
	tests := []struct {
		name string
		in   func(r *raw)
		want string
	}{
		{"response", func(r *raw) { r.headers(1, 0, ":status", "200", "content-length", "2").data(1, end, "ok") }, ""},
		{"response to HEAD", func(r *raw) { r.headers(3, end, ":status", "200", "content-length", "2") }, ""},
		{"content for HEAD", func(r *raw) { r.headers(3, 0, ":status", "200", "content-length", "2").data(3, end, "ok") }, "RST_STREAM 3 PROTOCOL_ERROR"},
		{"not modified", func(r *raw) { r.headers(1, end, ":status", "304", "content-length", "2") }, ""},
		{"tunnel with a content-length", func(r *raw) { r.headers(5, 0, ":status", "200", "content-length", "0").data(5, 0, "x") }, ""},
		{"refused tunnel", func(r *raw) { r.headers(5, 0, ":status", "503", "content-length", "0").data(5, 0, "x") }, "RST_STREAM 5 PROTOCOL_ERROR"},
		{"no status", func(r *raw) { r.headers(1, end, "x-a", "1") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"status 101", func(r *raw) { r.headers(1, 0, ":status", "101") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"status of four digits", func(r *raw) { r.headers(1, 0, ":status", "2000") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"interim that ends", func(r *raw) { r.headers(1, end, ":status", "100") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"DATA after an interim head", func(r *raw) { r.headers(1, 0, ":status", "100").data(1, 0, "x") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"many interim heads", func(r *raw) {
			for range maxInterim + 1 {
				r.headers(1, 0, ":status", "103")
			}
		}, "RST_STREAM 1 ENHANCE_YOUR_CALM"},
		{"second head", func(r *raw) { r.headers(1, 0, ":status", "200").headers(1, 0, ":status", "200") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"connection field", func(r *raw) { r.headers(1, 0, ":status", "200", "connection", "close") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"response too short", func(r *raw) { r.headers(1, 0, ":status", "200", "content-length", "3").data(1, end, "ok") }, "RST_STREAM 1 PROTOCOL_ERROR"},
		{"a stream from the server", func(r *raw) { r.headers(2, 0, ":status", "200") }, "GOAWAY 0 PROTOCOL_ERROR"},
		{"a stream that we did not open", func(r *raw) { r.headers(7, 0, ":status", "200") }, "GOAWAY 0 PROTOCOL_ERROR"},
		{"push", func(r *raw) { r.frame(framePushPromise, flagEndHeaders, 1, 0, 0, 0, 2) }, "GOAWAY 0 PROTOCOL_ERROR"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLone(t, false, Config{})
			l.sched.Turn(func(b *task.Batch) {
				for _, m := range []string{"GET", "HEAD"} {
					_, _ = l.c.Open(b, &Head{Method: m, Scheme: "http", Authority: "a", Path: "/"}, true, nil)
				}
				_, _ = l.c.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil)
			})
			l.output()
			tt.in(l.raw)
			l.feed(l.raw)
			if got := l.output(); got != tt.want {
				t.Errorf("sent\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestPeersHeaderLimit(t *testing.T) {
	l := newLone(t, false, Config{})
	l.feed(l.raw.settings(setting{settingMaxHeaderListSize, 1000}))
	l.sched.Turn(func(b *task.Batch) {
		h := Head{Method: "CONNECT", Authority: "a:1", Fields: []Field{{"x-a", strings.Repeat("a", 1000)}}}
		if _, err := l.c.Open(b, &h, false, nil); err != ErrHeadTooLarge {
			t.Errorf("Open = %v", err)
		}
	})
}

func TestLongHeadIsContinued(t *testing.T) {
	l := newLone(t, false, Config{})
	long := strings.Repeat("{", 40_000) // does not shrink in Huffman code
	l.sched.Turn(func(b *task.Batch) {
		h := Head{Method: "CONNECT", Authority: "a:1", Fields: []Field{{"x-a", long}}}
		if _, err := l.c.Open(b, &h, false, nil); err != nil {
			t.Error(err)
		}
	})
	if n := binary.BigEndian.Uint32(l.pipe.sent) >> 8; n != maxFrame {
		t.Errorf("first frame has %d bytes", n)
	}
	if got := l.output(); !strings.HasSuffix(got, "x-a="+long) {
		t.Errorf("sent %.100s", got)
	}
}
