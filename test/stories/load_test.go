package stories

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// manyWorld has an application that speaks HTTP at 10.0.0.1:8080.
var manyWorld = world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http")))

// runMany starts the program for it, with an application that is cheap to connect
// to and answers each request with respond.
func runMany(t *testing.T, respond func(conn net.Conn, path string) error, flags ...string) *program {
	t.Helper()
	p := run(t, manyWorld, flags...)
	p.NodeProxy(p.IP(21), idOf("echo"))
	p.TCP("echo", p.Addr(21, 8080), func(conn *net.TCPConn) {
		for in := bufio.NewReaderSize(conn, 2048); ; {
			req, err := http.ReadRequest(in)
			if err != nil || respond(conn, req.URL.Path) != nil {
				return
			}
		}
	})
	return p
}

func respondOK(conn net.Conn, _ string) error {
	_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return err
}

// request makes one request by hand on a stream, and reads the answer to its end.
func request(conn net.Conn, in *bufio.Reader, path string) error {
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: echo\r\n\r\n", path); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != 200 || string(body) != "ok") {
		err = fmt.Errorf("status %d %q", resp.StatusCode, body)
	}
	return err
}

// crowd has n do something at once, and returns what went wrong.
func crowd(n int, do func(i int) error) error {
	var all sync.WaitGroup
	failed := make([]error, n)
	for i := range n {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d failed, the first: %w", len(failed), n, failed[0])
}

// TestLoadParallelStreams: a thousand requests under way at the same time.
func TestLoadParallelStreams(t *testing.T) {
	const streams = 1000
	var arrived atomic.Int32
	all := make(chan struct{})
	p := runMany(t, func(conn net.Conn, path string) error {
		if path == "/all" {
			if arrived.Add(1) == streams {
				close(all)
			}
			<-all
		}
		return respondOK(conn, path)
	})
	before := p.measure()
	once := func(ctx context.Context) error {
		stream, err := p.client.Dial(ctx, p.addr, "10.0.0.1:8080")
		if err != nil {
			return err
		}
		defer stream.Close()
		return request(stream, bufio.NewReaderSize(stream, 1024), "/all")
	}
	if err := crowd(streams, func(int) error { return once(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	p.Eventually("no stream is open", func() bool { return strings.Contains(p.page(15020, "/metrics"), "\nwaypoint_streams_open 0\n") })
	now := p.measure()
	t.Logf("%v goroutines and %.1f MiB before, %v and %.1f MiB after", before.goroutines, before.rss/(1<<20), now.goroutines, now.rss/(1<<20))
}

// TestLoadIdleConnections: a connection inside a tunnel that has carried a request and
// is idle costs no goroutine, no descriptor and little memory.
func TestLoadIdleConnections(t *testing.T) {
	const idle = 10_000
	p := runMany(t, respondOK)
	if err := crowd(100, func(int) error { return open1(t.Context(), p) }); err != nil { // what is there for any number
		t.Fatal(err)
	}
	before := p.measure()
	streams := make(chan net.Conn, idle)
	if err := crowd(100, func(int) error {
		for range idle / 100 {
			stream, err := p.client.Dial(t.Context(), p.addr, "10.0.0.1:8080")
			if err != nil {
				return err
			}
			streams <- stream
			if err := request(stream, bufio.NewReaderSize(stream, 512), "/"); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	now := p.measure()
	tunnels := float64(idle/100 + 1)
	per := (now.heap - before.heap) / float64(idle)
	t.Logf("%d idle connections: %.0f bytes each of heap, %.0f of resident memory, %.2f goroutines", idle, per,
		(now.rss-before.rss)/float64(idle), (now.goroutines-before.goroutines)/float64(idle))
	if per > 8<<10 {
		t.Errorf("%.0f bytes of heap an idle connection, expected less than 8 KiB", per)
	}
	// Those of the tunnels, on either side.
	if more := now.goroutines - before.goroutines; more > 4*tunnels+idleCoroutines {
		t.Errorf("%.0f goroutines more, of %.0f tunnels", more, tunnels)
	}
	if more := now.fds - before.fds; more > 2*tunnels+20 {
		t.Errorf("%.0f descriptors more, of %.0f tunnels", more, tunnels)
	}
	close(streams)
	n := 0
	for stream := range streams { // each is still good
		if n++; n%100 == 0 {
			if err := request(stream, bufio.NewReaderSize(stream, 512), "/again"); err != nil {
				t.Fatalf("connection %d: %v", n, err)
			}
		}
		stream.Close()
	}
}

// open1 opens a connection, makes one request and leaves.
func open1(ctx context.Context, p *program) error {
	stream, err := p.client.Dial(ctx, p.addr, "10.0.0.1:8080")
	if err != nil {
		return err
	}
	defer stream.Close()
	return request(stream, bufio.NewReaderSize(stream, 512), "/")
}

// TestLoadManyConnectionsAtOnce: 2,100 clients that connect, ask once and leave, all at
// the same time.
func TestLoadManyConnectionsAtOnce(t *testing.T) {
	const clients = 2100
	p := runMany(t, respondOK)
	before := p.measure()
	took := make([]time.Duration, clients)
	if err := crowd(clients, func(i int) error {
		start := time.Now()
		err := open1(t.Context(), p)
		took[i] = time.Since(start)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	t.Logf("%d connections: median %v, worst %v", clients, took[clients/2], took[clients-1])
	if worst := took[clients-1]; worst > 10*time.Second {
		t.Errorf("the worst took %v", worst)
	}
	tunnels := float64(clients/100 + 1)
	p.settles(measured{goroutines: before.goroutines + 4*tunnels, fds: before.fds + 2*tunnels})
}

// TestLoadOneAfterTheOther: 20,000 requests, each on a connection of its own. None
// fails, and none is in the metrics as if it had.
func TestLoadOneAfterTheOther(t *testing.T) {
	const requests = 20_000
	p := runMany(t, respondOK)
	for range requests {
		if err := open1(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	all, well := 0.0, 0.0
	for line := range strings.Lines(p.page(15020, "/metrics")) {
		if strings.HasPrefix(line, "istio_requests_total{") {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
				t.Fatal(err)
			}
			all += n
			if containsAll(line, []string{`response_code="200"`, `response_flags="-"`}) {
				well += n
			}
		}
	}
	if all != requests || well != requests {
		t.Errorf("the metrics have %v requests, %v of them without a fault, expected %d", all, well, requests)
	}
}

// TestLoadMemoryAfterBurst: 300 tunnels with a request under way on each, and what is
// left of them.
func TestLoadMemoryAfterBurst(t *testing.T) {
	const tunnels = 300
	p := runMany(t, respondOK)
	burst := func() error {
		return crowd(tunnels, func(int) error {
			tunnel, err := p.client.Tunnel(t.Context(), p.addr)
			if err != nil {
				return err
			}
			defer tunnel.Close()
			stream, err := tunnel.Connect(t.Context(), "10.0.0.1:8080")
			if err != nil {
				return err
			}
			return request(stream, bufio.NewReaderSize(stream, 512), "/")
		})
	}
	if err := burst(); err != nil { // all code and pools are there
		t.Fatal(err)
	}
	before := p.measure()
	for range 5 {
		if err := burst(); err != nil {
			t.Fatal(err)
		}
	}
	p.settles(before)
	now := p.measure()
	t.Logf("heap %.1f MiB before, %.1f after; resident %.1f and %.1f", before.heap/(1<<20), now.heap/(1<<20), before.rss/(1<<20), now.rss/(1<<20))
	if now.heap > 1.2*before.heap {
		t.Errorf("the heap was %.1f MiB and is %.1f", before.heap/(1<<20), now.heap/(1<<20))
	}
}

// TestLoadVanishingClients: nodes that go without a word, before, during and after
// requests, leave nothing behind.
func TestLoadVanishingClients(t *testing.T) {
	const cycles = 1000
	p := runMany(t, func(conn net.Conn, path string) error {
		if path == "/never" {
			if _, err := conn.Read(make([]byte, 1)); err == nil { // until the waypoint lets go
				return errors.New("more came")
			}
		}
		return respondOK(conn, path)
	})
	cycle := func(i int) error {
		tunnel, err := p.client.Tunnel(t.Context(), p.addr)
		if err != nil {
			return err
		}
		defer tunnel.Close() // cut, without a word
		stream, err := tunnel.Connect(t.Context(), "10.0.0.1:8080")
		if err != nil {
			return err
		}
		switch i % 4 {
		case 0:
			return request(stream, bufio.NewReaderSize(stream, 512), "/")
		case 1:
			_, err = io.WriteString(stream, "GET /never HTTP/1.1\r\nHost: echo\r\n\r\n")
		case 2:
			_, err = io.WriteString(stream, "POST / HTTP/1.1\r\nHost: echo\r\nContent-Length: 1000\r\n\r\nhalf")
		default: // it says nothing
		}
		return err
	}
	for i := range 8 { // all that is made once is there
		if err := cycle(i); err != nil {
			t.Fatal(err)
		}
	}
	p.settles(measured{goroutines: 60, fds: 60})
	before := p.measure()
	if err := crowd(4, func(worker int) error {
		for i := range cycles / 4 {
			if err := cycle(worker + i); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p.settles(before)
	now := p.measure()
	t.Logf("%d cycles: heap %.1f MiB before, %.1f after", cycles, before.heap/(1<<20), now.heap/(1<<20))
	if grown := now.heap - before.heap; grown > 4<<20 {
		t.Errorf("the heap has grown by %.1f MiB", grown/(1<<20))
	}
}

// TestLoadSlowReaders: clients that read 1 MB/s of a large response hold the application
// back, and are not made up for by the waypoint's memory.
func TestLoadSlowReaders(t *testing.T) {
	for _, readers := range []int{1, 50} {
		t.Run(fmt.Sprintf("%d readers", readers), func(t *testing.T) { slowReaders(t, readers) })
	}
}

func slowReaders(t *testing.T, readers int) {
	const span, whole = 20 * time.Second, 1 << 30
	var written, read atomic.Int64
	p := runMany(t, func(conn net.Conn, path string) error {
		if path != "/large" {
			return respondOK(conn, path)
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", whole); err != nil {
			return err
		}
		for piece := make([]byte, 64<<10); ; {
			n, err := conn.Write(piece)
			written.Add(int64(n))
			if err != nil {
				return err
			}
		}
	})
	if err := crowd(20, func(int) error { return open1(t.Context(), p) }); err != nil { // what is there anyway
		t.Fatal(err)
	}
	before := p.measure()
	if err := p.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	held := 0.0 // of heap, at the most
	slow := make(chan error, 1)
	go func() { slow <- crowd(readers, func(int) error { return readSlowly(t.Context(), p, span, &read) }) }()
	for err := errReading; err == errReading; {
		select {
		case err = <-slow:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(span / 10):
			held = max(held, p.measure().heap-before.heap)
		}
	}
	peak, err := p.PeakRSS()
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	perReader, resident := held/mib/float64(readers), (float64(peak)-before.rss)/mib
	ahead := float64(written.Load()-read.Load()) / mib / float64(readers)
	t.Logf("%d readers for %v: %.2f MiB of heap each, resident memory %.1f MiB higher at its peak; the application is %.1f MiB ahead of each",
		readers, span, perReader, resident, ahead)
	if perReader > 2 {
		t.Errorf("%.2f MiB a reader are held, expected less than 2", perReader)
	}
	// Garbage may come to as much as what is held, and to 4 MiB in any case.
	if most := 8 + 1.12*float64(readers); resident > most {
		t.Errorf("resident memory has grown by %.1f MiB, expected less than %v", resident, most)
	}
}

var errReading = errors.New("still reading")

// readSlowly reads a megabyte a second of a response, and leaves.
func readSlowly(ctx context.Context, p *program, span time.Duration, read *atomic.Int64) error {
	stream, err := p.client.Dial(ctx, p.addr, "10.0.0.1:8080")
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := io.WriteString(stream, "GET /large HTTP/1.1\r\nHost: echo\r\n\r\n"); err != nil {
		return err
	}
	start := time.Now()
	for tick := time.NewTicker(50 * time.Millisecond); time.Since(start) < span; <-tick.C {
		n, err := io.CopyN(io.Discard, stream, 50_000)
		read.Add(n)
		if err != nil {
			return err
		}
	}
	return nil
}
