package h2

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// shuttle is a pair of connections whose bytes are moved without allocating.
type shuttle struct {
	*duo
	spare  []byte
	toward *Conn
	from   *pipe
	carry  func(b *task.Batch)
}

func newShuttle(t testing.TB) *shuttle {
	s := &shuttle{duo: newDuo(t, Config{}, Config{})}
	s.carry = func(b *task.Batch) {
		p := s.from.sent
		s.from.sent = s.spare[:0]
		_ = s.toward.Receive(b, p)
		s.spare = p
	}
	return s
}

// move carries bytes until there are none.
func (s *shuttle) move() {
	for len(s.toServer.sent)+len(s.toClient.sent) > 0 {
		s.from, s.toward = s.toServer, s.server
		s.sched.Turn(s.carry)
		s.from, s.toward = s.toClient, s.client
		s.sched.Turn(s.carry)
	}
}

// pinger sends a message each way.
func pinger(t testing.TB, s *shuttle, size int) func() {
	c, srv := s.open(t)
	msg := make([]byte, size)
	send := func(from *Stream) func(b *task.Batch) {
		return func(b *task.Batch) {
			if n, err := from.Write(b, msg); n != len(msg) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
	}
	recv := func(at *Stream) func(b *task.Batch) {
		return func(b *task.Batch) {
			if n := len(at.Peek()); n != len(msg) {
				t.Fatalf("%d bytes arrived", n)
			}
			at.Discard(b, len(msg))
		}
	}
	there, got, back, done := send(c), recv(srv), send(srv), recv(c)
	return func() {
		s.sched.Turn(there)
		s.move()
		s.sched.Turn(got)
		s.sched.Turn(back)
		s.move()
		s.sched.Turn(done)
	}
}

// allocs is testing.AllocsPerRun without collections, which empty the pools.
func allocs(f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 20 {
		f() // fill the pools
	}
	return testing.AllocsPerRun(500, f)
}

func TestDataDoesNotAllocate(t *testing.T) {
	for _, size := range []int{1, 1000, maxFrame, 60_000} {
		ping := pinger(t, newShuttle(t), size)
		if got := allocs(ping); got > 0 && !raceEnabled {
			t.Errorf("%v allocations for %d bytes there and back, want 0", got, size)
		}
	}
}

// opener opens a tunnel as a ztunnel does, answers and ends it.
func opener(t testing.TB, s *shuttle) func() {
	var c, srv *Stream
	s.serverEvents.onAccept = func(b *task.Batch, st *Stream) {
		srv = st
		s.serverEvents.accepted = s.serverEvents.accepted[:0]
	}
	request := &Head{Method: "CONNECT", Authority: "10.0.0.1:8080", Fields: []Field{
		{"baggage", "k8s.cluster.name=c,k8s.namespace.name=n,k8s.deployment.name=d,service.name=s,service.version=v"},
		{"forwarded", `for="10.1.2.3:45678"`},
		{"traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"},
	}}
	response := &Head{Status: 200}
	open := func(b *task.Batch) {
		var err error
		if c, err = s.client.Open(b, request, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(b *task.Batch) {
		if srv.Head().Method != "CONNECT" || srv.WriteHead(b, response, false) != nil || srv.CloseWrite(b) != nil {
			t.Fatal("no answer")
		}
	}
	end := func(b *task.Batch) {
		if c.Head().Status != 200 || c.CloseWrite(b) != nil {
			t.Fatal("no response")
		}
		c.Done(b)
	}
	done := func(b *task.Batch) { srv.Done(b) }
	return func() {
		s.sched.Turn(open)
		s.move()
		s.sched.Turn(answer)
		s.move()
		s.sched.Turn(end)
		s.move()
		s.sched.Turn(done)
	}
}

// TestOpenAllocatesLittle: a Stream at each end. Fields that differ from the last
// time, which these do not, would cost a string each at the receiver.
func TestOpenAllocatesLittle(t *testing.T) {
	s := newShuttle(t)
	round := opener(t, s)
	if got := allocs(round); got > 2 && !raceEnabled {
		t.Errorf("%v allocations for a tunnel, both ends together, want at most 2", got)
	}
	if s.server.Err() != nil {
		t.Error(s.server.Err())
	}
}

// TestIdleStreamIsSmall measures what an open tunnel holds after some traffic.
func TestIdleStreamIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Stream{}); size > 320 {
		t.Errorf("a Stream has %d bytes", size)
	}
	if raceEnabled {
		t.Skip("the race detector's own memory is in the way")
	}
	d := newDuo(t, Config{MaxConcurrentStreams: 10_000}, Config{MaxConcurrentStreams: 10_000})
	const n = 4000
	before := heap()
	for range n {
		c, s := d.open(t)
		d.turn(func(b *task.Batch) {
			_, _ = c.Write(b, make([]byte, 3000))
			c.NextHead()
			s.NextHead()
		})
		d.move()
		d.turn(func(b *task.Batch) { s.Discard(b, len(s.Peek())) })
	}
	d.move()
	d.serverEvents.accepted = nil
	if each := float64(heap()-before) / n / 2; each > 512 {
		t.Errorf("%.0f bytes a stream, want at most 512", each)
	}
	if d.server.Streams() != n {
		t.Errorf("%d streams are open", d.server.Streams())
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestWindowGrows: a reader that keeps up within two round trips gets a larger
// window, within the budget, and gives it back.
func TestWindowGrows(t *testing.T) {
	budget := NewBudget(250 << 10)
	d := newDuo(t, Config{}, Config{Budget: budget})
	c, s := d.open(t)
	d.server.roundTrip = time.Hour
	for range 100 {
		d.turn(func(b *task.Batch) { _, _ = c.Write(b, make([]byte, highWater)) })
		d.move()
		d.turn(func(b *task.Batch) { s.Discard(b, len(s.Peek())) })
		d.move()
	}
	if s.window != 256<<10 {
		t.Errorf("window is %d, want 256 KiB: the budget has no more", s.window)
	}
	// A reader that has become slow gives it back, and still gets everything.
	d.server.roundTrip = time.Nanosecond
	got := 0
	for range 40 {
		for range 4 {
			d.turn(func(b *task.Batch) { _, _ = c.Write(b, make([]byte, highWater)) })
			d.move()
		}
		s.credited -= 2 * slowTime
		n := min(len(s.Peek()), 50_000)
		got += n
		d.turn(func(b *task.Batch) { s.Discard(b, n) })
		d.move()
	}
	if s.window != 128<<10 || len(s.Peek()) > 128<<10 || got != 2_000_000 {
		t.Errorf("window is %d with %d bytes unread after %d, want 128 KiB of both", s.window, len(s.Peek()), got)
	}
	if left := budget.left.Load(); left != 250<<10 {
		t.Errorf("%d bytes of the budget are left to a stream that has shrunk", left)
	}
	d.turn(func(b *task.Batch) { s.Reset(b, Cancel) })
	if left := budget.left.Load(); left != 250<<10 {
		t.Errorf("%d bytes of the budget came back", left)
	}
}

func BenchmarkDataPingPong(b *testing.B) {
	for _, size := range []int{200, 1000, maxFrame} {
		b.Run("bytes="+strconv.Itoa(size), func(b *testing.B) {
			ping := pinger(b, newShuttle(b), size)
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			for b.Loop() {
				ping()
			}
		})
	}
}

func BenchmarkOpenClose(b *testing.B) {
	round := opener(b, newShuttle(b))
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
}

// BenchmarkBulk sends in one direction as fast as windows allow.
func BenchmarkBulk(b *testing.B) {
	s := newShuttle(b)
	c, srv := s.open(b)
	msg := make([]byte, maxFrame)
	send := func(bt *task.Batch) { _, _ = c.Write(bt, msg) }
	recv := func(bt *task.Batch) { srv.Discard(bt, len(srv.Peek())) }
	b.SetBytes(maxFrame)
	b.ReportAllocs()
	for b.Loop() {
		s.sched.Turn(send)
		s.move()
		s.sched.Turn(recv)
	}
}
