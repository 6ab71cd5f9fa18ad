package l7

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/flow/flowtest"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// rig is a Forwarder between clients and applications in memory.
type rig struct {
	t     *testing.T
	sched *task.Scheduler
	fw    *Forwarder
	store *mesh.Store
	port  *mesh.Port
	rec   *flowtest.Recorder

	mu    sync.Mutex
	apps  map[netip.AddrPort]func(*pipeConn) // what an endpoint does with a connection
	dials map[netip.AddrPort]int
	limit int // of the pipes
}

var errRefused = errors.New("connection refused")

// newRig returns a rig whose service has one endpoint that runs app.
func newRig(t *testing.T, mode task.Mode, app func(*pipeConn)) *rig {
	r := &rig{
		t: t, sched: task.NewScheduler(mode), rec: new(flowtest.Recorder), limit: 64 << 10,
		store: new(mesh.Store),
		apps:  make(map[netip.AddrPort]func(*pipeConn)), dials: make(map[netip.AddrPort]int),
	}
	t.Cleanup(r.sched.Close)
	allowAll, err := authz.Compile(nil, authz.Options{HTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	svc := &mesh.Service{
		Key: "d/echo.d.svc.cluster.local", Name: "echo", Namespace: "d", Hostname: "echo.d.svc.cluster.local", Attached: true,
		Telemetry: &flow.Service{Host: "echo.d.svc.cluster.local", Name: "echo", Namespace: "d"},
	}
	r.port = &mesh.Port{Number: 80, Protocol: mesh.HTTP1, Service: svc, HTTPAuthz: allowAll}
	svc.Ports = []*mesh.Port{r.port}
	r.store.Publish(&mesh.Snapshot{Version: 1, Services: map[string]*mesh.Service{svc.Key: svc}})
	r.addEndpoint("10.0.0.1:8080", app)
	r.fw = New(Options{
		Scheduler: r.sched, Store: r.store, Observer: r.rec, Dial: r.dial, ClientHeaders: true,
		Identity: func() string { return "spiffe://cluster.local/ns/d/sa/waypoint" },
		Limits:   Limits{IdleTimeout: time.Minute},
	})
	t.Cleanup(func() { r.sched.Turn(r.fw.Close) })
	return r
}

// addEndpoint adds one; without an app it refuses connections.
func (r *rig) addEndpoint(addr string, app func(*pipeConn)) {
	ap := netip.MustParseAddrPort(addr)
	r.apps[ap] = app
	r.port.Endpoints = append(r.port.Endpoints, &mesh.Endpoint{
		Addr: ap, Port: r.port, Load: new(mesh.Load),
		Workload: &mesh.Workload{
			Name: "echo", Telemetry: &flow.Workload{Name: "echo"}, HBONE: true,
			Identity: identity.ID{TrustDomain: "cluster.local", Namespace: "d", ServiceAccount: "echo"},
		},
	})
}

func (r *rig) dial(_ *task.Task, ep *mesh.Endpoint) (task.Stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials[ep.Addr]++
	app := r.apps[ep.Addr]
	if app == nil {
		return nil, errRefused
	}
	ours, theirs := newPipe(r.limit)
	go app(theirs.conn(r.sched))
	return ours, nil
}

// dialled returns how often an endpoint was connected to.
func (r *rig) dialled(addr string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials[netip.MustParseAddrPort(addr)]
}

// connect opens a stream through the Forwarder.
func (r *rig) connect() *pipeConn {
	ours, theirs := newPipe(r.limit)
	client := theirs.conn(r.sched)
	_ = client.SetDeadline(time.Now().Add(5 * time.Second)) // a hang is a failure with a name
	r.sched.Turn(func(b *task.Batch) {
		r.fw.Serve(b, Inbound{
			Stream: ours, Dest: decide.Destination{Port: r.port, Dialled: netip.MustParseAddrPort("10.96.0.10:80")}, Target: "10.96.0.10:80",
			Peer:     identity.ID{TrustDomain: "cluster.local", Namespace: "c", ServiceAccount: "client"},
			PeerAddr: netip.MustParseAddrPort("10.0.9.9:40000"),
		})
	})
	return client
}

// roundTrip sends raw bytes and reads one response.
func (r *rig) roundTrip(c *pipeConn, in *bufio.Reader, method, raw string) *http.Response {
	r.t.Helper()
	if _, err := c.Write([]byte(raw)); err != nil {
		r.t.Fatalf("writing the request: %v", err)
	}
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		r.t.Fatalf("reading the response to %q: %v", raw, err)
	}
	return res
}

// flows waits for n exchanges to be done.
func (r *rig) flows(n int) []*flow.Flow {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	flows, err := r.rec.Wait(ctx, n)
	if err != nil {
		r.t.Fatalf("%d flows of %d: %v", len(flows), n, err)
	}
	return flows
}

// inBothModes runs a test on coroutines and on goroutines.
func inBothModes(t *testing.T, test func(t *testing.T, mode task.Mode)) {
	for _, mode := range []task.Mode{task.Coroutines, task.Goroutines} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

// scripted is an application that reads a request head and answers with raw bytes,
// again and again. What it read is sent to heads.
func scripted(heads chan<- string, answer string) func(*pipeConn) {
	return func(c *pipeConn) {
		in := bufio.NewReader(c)
		for {
			head := ""
			for !strings.HasSuffix(head, "\r\n\r\n") {
				line, err := in.ReadString('\n')
				if err != nil {
					_ = c.Close()
					return
				}
				head += line
			}
			if heads != nil {
				heads <- head
			}
			if _, err := c.Write([]byte(answer)); err != nil {
				return
			}
		}
	}
}

// httpApp serves with net/http.
func httpApp(h http.HandlerFunc) func(*pipeConn) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	return func(c *pipeConn) { _ = srv.Serve(&oneConn{c: c}) }
}

// route has the port follow rules.
func (r *rig) route(rules ...route.Rule) {
	r.t.Helper()
	for i := range rules {
		for j := range rules[i].Backends {
			b := &rules[i].Backends[j]
			if b.Service == "" {
				b.Service, b.Port, b.Weight = r.port.Service.Key, 80, 1
			}
		}
	}
	table, err := route.NewTable(rules)
	if err != nil {
		r.t.Fatal(err)
	}
	r.port.Routes = &mesh.Routes{HTTP: table}
}

// forward is a rule that sends everything to the service itself.
func forward(filters ...route.Filter) route.Rule {
	return route.Rule{Route: "HTTPRoute d/r", Name: "0", Label: "/*", Backends: []route.Backend{{}}, Filters: filters}
}

// deny has policy refuse what has the path.
func (r *rig) deny(path string) {
	r.t.Helper()
	engine, err := authz.Compile([]authz.Policy{{
		Name: "no", Namespace: "d", Action: authz.Deny,
		Rules: []authz.Rule{{To: []authz.Operation{{Paths: []string{path}}}}},
	}}, authz.Options{HTTP: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.port.HTTPAuthz = engine
}
