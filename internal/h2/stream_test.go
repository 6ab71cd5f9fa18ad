package h2

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestRequestAndResponse(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	request := Head{
		Method: "POST", Scheme: "http", Authority: "a.example", Path: "/x?y=1",
		Fields: []Field{{"x-one", "1"}, {"x-one", "2"}, {"content-length", "4"}},
	}
	var c *Stream
	d.turn(func(b *task.Batch) {
		c, _ = d.client.Open(b, &request, false, nil)
		if n, err := c.Write(b, []byte("ping")); n != 4 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		if err := c.CloseWrite(b); err != nil {
			t.Error(err)
		}
	})
	d.move()
	s := d.serverEvents.accepted[0]
	if !reflect.DeepEqual(*s.Head(), request) {
		t.Errorf("request %+v, want %+v", *s.Head(), request)
	}
	if got := s.Peek(); string(got) != "ping" || s.ReadErr() != io.EOF {
		t.Errorf("body %q, %v", got, s.ReadErr())
	}
	d.turn(func(b *task.Batch) {
		for _, h := range []Head{{Status: 103, Fields: []Field{{"link", "a"}}}, {Status: 418}} {
			if err := s.WriteHead(b, &h, false); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Write(b, []byte("pong")); err != nil {
			t.Error(err)
		}
		if err := s.WriteTrailers(b, []Field{{"grpc-status", "0"}}); err != nil {
			t.Error(err)
		}
		s.Done(b)
	})
	d.move()
	if h := c.Head(); h.Status != 103 || h.Get("link") != "a" {
		t.Errorf("interim head %+v", h)
	}
	c.NextHead()
	if h := c.Head(); h.Status != 418 {
		t.Errorf("final head %+v", h)
	}
	if string(c.Peek()) != "pong" || c.ReadErr() != io.EOF {
		t.Errorf("body %q, %v", c.Peek(), c.ReadErr())
	}
	if got := c.Trailers(); len(got) != 1 || got[0] != (Field{"grpc-status", "0"}) {
		t.Errorf("trailers %v", got)
	}
	if d.client.Streams() != 0 || d.server.Streams() != 0 || d.server.working != 0 {
		t.Error("a stream is still counted")
	}
}

func TestHalfClose(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c, s := d.open(t)
	d.turn(func(b *task.Batch) {
		_, _ = s.Write(b, []byte("bye"))
		_ = s.CloseWrite(b)
	})
	d.move()
	if string(c.Peek()) != "bye" || c.ReadErr() != io.EOF {
		t.Fatalf("client reads %q, %v", c.Peek(), c.ReadErr())
	}
	d.turn(func(b *task.Batch) {
		if n, err := c.Write(b, []byte("still here")); n != 10 || err != nil {
			t.Errorf("Write after the peer's half-close = %d, %v", n, err)
		}
		_ = c.CloseWrite(b)
	})
	d.move()
	if string(s.Peek()) != "still here" || s.ReadErr() != io.EOF {
		t.Fatalf("server reads %q, %v", s.Peek(), s.ReadErr())
	}
	d.turn(func(b *task.Batch) {
		if _, err := c.Write(b, []byte("x")); err == nil {
			t.Error("wrote after CloseWrite")
		}
	})
}

func TestFlowControlStallsOneStreamAlone(t *testing.T) {
	d := newDuo(t, Config{StreamWindow: 1000}, Config{StreamWindow: 1000})
	c1, s1 := d.open(t)
	c2, s2 := d.open(t)
	var woken wakes
	c1.SetWaker(&woken)
	data := bytes.Repeat([]byte("0123456789"), 300)
	d.turn(func(b *task.Batch) {
		if n, err := c1.Write(b, data); n != 1000 || err != nil {
			t.Fatalf("Write = %d, %v, want the window", n, err)
		}
		if n, _ := c2.Write(b, data[:500]); n != 500 {
			t.Fatalf("the other stream took %d", n)
		}
	})
	d.move()
	if len(s1.Peek()) != 1000 || len(s2.Peek()) != 500 {
		t.Fatalf("arrived: %d and %d", len(s1.Peek()), len(s2.Peek()))
	}
	d.turn(func(b *task.Batch) { s1.Discard(b, 499) })
	d.move()
	if woken != 0 {
		t.Error("credit came back before half the window was consumed")
	}
	d.turn(func(b *task.Batch) { s1.Discard(b, 1) })
	d.move()
	if woken == 0 {
		t.Error("the writer was not woken")
	}
	d.turn(func(b *task.Batch) {
		if n, _ := c1.Write(b, data); n != 500 {
			t.Errorf("took %d, want 500", n)
		}
	})
}

func TestReset(t *testing.T) {
	cause := errors.New("upstream died")
	tests := []struct {
		name string
		do   func(b *task.Batch, s *Stream)
		code ErrCode
	}{
		{"abort", func(b *task.Batch, s *Stream) { s.Abort(b, cause) }, InternalError},
		{"abort with a code", func(b *task.Batch, s *Stream) { s.Abort(b, Cancel) }, Cancel},
		{"reset", func(b *task.Batch, s *Stream) { s.Reset(b, RefusedStream) }, RefusedStream},
		{"let go of", func(b *task.Batch, s *Stream) { s.Done(b) }, Cancel},
		{"let go of after the end", func(b *task.Batch, s *Stream) { _ = s.CloseWrite(b); s.Done(b) }, NoError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDuo(t, Config{}, Config{})
			c, s := d.open(t)
			d.turn(func(b *task.Batch) {
				_, _ = s.Write(b, []byte("before"))
				tt.do(b, s)
			})
			if s.ReadErr() == nil {
				t.Error("our own side does not know")
			}
			d.move()
			if string(c.Peek()) != "before" {
				t.Errorf("what came before the reset was lost: %q", c.Peek())
			}
			if code, ok := c.ResetCode(); !ok || code != tt.code {
				t.Errorf("reset with %v, %v, want %v", code, ok, tt.code)
			}
			if got, want := c.Unprocessed(), tt.code == RefusedStream; got != want {
				t.Errorf("Unprocessed = %v", got)
			}
			if err := c.ReadErr(); tt.code == NoError && err != io.EOF || tt.code != NoError && !errors.Is(err, tt.code) {
				t.Errorf("ReadErr = %v", err)
			}
			d.turn(func(b *task.Batch) {
				if _, err := c.Write(b, []byte("x")); !errors.Is(err, tt.code) {
					t.Errorf("Write = %v", err)
				}
			})
			if d.client.Streams()+d.server.Streams() != 0 {
				t.Error("a stream is still open")
			}
			if d.client.Err() != nil || d.server.Err() != nil {
				t.Error("the connection ended too")
			}
		})
	}
}

