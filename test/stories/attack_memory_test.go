package stories

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// endless answers with a body that does not end until the reader goes.
func endless(x *meshtest.Exchange) {
	defer x.Close()
	io.WriteString(x, "HTTP/1.1 200 OK\r\n\r\n") // what follows tells
	for chunk := bytes.Repeat([]byte("x"), 64<<10); ; {
		if _, err := x.Write(chunk); err != nil {
			return
		}
	}
}

// still waits until f has not changed for a tenth of a second.
func (w *town) still(what string, f func() int64) {
	w.t.Helper()
	last, since := f(), time.Now()
	w.Eventually(what, func() bool {
		if now := f(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
}

// Clients that ask and do not read: what is held for each is bounded, whatever
// they ask for, and others are served.
func TestAttackZeroWindows(t *testing.T) {
	const streams = 60 // which share one tunnel to the node proxy
	for _, inner := range []bool{false, true} {
		w := newTown(t, "", nil)
		w.http["echo-v1"].Handle(endless)
		w.check(call{}, w.send(call{to: "echo-v2/"}), want{})
		before := usage()
		w.client.Settings.StreamWindow = 1
		var c *attacker
		if inner {
			c = w.innerH2("10.0.0.2:80")
		} else {
			c = w.rawTunnel("prod/attacker")
		}
		c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		for range streams {
			if inner {
				c.open(c.request, true)
				continue
			}
			id := c.open(connectTo("10.0.0.2:80"), false)
			c.must(c.framer.WriteData(id, false, []byte("GET / HTTP/1.1\r\nHost: echo-v1\r\n\r\n")))
		}
		c.must(c.framer.WritePing(false, [8]byte{1}))
		w.Eventually("all requests are at the application", func() bool { return len(w.http["echo-v1"].Requests()) == streams })
		w.still("nothing moves any more", func() int64 { return received(w) })
		held := usage().heap - before.heap
		t.Logf("inside of a tunnel %v: %d KiB held a stream, by all parties of this process", inner, held>>10/streams)
		if held > streams<<20 {
			t.Errorf("%d MiB held for %d streams that nobody reads", held>>20, streams)
		}
		w.check(call{}, w.send(call{to: "echo-v2/"}), want{app: "echo-v2"})
		if got := echoOnce(w.as("prod/other").GRPC(w.wp.Addr, vipOf("echo-v1:7070")), "/any.Service/Method"); got != "echo-v1" || w.nodes["echo-v1"].Accepted() != 1 {
			t.Errorf("another client of the same pod: %s, over %d tunnels", got, w.nodes["echo-v1"].Accepted())
		}
		c.Close()
		w.Eventually("all is let go of", func() bool { return usage().heap < before.heap+16<<20 })
	}
}

// received is how many bytes the node proxies have had from applications.
func received(w *town) (n int64) {
	for _, node := range w.nodes {
		for _, c := range node.Connects() {
			n += int64(len(c.Received()))
		}
	}
	return n
}

// A client that asks for answers and does not read its socket: they do not pile up.
func TestAttackUnreadAnswers(t *testing.T) {
	for name, frames := range map[string]func(c *attacker) error{
		"pings":    func(c *attacker) error { return c.framer.WritePing(false, [8]byte{}) },
		"settings": func(c *attacker) error { return c.framer.WriteSettings() },
		"CONNECTs that are refused": func(c *attacker) error {
			id := c.next
			c.next += 2
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(c.refused), EndStream: true, EndHeaders: true})
		},
		"requests that are refused": func(c *attacker) error {
			id := c.next
			c.next += 2
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(h2Request("GET", "", "")), EndStream: true, EndHeaders: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, "", func(o *app.Options) { o.AccessLog = "off" }) // the test would keep it in memory
			w.bystanders(func() {
				before := usage()
				c := w.rawTunnel("prod/attacker")
				c.must(c.conn.(interface{ SetWriteDeadline(time.Time) error }).SetWriteDeadline(time.Now().Add(700 * time.Millisecond)))
				n := 0
				for ; n < 1000000; n++ {
					if frames(c) != nil {
						break
					}
				}
				if held := usage().heap - before.heap; held > 32<<20 {
					t.Errorf("%d MiB held after %d frames", held>>20, n)
				}
				t.Logf("%d frames were taken", n)
				c.Close()
			})
		})
	}
}

// Requests one behind the other, from a client that reads no answers: a few are
// served, and the rest stays where it is.
func TestAttackPipelining(t *testing.T) {
	w := newTown(t, "", nil)
	stalled := w.as("prod/stalled")
	stalled.Settings.StreamWindow = 1000
	stream, err := stalled.Dial(t.Context(), w.wp.Addr, "10.0.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	before := usage()
	requests := strings.Repeat("GET / HTTP/1.1\r\nHost: echo-v1\r\n\r\n", 1000)
	if err := stream.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for err == nil && sent < 1000000 {
		_, err = io.WriteString(stream, requests)
		sent += 1000
	}
	served := func() int64 { return int64(len(w.http["echo-v1"].Requests())) }
	w.still("no more is served", served)
	if held := usage().heap - before.heap; served() > 1000 || held > 16<<20 {
		t.Errorf("%d of %d requests were served to a client that reads nothing, and %d KiB held", served(), sent, held>>10)
	}
	w.check(call{}, w.send(call{to: "echo-v2/", from: "prod/stalled"}), want{app: "echo-v2"})
}

// A request's body that nobody reads: the client is held up, and its other streams
// are not.
func TestAttackUnreadBodies(t *testing.T) {
	w := newTown(t, "", nil)
	release := make(chan struct{})
	w.http["echo-v1"].Handle(func(x *meshtest.Exchange) {
		<-release
		x.Close()
	})
	defer close(release)
	var sent atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	for range 20 {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://10.0.0.2:80/", readerFunc(func(p []byte) (int, error) {
			sent.Add(int64(len(p)))
			return len(p), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		w.Go(func(context.Context) {
			if resp, err := w.client.HTTP(w.wp.Addr).Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	w.Eventually("bodies flow", func() bool { return sent.Load() > 1<<20 })
	w.still("the clients are held up", sent.Load)
	t.Logf("%d KiB a stream were taken", sent.Load()>>10/20)
	if sent.Load() > 20*16<<20 {
		t.Errorf("%d MiB were taken of what nobody reads", sent.Load()>>20)
	}
	w.check(call{}, w.send(call{to: "echo-v2/"}), want{app: "echo-v2"}) // the same client, the same tunnel
	cancel()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
