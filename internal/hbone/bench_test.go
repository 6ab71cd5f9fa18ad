package hbone

import (
	"sync"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// BenchmarkOpen measures a CONNECT on a tunnel that is there, its answer, and
// the end of both sides. The time is that of client and server.
func BenchmarkOpen(b *testing.B) {
	for _, mode := range []task.Mode{task.Coroutines, task.Goroutines} {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			w := newWorld(b, options{mode: mode}, serving(echo))
			fields := []Field{{"forwarded", `for="10.0.0.1:4567";host=reviews.prod.svc.cluster.local`}}
			b.ReportAllocs()
			must(b, w.do(func(t *task.Task) error {
				dst := w.destination()
				for b.Loop() {
					s, err := w.dialer.Open(t, dst, "10.1.2.3:9080", fields)
					if err != nil {
						return err
					}
					if err := s.CloseWrite(t.Batch()); err != nil {
						return err
					}
					if _, err := readAll(t, s); err != nil {
						return err
					}
					s.Done(t.Batch())
				}
				return nil
			}))
		})
	}
}

// BenchmarkPingPong measures one message of 200 bytes there and back on each of
// some streams of one tunnel.
func BenchmarkPingPong(b *testing.B) {
	for _, mode := range []task.Mode{task.Coroutines, task.Goroutines} {
		for _, bench := range []struct {
			name    string
			streams int
		}{{"streams=1", 1}, {"streams=32", 32}} {
			b.Run("mode="+mode.String()+"/"+bench.name, func(b *testing.B) {
				w := newWorld(b, options{mode: mode}, serving(echo))
				b.ReportAllocs()
				pingPong(b, w, bench.streams)
			})
		}
	}
}

func pingPong(b *testing.B, w *world, streams int) {
	var ready sync.WaitGroup
	ready.Add(streams)
	start := make(chan struct{})
	var all []<-chan error
	for i := range streams {
		n := b.N / streams
		if i < b.N%streams {
			n++
		}
		all = append(all, w.run(func(t *task.Task) error {
			s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:9080", nil)
			ready.Done()
			if err != nil {
				return err
			}
			defer func() { s.Done(t.Batch()) }()
			t.Block(func() { <-start })
			p := make([]byte, 200)
			for range n {
				if err := task.WriteAll(t, s, p); err != nil {
					return err
				}
				if err := task.ReadMore(t, s, len(p)-1); err != nil {
					return err
				}
				s.Discard(t.Batch(), len(p))
			}
			return nil
		}))
	}
	ready.Wait()
	b.ResetTimer()
	close(start)
	for _, done := range all {
		must(b, <-done)
	}
}

// BenchmarkBulk measures bytes one way on one stream; the echo comes back.
func BenchmarkBulk(b *testing.B) {
	w := newWorld(b, options{}, serving(echo))
	want := payload(1 << 20)
	b.SetBytes(int64(len(want)))
	for b.Loop() {
		must(b, w.do(func(t *task.Task) error {
			s, err := w.dialer.Open(t, w.destination(), "10.1.2.3:9080", nil)
			if err != nil {
				return err
			}
			defer func() { s.Done(t.Batch()) }()
			_, err = exchange(t, s, want)
			return err
		}))
	}
}
