package l7

import (
	"bytes"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// instant is an application that answers in the turn in which the request comes,
// without allocating.
type instant struct {
	*pipe
	answer []byte
}

func (a *instant) Wake(b *task.Batch) { b.Add(a) }

func (a *instant) RunIn(b *task.Batch) {
	if p := a.Peek(); bytes.HasSuffix(p, []byte("\r\n\r\n")) {
		a.Discard(b, len(p))
		_, _ = a.Write(b, a.answer)
	}
}

// silent observes nothing.
type silent struct{}

func (silent) Start(*flow.Flow)    {}
func (silent) Progress(*flow.Flow) {}
func (silent) Done(*flow.Flow)     {}

// turns runs whole HTTP/1.1 exchanges on one connection of a table.
type turns struct {
	*table
	client  *pipe
	request []byte
	want    int // bytes of a response
}

func newTurns(tb testing.TB, request, answer string) *turns {
	r := newTable(tb, silent{}, func(_ *task.Scheduler, theirs *pipe) {
		theirs.SetWaker(&instant{pipe: theirs, answer: []byte(answer)})
	})
	return &turns{table: r, client: r.sit(), request: []byte(request)}
}

// another is a further connection.
func (r *turns) another() *turns { return &turns{table: r.table, client: r.sit(), request: r.request} }

func (r *turns) exchange(tb testing.TB) {
	r.sched.Turn(func(b *task.Batch) { _, _ = r.client.Write(b, r.request) })
	got := r.client.Peek()
	if r.want == 0 {
		r.want = len(got)
	}
	if len(got) != r.want || len(got) < 12 || string(got[:12]) != "HTTP/1.1 200" {
		tb.Fatalf("answered %q", got)
	}
	r.sched.Turn(func(b *task.Batch) { r.client.Discard(b, len(got)) })
}

const typical = "GET /api/v1/reviews/42?lang=en HTTP/1.1\r\nHost: reviews.default.svc.cluster.local:9080\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: application/json\r\nAccept-Encoding: gzip, deflate\r\n" +
	"Cookie: a=b; c=d\r\nConnection: keep-alive\r\nend-user: jason\r\n\r\n"

var typicalAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 30 Nov 2026 15:00:00 GMT\r\nContent-Length: 1024\r\n\r\n" + string(make([]byte, 1024))

func TestExchangeAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newTurns(t, typical, typicalAnswer)
	for range 10 {
		r.exchange(t)
	}
	if n := testing.AllocsPerRun(1000, func() { r.exchange(t) }); n >= 1 { // below: an exchange that the collector took out of the pool
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkExchange(b *testing.B) {
	r := newTurns(b, typical, typicalAnswer)
	r.exchange(b)
	b.ReportAllocs()
	for b.Loop() {
		r.exchange(b)
	}
}

// h2turns runs whole HTTP/2 exchanges, HTTP/2 on both sides.
type h2turns struct {
	*table
	conn *h2.Conn
	head h2.Head
}

func newH2Turns(tb testing.TB) *h2turns {
	answer, body := h2.Head{Status: 200, Fields: []h2.Field{{Name: "content-type", Value: "application/grpc"}}}, make([]byte, 1024)
	trailers := []h2.Field{{Name: "grpc-status", Value: "0"}}
	r := newTable(tb, silent{}, func(s *task.Scheduler, theirs *pipe) {
		s.Turn(func(b *task.Batch) {
			conn := h2.NewServer(theirs, h2.Config{Depth: 1}, &acceptor{accept: func(b *task.Batch, st *h2.Stream) {
				_ = st.WriteHead(b, &answer, false)
				_, _ = st.Write(b, body)
				_ = st.WriteTrailers(b, trailers)
				st.Done(b)
			}})
			h2.Ride(b, conn, theirs)
		})
	})
	r.port.Protocol = mesh.GRPC
	client := r.sit()
	conn := h2.NewClient(client, h2.Config{Depth: 1}, &acceptor{})
	r.sched.Turn(func(b *task.Batch) { h2.Ride(b, conn, client) })
	return &h2turns{r, conn, h2.Head{Method: "POST", Scheme: "http", Authority: "reviews", Path: "/a.B/C", Fields: []h2.Field{
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}, {Name: "user-agent", Value: "grpc-go/1.80"},
	}}}
}

func (r *h2turns) exchange(tb testing.TB) {
	var s *h2.Stream
	r.sched.Turn(func(b *task.Batch) {
		var err error
		if s, err = r.conn.Open(b, &r.head, true, nil); err != nil {
			tb.Fatal(err)
		}
	})
	if s.Head() == nil || s.Head().Status != 200 || len(s.Peek()) != 1024 || len(s.Trailers()) != 1 {
		tb.Fatalf("answered %+v, %d bytes, %v, %v", s.Head(), len(s.Peek()), s.Trailers(), s.ReadErr())
	}
	r.sched.Turn(s.Done)
}

// maxH2Allocs: the four ends of the two streams, and a string of the HPACK decoder
// on either side. The exchange itself adds nothing.
const maxH2Allocs = 6

func TestHTTP2ExchangeAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newH2Turns(t)
	for range 10 {
		r.exchange(t)
	}
	if n := testing.AllocsPerRun(1000, func() { r.exchange(t) }); n > maxH2Allocs {
		t.Errorf("%v allocations, want at most %d", n, maxH2Allocs)
	}
}

func BenchmarkHTTP2Exchange(b *testing.B) {
	r := newH2Turns(b)
	r.exchange(b)
	b.ReportAllocs()
	for b.Loop() {
		r.exchange(b)
	}
}
