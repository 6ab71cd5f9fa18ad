package h2

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// raw builds frames by hand.
type raw struct {
	p   []byte
	enc encoder
}

func newRaw() *raw { return &raw{enc: newEncoder()} }

func (r *raw) frame(typ frameType, flags uint8, id uint32, payload ...byte) *raw {
	r.p = appendHeader(r.p, frameHeader{length: len(payload), typ: typ, flags: flags, streamID: id})
	r.p = append(r.p, payload...)
	return r
}

func (r *raw) preface() *raw {
	r.p = append(r.p, preface...)
	return r.settings()
}

func (r *raw) settings(list ...setting) *raw {
	r.p = appendSettings(r.p, list...)
	return r
}

func (r *raw) headers(id uint32, flags uint8, fields ...string) *raw {
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		block = r.enc.field(block, fields[i], fields[i+1])
	}
	return r.frame(frameHeaders, flags|flagEndHeaders, id, block...)
}

// get is the head of a plain request, and more fields.
func (r *raw) get(id uint32, flags uint8, more ...string) *raw {
	return r.headers(id, flags, append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}, more...)...)
}

func (r *raw) data(id uint32, flags uint8, text string) *raw {
	return r.frame(frameData, flags, id, []byte(text)...)
}

func (r *raw) u32(typ frameType, id, value uint32) *raw {
	return r.frame(typ, 0, id, binary.BigEndian.AppendUint32(nil, value)...)
}

func (r *raw) reset(id uint32, code ErrCode) *raw { return r.u32(frameRSTStream, id, uint32(code)) }

// describe tells frames in words, one each, or fails if they are not well-formed.
func describe(t testing.TB, p []byte, dec *hpack.Decoder) []string {
	t.Helper()
	var out []string
	var block []byte
	for len(p) > 0 {
		if len(p) < headerLen {
			t.Fatalf("output ends within a frame header: %q", p)
		}
		h := parseHeader(p)
		if len(p) < headerLen+h.length || h.length > maxFrame {
			t.Fatalf("frame %+v of %d bytes", h, len(p))
		}
		body := p[headerLen : headerLen+h.length]
		p = p[headerLen+h.length:]
		word := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
		end := ""
		if h.has(flagEndStream) {
			end = " END"
		}
		switch h.typ {
		case frameData:
			word("DATA %d %d%s", h.streamID, h.length, end)
		case frameHeaders, frameContinuation:
			if block = append(block, body...); !h.has(flagEndHeaders) {
				continue
			}
			fields, err := dec.DecodeFull(block)
			if err != nil {
				t.Fatalf("header block: %v", err)
			}
			block = nil
			var list strings.Builder
			for _, f := range fields {
				fmt.Fprintf(&list, " %s=%s", f.Name, f.Value)
			}
			word("HEADERS %d%s%s", h.streamID, list.String(), end)
		case frameRSTStream:
			word("RST_STREAM %d %s", h.streamID, ErrCode(binary.BigEndian.Uint32(body)).String())
		case frameSettings:
			if h.has(flagAck) {
				word("SETTINGS ACK")
			} else {
				word("SETTINGS")
			}
		case framePing:
			word("PING ack=%v", h.has(flagAck))
		case frameGoAway:
			word("GOAWAY %d %s", binary.BigEndian.Uint32(body), ErrCode(binary.BigEndian.Uint32(body[4:])).String())
		case frameWindowUpdate:
			word("WINDOW_UPDATE %d %d", h.streamID, binary.BigEndian.Uint32(body))
		default:
			t.Fatalf("frame of type %d", h.typ)
		}
	}
	return out
}

// lone is a connection whose peer is the test.
type lone struct {
	t      testing.TB
	sched  *task.Scheduler
	c      *Conn
	pipe   *pipe
	events *events
	dec    *hpack.Decoder
	raw    *raw
}

func newLone(t testing.TB, server bool, cfg Config) *lone {
	l := &lone{
		t: t, sched: task.NewScheduler(task.Coroutines), pipe: new(pipe), events: new(events),
		dec: hpack.NewDecoder(4096, nil), raw: newRaw(),
	}
	t.Cleanup(l.sched.Close)
	if server {
		l.c = NewServer(l.pipe, cfg, l.events)
		l.raw.preface()
	} else {
		l.c = NewClient(l.pipe, cfg, l.events)
		l.raw.settings()
	}
	l.sched.Turn(l.c.Start)
	l.pipe.sent = nil
	l.feed(l.raw)
	l.output()
	return l
}

// feed pushes what r has collected.
func (l *lone) feed(r *raw) {
	p := r.p
	r.p = nil
	l.sched.Turn(func(b *task.Batch) { _ = l.c.Receive(b, p) })
}

// output returns what the connection has sent since, in words.
func (l *lone) output() string {
	p := l.pipe.sent
	l.pipe.sent = nil
	return strings.Join(describe(l.t, p, l.dec), "\n")
}
