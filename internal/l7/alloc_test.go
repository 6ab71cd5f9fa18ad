package l7

import (
	"bytes"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/flow"
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
