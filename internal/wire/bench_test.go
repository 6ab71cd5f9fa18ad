package wire

import (
	"io"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// pong answers every receive with as many bytes.
type pong struct{ c *Conn }

func (p pong) Receive(b *task.Batch, in []byte) error {
	_, err := p.c.Write(b, in)
	return err
}
func (pong) Closed(*task.Batch, error) {}

// pingPong measures one small record there and back.
func pingPong(b *testing.B, c *Conn, peer io.ReadWriter, size int) {
	done := make(chan struct{})
	go func() { c.Serve(pong{c}); close(done) }()
	p, q := make([]byte, size), make([]byte, size)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := peer.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(peer, q); err != nil {
			b.Fatal(err)
		}
	}
	c.sched.Turn(func(b *task.Batch) { c.Abort(b, nil) })
	<-done
}

func BenchmarkPingPong(b *testing.B) {
	for _, bench := range []struct {
		name string
		size int
	}{{"size=1", 1}, {"size=1K", 1 << 10}, {"size=16K", 16 << 10}} {
		b.Run("tls/"+bench.name, func(b *testing.B) {
			c, peer := overTLS(b, Options{})
			pingPong(b, c, peer, bench.size)
		})
		b.Run("tcp/"+bench.name, func(b *testing.B) {
			c, peer := overTCP(b, Options{})
			pingPong(b, c, peer, bench.size)
		})
	}
}

// BenchmarkBulk measures the way of bytes to a peer that reads as fast as it can.
func BenchmarkBulk(b *testing.B) {
	chunk := payload(64 << 10)
	for _, name := range []string{"tls", "tcp"} {
		b.Run(name, func(b *testing.B) {
			var c *Conn
			var peer io.ReadCloser
			if name == "tls" {
				c, peer = overTLS(b, Options{})
			} else {
				c, peer = overTCP(b, Options{})
			}
			done := make(chan struct{})
			go func() { io.Copy(io.Discard, peer); close(done) }()
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				if err := writeAll(b, c, chunk); err != nil {
					b.Fatal(err)
				}
			}
			c.sched.Turn(func(b *task.Batch) { c.Abort(b, nil) })
			<-done
		})
	}
}

// Small records cost no allocation of ours, in either direction.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop things")
	}
	for name, run := range map[string]func(t *testing.T) (*Conn, io.ReadWriter){
		"TCP": func(t *testing.T) (*Conn, io.ReadWriter) { c, p := overTCP(t, Options{}); return c, p },
		"TLS": func(t *testing.T) (*Conn, io.ReadWriter) { c, p := overTLS(t, Options{}); return c, p },
	} {
		t.Run(name, func(t *testing.T) {
			c, peer := run(t)
			done := make(chan struct{})
			go func() { c.Serve(pong{c}); close(done) }()
			p := make([]byte, 200)
			exchange := func() {
				if _, err := peer.Write(p); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(peer, p); err != nil {
					t.Fatal(err)
				}
			}
			exchange()
			n := testing.AllocsPerRun(500, exchange)
			c.sched.Turn(func(b *task.Batch) { c.Abort(b, nil) })
			<-done
			if n > 0 {
				t.Errorf("%v allocations a round trip, want none", n)
			}
		})
	}
}
