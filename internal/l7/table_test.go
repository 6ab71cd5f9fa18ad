package l7

import (
	"net/netip"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// table is a Forwarder all of whose doings happen in turns of the test.
type table struct {
	sched *task.Scheduler
	fw    *Forwarder
	port  *mesh.Port
}

// newTable returns a table whose one endpoint is played by app.
func newTable(t testing.TB, observer flow.Observer, app func(s *task.Scheduler, theirs *pipe)) *table {
	allowAll, err := authz.Compile(nil, authz.Options{HTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &table{sched: task.NewScheduler(task.Coroutines)}
	t.Cleanup(r.sched.Close)
	svc := &mesh.Service{Key: "d/e", Attached: true, Telemetry: new(flow.Service)}
	r.port = &mesh.Port{Number: 80, Protocol: mesh.HTTP1, Service: svc, HTTPAuthz: allowAll}
	r.port.Endpoints = []*mesh.Endpoint{{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Port: r.port, Load: new(mesh.Load), Workload: new(mesh.Workload)}}
	svc.Ports = []*mesh.Port{r.port}
	store := new(mesh.Store)
	store.Publish(&mesh.Snapshot{Version: 1, Services: map[string]*mesh.Service{svc.Key: svc}})
	r.fw = New(Options{
		Scheduler: r.sched, Store: store, Observer: observer, ClientHeaders: true, Identity: func() string { return "spiffe://t/ns/d/sa/w" },
		Dial: func(*task.Task, *mesh.Endpoint) (task.Stream, error) {
			ours, theirs := newPipe(1 << 20)
			app(r.sched, theirs)
			return ours, nil
		},
		Limits: Limits{IdleTimeout: -1},
	})
	return r
}

// sit opens a connection.
func (r *table) sit() *pipe {
	ours, client := newPipe(1 << 20)
	r.sched.Turn(func(b *task.Batch) {
		r.fw.Serve(b, Inbound{
			Stream: ours, Dest: decide.Destination{Port: r.port, Dialled: netip.MustParseAddrPort("10.1.0.1:80")}, Target: "10.1.0.1:80",
			Peer: identity.ID{TrustDomain: "t", Namespace: "c", ServiceAccount: "a"}, PeerAddr: netip.MustParseAddrPort("10.2.0.1:999"),
		})
	})
	return client
}

// say writes in pieces, and ends.
func (r *table) say(p *pipe, what []byte, piece int) {
	for size := max(piece, 1); len(what) > 0; {
		n := min(size, len(what))
		r.sched.Turn(func(b *task.Batch) { _, _ = p.Write(b, what[:n]) })
		what = what[n:]
	}
	r.sched.Turn(func(b *task.Batch) { _ = p.CloseWrite(b) })
}
