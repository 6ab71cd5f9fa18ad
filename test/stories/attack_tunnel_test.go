package stories

import (
	"bytes"
	"crypto/tls"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// rawTunnel is a connection to the waypoint's HBONE port with a client's
// certificate, of which every frame is written by hand.
func (w *town) rawTunnel(who string) *attacker {
	w.t.Helper()
	conn, err := tls.Dial("tcp", w.wp.Addr, &tls.Config{
		Certificates: []tls.Certificate{*w.as(who).Cert}, NextProtos: []string{"h2"}, InsecureSkipVerify: true, // it is the client that is looked at
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	c := newAttacker(w.t, conn)
	c.request, c.refused = connectTo("10.0.0.1:80"), connectTo("10.9.9.9:80")
	return c
}

// connectTo are the fields of a CONNECT.
func connectTo(target string, more ...meshtest.Field) []meshtest.Field {
	return append([]meshtest.Field{{Name: ":method", Value: "CONNECT"}, {Name: ":authority", Value: target}}, more...)
}

// bystanders call all the time while attack runs, on tunnels of their own. None of
// their calls may fail or take long, and at the end nothing is left of the attack:
// neither goroutines, but for the coroutines that are kept for reuse, nor memory.
func (w *town) bystanders(attack func()) {
	w.t.Helper()
	w.check(call{}, w.send(call{from: "prod/bystander"}), want{})
	before := usage()
	var (
		stop    atomic.Bool
		slowest atomic.Int64
		wg      sync.WaitGroup
	)
	for i := range 2 {
		wg.Go(func() {
			pace := time.NewTicker(2 * time.Millisecond)
			defer pace.Stop()
			for !stop.Load() {
				start := time.Now()
				a, err := w.attempt(call{from: "prod/bystander", h2c: i == 1})
				if err != nil || a.status != 200 {
					w.t.Errorf("a bystander's call: %d, %v", a.status, err)
					return
				}
				slowest.Store(max(slowest.Load(), int64(time.Since(start))))
				<-pace.C
			}
		})
	}
	attack()
	stop.Store(true)
	wg.Wait()
	if took := time.Duration(slowest.Load()); took > 2*time.Second {
		w.t.Errorf("a bystander waited %v", took)
	}
	most := load{before.goroutines + keptCoroutines + 10, before.heap + 24<<20}
	after := usage()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); (after.goroutines > most.goroutines || after.heap > most.heap) && time.Now().Before(end); after = usage() {
		<-look.C
	}
	if after.goroutines > most.goroutines {
		buf := make([]byte, 1<<20)
		w.t.Errorf("%d goroutines, %d before\n%s", after.goroutines, before.goroutines, buf[:runtime.Stack(buf, true)])
	}
	if after.heap > most.heap {
		w.t.Errorf("%d MiB of heap, %d before", after.heap>>20, before.heap>>20)
	}
}

// keptCoroutines is how many coroutines a waypoint keeps for reuse.
const keptCoroutines = 256

type load struct {
	goroutines int
	heap       int64
}

func usage() load {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return load{runtime.NumGoroutine(), int64(m.HeapAlloc)}
}

// flood repeats frames until the connection ends, n times at most, and returns its
// fate.
func (c *attacker) flood(n int, frames func(i int) error) string {
	heard := make(chan string, 1)
	go func() { heard <- c.fate() }()
	for i := range n {
		select {
		case fate := <-heard:
			return fate
		default:
			if frames(i) != nil {
				return <-heard
			}
		}
	}
	return <-heard
}

// attackIn opens a connection for an attack: a tunnel, or HTTP/2 inside of one.
func (w *town) attackIn(where string) *attacker {
	w.t.Helper()
	if where == "a tunnel" {
		return w.rawTunnel("prod/attacker")
	}
	return w.innerH2("10.0.0.1:80")
}

// Floods of frames, from a client with a good certificate: the connection is told
// why and ended, and nobody else notices.
func TestAttackFloods(t *testing.T) {
	const calm = "GOAWAY ENHANCE_YOUR_CALM"
	for _, tt := range []struct {
		name  string
		n     int
		flood func(c *attacker, i int) error
		want  string
	}{
		{"rapid reset", 20000, func(c *attacker, _ int) error {
			id := c.next
			c.next += 2
			return errors2(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(c.request), EndHeaders: true}),
				c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
		}, calm},
		{"made-you reset: windows that overflow", 20000, func(c *attacker, _ int) error {
			id := c.next
			c.next += 2
			return errors2(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(c.request), EndHeaders: true}),
				c.framer.WriteWindowUpdate(id, 1<<31-1))
		}, calm},
		{"made-you reset: increments of zero", 20000, func(c *attacker, _ int) error {
			id := c.next
			c.next += 2
			return errors2(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(c.request), EndHeaders: true}),
				c.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0}))
		}, calm},
		{"made-you reset: heads that are none", 20000, func(c *attacker, _ int) error {
			id := c.next
			c.next += 2
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block([]meshtest.Field{{Name: "x", Value: "y"}}), EndHeaders: true})
		}, calm},
		{"refused targets", 20000, func(c *attacker, _ int) error {
			id := c.next
			c.next += 2
			return errors2(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(c.refused), EndHeaders: true}),
				c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
		}, calm},
		{"pings", 200000, func(c *attacker, _ int) error { return c.framer.WritePing(false, [8]byte{}) }, calm},
		{"settings", 200000, func(c *attacker, _ int) error {
			return c.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		}, calm},
		{"settings that flap the windows", 200000, func(c *attacker, i int) error {
			return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i % 2 * 1000)})
		}, calm},
		{"window updates", 200000, func(c *attacker, _ int) error { return c.framer.WriteWindowUpdate(0, 1) }, calm},
		{"priorities", 200000, func(c *attacker, _ int) error { return c.framer.WritePriority(1, http2.PriorityParam{Weight: 3}) }, calm},
		{"unknown frames", 200000, func(c *attacker, _ int) error { return c.framer.WriteRawFrame(0xbe, 0, 0, nil) }, calm},
		{"empty data", 200000, func(c *attacker, i int) error {
			if i == 0 {
				c.open(c.request, false)
			}
			return c.framer.WriteData(1, false, nil)
		}, calm},
		{"padding alone", 200000, func(c *attacker, i int) error {
			if i == 0 {
				c.open(c.request, false)
			}
			return c.framer.WriteDataPadded(1, false, nil, make([]byte, 10))
		}, calm},
		{"resets of streams long gone", 200000, func(c *attacker, i int) error {
			if i == 0 {
				c.open(c.refused, true)
			}
			return c.framer.WriteRSTStream(1, http2.ErrCodeCancel)
		}, calm},
		{"goodbyes", 200000, func(c *attacker, _ int) error { return c.framer.WriteGoAway(0, http2.ErrCodeNo, nil) }, calm},
		{"a head that never ends", 200000, func(c *attacker, i int) error {
			if i == 0 {
				return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(c.request)})
			}
			return c.framer.WriteContinuation(1, false, []byte{0, 1, 'x', 1, 'y'})
		}, "GOAWAY"},
		{"a head that never ends, of nothing", 200000, func(c *attacker, i int) error {
			if i == 0 {
				return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(c.request)})
			}
			return c.framer.WriteContinuation(1, false, nil)
		}, "GOAWAY"},
		{"table sizes", 200000, func(c *attacker, i int) error {
			if i == 0 {
				return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x20}})
			}
			return c.framer.WriteContinuation(1, false, bytes.Repeat([]byte{0x20}, 1000))
		}, "GOAWAY"},
	} {
		for _, where := range []string{"a tunnel", "a stream of it"} {
			t.Run(tt.name+" in "+where, func(t *testing.T) {
				w := newTown(t, "", nil)
				w.bystanders(func() {
					c := w.attackIn(where)
					got := c.flood(tt.n, func(i int) error { return tt.flood(c, i) })
					// A connection that is cut while we still write may lose its last words.
					if !strings.HasPrefix(got, tt.want) && got != "EOF" && !strings.Contains(got, "reset by") {
						t.Errorf("the connection ended with %q, want %q", got, tt.want)
					}
					c.Close()
				})
				// What is asked and taken back costs the application little: as many
				// requests as an honest client may make at a time, a few times over.
				if n := len(w.http["echo-v1"].Requests()) + len(w.http["echo-v2"].Requests()); n > 2000 {
					t.Errorf("%d requests have reached the applications", n)
				}
			})
		}
	}
}