func TestSmallWritesShareAFrame(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c, _ := d.open(t)
	d.turn(func(b *task.Batch) {
		_, _ = c.Write(b, []byte("head"))
		_, _ = c.Write(b, []byte("body"))
		_ = c.CloseWrite(b)
	})
	want := append(appendHeader(nil, frameHeader{length: 8, flags: flagEndStream, streamID: c.ID()}), "headbody"...)
	if !bytes.Equal(d.toServer.sent, want) {
		t.Errorf("sent %q, want %q", d.toServer.sent, want)
	}
}

func TestPeekSurvivesArrivals(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c, s := d.open(t)
	var want []byte
	var seen [][]byte
	for i := range 200 {
		part := bytes.Repeat([]byte{byte(i)}, 500)
		d.turn(func(b *task.Batch) { _, _ = c.Write(b, part) })
		d.move()
		want = append(want, part...)
		seen = append(seen, s.Peek())
	}
	for _, p := range seen {
		if !bytes.Equal(p, want[:len(p)]) {
			t.Fatal("bytes moved under the reader")
		}
	}
	if len(s.Peek()) != len(want) {
		t.Fatalf("%d bytes in one piece, want %d", len(s.Peek()), len(want))
	}
	d.turn(func(b *task.Batch) { s.Discard(b, len(want)) })
	if s.in.buf != nil || s.in.retired != nil {
		t.Error("an empty stream owns a buffer")
	}
}

