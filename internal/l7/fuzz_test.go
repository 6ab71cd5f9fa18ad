package l7

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/flow/flowtest"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// judge is an application that reads requests as net/http does, and answers each
// in the turn in which it is complete.
type judge struct {
	*pipe
	t    *testing.T
	seen *[]string
}

func (j *judge) Wake(b *task.Batch) { b.Add(j) }

func (j *judge) RunIn(b *task.Batch) {
	for len(j.Peek()) > 0 {
		all := bytes.NewReader(j.Peek())
		in := bufio.NewReader(all)
		req, err := http.ReadRequest(in)
		if err != nil {
			if !bytes.Contains(j.Peek(), []byte("\r\n\r\n")) {
				return // not all of the head
			}
			j.t.Fatalf("net/http refuses what was sent upstream: %v\n%q", err, j.Peek())
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return // not all of the body
		}
		*j.seen = append(*j.seen, req.Method+" "+req.RequestURI)
		j.Discard(b, len(j.Peek())-all.Len()-in.Buffered())
		_, _ = j.Write(b, []byte(ok))
	}
}

// FuzzSmuggling holds that an application sees exactly the requests that were
// decided about, whatever a client sends.
func FuzzSmuggling(f *testing.F) {
	for _, s := range []string{
		get + get,
		"POST /a HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: e\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: e\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
		"POST /a HTTP/1.1\r\nHost: e\r\nContent-Length: 4\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: e\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n1;a=\"\r\n\"\r\nx\r\n0\r\nX: y\r\n\r\n",
		"GET /a/../%2e%2e//b?x HTTP/1.1\r\nHost: e\r\nConnection: x, keep-alive\r\nX: 1\r\n\r\n",
		"GET http://e/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(s), uint8(0))
	}
	allowAll, err := authz.Compile(nil, authz.Options{HTTP: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		sched := task.NewScheduler(task.Coroutines)
		defer sched.Close()
		svc := &mesh.Service{Key: "d/e", Attached: true, Telemetry: new(flow.Service)}
		port := &mesh.Port{Number: 80, Protocol: mesh.HTTP1, Service: svc, HTTPAuthz: allowAll}
		port.Endpoints = []*mesh.Endpoint{{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Port: port, Load: new(mesh.Load), Workload: new(mesh.Workload)}}
		svc.Ports = []*mesh.Port{port}
		store, rec := new(mesh.Store), new(flowtest.Recorder)
		store.Publish(&mesh.Snapshot{Version: 1, Services: map[string]*mesh.Service{svc.Key: svc}})
		var seen []string
		fw := New(Options{
			Scheduler: sched, Store: store, Observer: rec,
			Dial: func(*task.Task, *mesh.Endpoint) (task.Stream, error) {
				ours, theirs := newPipe(1 << 20)
				theirs.SetWaker(&judge{pipe: theirs, t: t, seen: &seen})
				return ours, nil
			},
			Limits: Limits{IdleTimeout: -1},
		})
		ours, client := newPipe(1 << 20)
		sched.Turn(func(b *task.Batch) {
			fw.Serve(b, Inbound{Stream: ours, Dest: decide.Destination{Port: port, Dialled: netip.MustParseAddrPort("10.1.0.1:80")}, Target: "10.1.0.1:80"})
		})
		for size := max(int(piece), 1); len(in) > 0; {
			n := min(size, len(in))
			sched.Turn(func(b *task.Batch) { _, _ = client.Write(b, in[:n]) })
			in = in[n:]
		}
		sched.Turn(func(b *task.Batch) { _ = client.CloseWrite(b) })
		if rec.Open() != 0 {
			t.Errorf("%d exchanges are still open", rec.Open())
		}
		var decided []string
		for _, f := range rec.Flows() {
			if f.Endpoint.IsValid() && f.Status == 200 {
				decided = append(decided, f.Method+" "+f.Path)
			}
		}
		if strings.Join(decided, "\n") != strings.Join(seen, "\n") {
			t.Errorf("decided about %q, the application saw %q", decided, seen)
		}
	})
}