func errors2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Violations of the protocol that end one connection, with the code that RFC 9113
// has for them.
func TestAttackViolations(t *testing.T) {
	w := newTown(t, "", nil)
	raw := func(typ http2.FrameType, flags http2.Flags, id uint32, payload ...byte) func(*attacker) error {
		return func(c *attacker) error { return c.framer.WriteRawFrame(typ, flags, id, payload) }
	}
	opened := func(then ...func(*attacker) error) func(*attacker) error {
		return func(c *attacker) error {
			c.open(connectTo("10.0.0.1:80"), false)
			for _, f := range then {
				if err := f(c); err != nil {
					return err
				}
			}
			return nil
		}
	}
	settings := func(id http2.SettingID, v uint32) func(*attacker) error {
		return func(c *attacker) error { return c.framer.WriteSettings(http2.Setting{ID: id, Val: v}) }
	}
	for _, tt := range []struct {
		name  string
		frame func(*attacker) error
		want  string
	}{
		{"a frame too large", raw(http2.FrameData, 0, 1, make([]byte, 20000)...), "GOAWAY FRAME_SIZE_ERROR"},
		{"data on stream 0", raw(http2.FrameData, 0, 0, 1), "GOAWAY PROTOCOL_ERROR"},
		{"data on an idle stream", raw(http2.FrameData, 0, 1, 1), "GOAWAY PROTOCOL_ERROR"},
		{"an even stream", func(c *attacker) error {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2, BlockFragment: c.block(connectTo("10.0.0.1:80")), EndHeaders: true})
		}, "GOAWAY PROTOCOL_ERROR"},
		{"a stream below the last", func(c *attacker) error {
			c.next = 5
			c.open(connectTo("10.0.0.1:80"), false)
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.block(connectTo("10.0.0.1:80")), EndHeaders: true})
		}, "GOAWAY"},
		{"a promise", raw(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, 0, 0, 0, 2), "GOAWAY PROTOCOL_ERROR"},
		{"a continuation of nothing", raw(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1), "GOAWAY PROTOCOL_ERROR"},
		{"data inside of a head", func(c *attacker) error {
			return errors2(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(connectTo("10.0.0.1:80"))}), c.framer.WriteData(1, false, []byte("x")))
		}, "GOAWAY PROTOCOL_ERROR"},
		{"an unknown frame inside of a head", func(c *attacker) error {
			return errors2(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block(connectTo("10.0.0.1:80"))}), c.framer.WriteRawFrame(0xbe, 0, 1, nil))
		}, "GOAWAY PROTOCOL_ERROR"},
		{"broken HPACK", func(c *attacker) error {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
		}, "GOAWAY COMPRESSION_ERROR"},
		{"an index that is not there", func(c *attacker) error {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xbe}, EndHeaders: true})
		}, "GOAWAY COMPRESSION_ERROR"},
		{"a table that is too large", func(c *attacker) error {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x3f, 0xff, 0xff, 0xff, 0x7f}, EndHeaders: true})
		}, "GOAWAY COMPRESSION_ERROR"},
		{"padding longer than the frame", opened(raw(http2.FrameData, http2.FlagDataPadded, 1, 200, 1, 2)), "GOAWAY PROTOCOL_ERROR"},
		{"a ping of 7 bytes", raw(http2.FramePing, 0, 0, 1, 2, 3, 4, 5, 6, 7), "GOAWAY FRAME_SIZE_ERROR"},
		{"a ping on a stream", raw(http2.FramePing, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8), "GOAWAY PROTOCOL_ERROR"},
		{"settings of 5 bytes", raw(http2.FrameSettings, 0, 0, 1, 2, 3, 4, 5), "GOAWAY FRAME_SIZE_ERROR"},
		{"an acknowledgement with content", raw(http2.FrameSettings, http2.FlagSettingsAck, 0, 0, 1, 0, 0, 0, 0), "GOAWAY FRAME_SIZE_ERROR"},
		{"settings on a stream", raw(http2.FrameSettings, 0, 1), "GOAWAY PROTOCOL_ERROR"},
		{"a frame size of 0", settings(http2.SettingMaxFrameSize, 0), "GOAWAY PROTOCOL_ERROR"},
		{"a frame size of 2^24", settings(http2.SettingMaxFrameSize, 1<<24), "GOAWAY PROTOCOL_ERROR"},
		{"a window of 2^31", settings(http2.SettingInitialWindowSize, 1<<31), "GOAWAY FLOW_CONTROL_ERROR"},
		{"push of 2", settings(http2.SettingEnablePush, 2), "GOAWAY PROTOCOL_ERROR"},
		{"a window that overflows", func(c *attacker) error { return c.framer.WriteWindowUpdate(0, 1<<31-1) }, "GOAWAY FLOW_CONTROL_ERROR"},
		{"a stream's window that overflows by settings", opened(func(c *attacker) error { return c.framer.WriteWindowUpdate(1, 1<<30) }, settings(http2.SettingInitialWindowSize, 1<<31-1)), "GOAWAY FLOW_CONTROL_ERROR"},
		{"an increment of 0", raw(http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 0), "GOAWAY PROTOCOL_ERROR"},
		{"credit for an idle stream", raw(http2.FrameWindowUpdate, 0, 9, 0, 0, 0, 1), "GOAWAY PROTOCOL_ERROR"},
		{"a reset of an idle stream", raw(http2.FrameRSTStream, 0, 9, 0, 0, 0, 8), "GOAWAY PROTOCOL_ERROR"},
		{"a reset of 3 bytes", opened(raw(http2.FrameRSTStream, 0, 1, 0, 0, 8)), "GOAWAY FRAME_SIZE_ERROR"},
	} {
		c := w.rawTunnel("prod/attacker")
		got := c.flood(1, func(int) error { return tt.frame(c) })
		c.Close()
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	w.check(call{}, w.send(call{}), want{})
}
