package l7

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/identity"
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

// turns runs whole HTTP/1.1 exchanges within turns of the calling goroutine.
type turns struct {
	sched   *task.Scheduler
	fw      *Forwarder
	port    *mesh.Port
	client  *pipe
	request []byte
	want    int // bytes of a response
}

func newTurns(tb testing.TB, request, answer string) *turns {
	s := task.NewScheduler(task.Coroutines)
	tb.Cleanup(s.Close)
	allowAll, _ := authz.Compile(nil, authz.Options{HTTP: true})
	svc := &mesh.Service{Key: "d/e", Attached: true, Telemetry: new(flow.Service)}
	port := &mesh.Port{Number: 80, Protocol: mesh.HTTP1, Service: svc, HTTPAuthz: allowAll}
	port.Endpoints = []*mesh.Endpoint{{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Port: port, Load: new(mesh.Load), Workload: new(mesh.Workload)}}
	svc.Ports = []*mesh.Port{port}
	store := new(mesh.Store)
	store.Publish(&mesh.Snapshot{Version: 1, Services: map[string]*mesh.Service{svc.Key: svc}})
	fw := New(Options{
		Scheduler: s, Store: store, Observer: silent{}, ClientHeaders: true, Identity: func() string { return "spiffe://t/ns/d/sa/w" },
		Dial: func(*task.Task, *mesh.Endpoint) (task.Stream, error) {
			ours, theirs := newPipe(64 << 10)
			theirs.SetWaker(&instant{pipe: theirs, answer: []byte(answer)})
			return ours, nil
		},
	})
	r := &turns{sched: s, fw: fw, port: port, request: []byte(request)}
	return r.another()
}

// another is a further connection to the same Forwarder.
func (r *turns) another() *turns {
	ours, theirs := newPipe(64 << 10)
	r.sched.Turn(func(b *task.Batch) {
		r.fw.Serve(b, Inbound{
			Stream: ours, Dest: decide.Destination{Port: r.port, Dialled: netip.MustParseAddrPort("10.1.0.1:80")},
			Peer:     identity.ID{TrustDomain: "t", Namespace: "c", ServiceAccount: "a"},
			PeerAddr: netip.MustParseAddrPort("10.2.0.1:999"),
		})
	})
	return &turns{sched: r.sched, fw: r.fw, port: r.port, client: theirs, request: r.request}
}

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