func TestOutputIsSharedFairly(t *testing.T) {
	d := newDuo(t, Config{StreamWindow: 1 << 20}, Config{StreamWindow: 1 << 20})
	d.toServer.limit = 10_000
	const streams = 5
	var clients, servers [streams]*Stream
	for i := range clients {
		clients[i], servers[i] = d.open(t)
	}
	block := make([]byte, 700<<10)
	sent := [streams]int{}
	for i, c := range clients {
		c.SetWaker(wakeFunc(func(b *task.Batch) {
			n, _ := c.Write(b, block[sent[i]:])
			sent[i] += n
		}))
	}
	d.turn(func(b *task.Batch) {
		for i := range clients {
			clients[i].waker.Wake(b)
		}
	})
	least, most := func() int { return min(sent[0], sent[1], sent[2], sent[3], sent[4]) }, func() int {
		return max(sent[0], sent[1], sent[2], sent[3], sent[4])
	}
	for most() < len(block) {
		d.turn(func(b *task.Batch) { _ = d.server.Receive(b, d.toServer.take(b)) })
		if q := d.client.out.queued(); q > highWater+1000 {
			t.Fatalf("%d bytes queued", q)
		}
		if most() > highWater && most()-least() > highWater+3*quantum {
			t.Fatalf("unfair: %v", sent)
		}
		d.turn(func(b *task.Batch) { _ = d.client.Receive(b, d.toClient.take(b)) })
	}
}

type wakeFunc func(b *task.Batch)

func (f wakeFunc) Wake(b *task.Batch) { f(b) }

func TestExtendedConnect(t *testing.T) {
	request := Head{Method: "CONNECT", Scheme: "http", Authority: "a", Path: "/chat", Protocol: "websocket"}
	for _, allowed := range []bool{true, false} {
		d := newDuo(t, Config{}, Config{ExtendedConnect: allowed})
		if d.client.ConnectProtocol() != allowed || !d.client.Settled() {
			t.Errorf("ConnectProtocol is not %v", allowed)
		}
		d.turn(func(b *task.Batch) {
			_, err := d.client.Open(b, &request, false, nil)
			if (err == nil) != allowed {
				t.Errorf("Open = %v", err)
			}
		})
		d.move()
		if !allowed {
			continue
		}
		if got := d.serverEvents.accepted[0].Head(); got.Protocol != "websocket" || got.Path != "/chat" {
			t.Errorf("head %+v", got)
		}
	}
}

func TestPeersStreamLimit(t *testing.T) {
	d := newDuo(t, Config{}, Config{MaxConcurrentStreams: 2})
	var streams [2]*Stream
	for i := range streams {
		streams[i], _ = d.open(t)
	}
	d.turn(func(b *task.Batch) {
		if _, err := d.client.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil); err != ErrNoCapacity {
			t.Errorf("Open above the limit = %v", err)
		}
		streams[0].Done(b)
		if n := d.client.Capacity(); n != 1 {
			t.Errorf("capacity %d after one has ended, want 1", n)
		}
	})
}

// TestWritesBeforeTheirTime: mistakes of a caller are errors, not frames.
func TestWritesBeforeTheirTime(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	d.turn(func(b *task.Batch) {
		_, _ = d.client.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil)
	})
	d.move()
	s := d.serverEvents.accepted[0]
	d.turn(func(b *task.Batch) {
		if _, err := s.Write(b, []byte("x")); err == nil {
			t.Error("wrote before the head")
		}
		for _, status := range []int{0, 99, 1000} {
			if err := s.WriteHead(b, &Head{Status: status}, false); err == nil {
				t.Errorf("sent status %d", status)
			}
		}
		if err := s.WriteHead(b, &Head{Status: 100}, true); err == nil {
			t.Error("ended a stream with an interim head")
		}
		if err := s.WriteHead(b, &Head{Status: 200}, false); err != nil {
			t.Error(err)
		}
		if err := s.WriteHead(b, &Head{Status: 200}, false); err == nil {
			t.Error("sent two final heads")
		}
	})
	d.move()
	if d.client.Err() != nil {
		t.Error(d.client.Err())
	}
}
