package stories

import (
	"context"
	"math"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// shares makes n calls, 20 at a time, and returns what share each result has.
func shares(n int, one func() string) map[string]float64 {
	var (
		mu   sync.Mutex
		seen = make(map[string]float64)
		wg   sync.WaitGroup
		left = make(chan struct{}, n)
	)
	for range n {
		left <- struct{}{}
	}
	close(left)
	for range 20 {
		wg.Go(func() {
			for range left {
				result := one()
				mu.Lock()
				seen[result] += 1 / float64(n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return seen
}

// checkShares wants each share within 0.05, or two standard deviations of so few, and
// no results but these. What is drawn by lot may miss that now and then: as in the
// conformance suite there are tries, but a result that must not come ends them.
func checkShares(t *testing.T, n int, one func() string, want map[string]float64) {
	t.Helper()
	for try := 1; ; try++ {
		got, off := shares(n, one), ""
		for result, share := range got {
			w, ok := want[result]
			if !ok {
				t.Errorf("a share of %.3f got %q", share, result)
			}
			if math.Abs(share-w) > max(0.05, 2*math.Sqrt(w*(1-w)/float64(n))) {
				off = result
			}
		}
		for result := range want {
			if got[result] == 0 {
				off = result
			}
		}
		if off == "" {
			return
		}
		if try == 4 || t.Failed() {
			t.Errorf("a share of %.3f got %q, want %.2f", got[off], off, want[off])
			return
		}
	}
}

// MeshHTTPRouteWeight, and weights of backends that cannot serve.
func TestHTTPRouteWeights(t *testing.T) {
	missing := "{name: nowhere, namespace: prod, port: 8080, weight: 50}"
	w := newTown(t, meshRoute("HTTPRoute", "weights", "prod", "name: echo",
		"{backendRefs: ["+toPod("echo-v1", "weight: 70")+", "+toPod("echo-v2", "weight: 30")+"]}")+
		meshRoute("HTTPRoute", "invalid", "prod", "name: echo-v1",
			prefixed("/half", "", toPod("echo-v1", "weight: 50"), missing)+", "+
				prefixed("/zero", "", toPod("echo-v1", "weight: 0"), toPod("echo-v2"))+", "+
				prefixed("/all-zero", "", toPod("echo-v1", "weight: 0"), toPod("echo-v2", "weight: 0"))+", "+
				prefixed("/missing", "", missing)+", "+
				prefixed("/empty", "")+", "+
				prefixed("/port", "", "{name: echo-v1, namespace: prod, port: 81}")+", "+
				prefixed("/kind", "", "{group: example.com, kind: Bucket, name: echo-v1, namespace: prod, port: 8080}")+", "+
				prefixed("/equal", "", toPod("echo-v1"), toPod("echo-v2"))), nil)
	ask := func(to string) func() string {
		return func() string {
			a, err := w.attempt(call{to: to})
			switch {
			case err != nil:
				return err.Error()
			case a.status != 200:
				return a.header.Get("content-type") + " " + a.body
			}
			return a.app.App
		}
	}
	checkShares(t, 500, ask("echo/"), map[string]float64{"echo-v1": 0.7, "echo-v2": 0.3})
	checkShares(t, 1000, ask("echo-v1/half"), map[string]float64{"echo-v1": 0.5, "text/plain no backend": 0.5})
	checkShares(t, 500, ask("echo-v1/equal"), map[string]float64{"echo-v1": 0.5, "echo-v2": 0.5})
	checkShares(t, 50, ask("echo-v1/zero"), map[string]float64{"echo-v2": 1})
	for _, path := range []string{"all-zero", "missing", "empty", "port", "kind"} {
		c := call{to: "echo-v1/" + path}
		a := w.send(c)
		w.check(c, a, want{status: 500, app: "none"})
		if flags := w.entry(a)["response_flags"]; flags != "NC" && flags != "NR" {
			t.Errorf("%s: flags %v", path, flags)
		}
	}
	if snapshot := w.wp.Admin("/snapshot?service=prod/echo-v1"); !containsAll(snapshot, []string{"nowhere"}) {
		t.Errorf("the snapshot does not name the backend that is missing:\n%s", snapshot)
	}
}

// echoOnce makes one gRPC call, and returns the application that answered or the
// name of the code.
func echoOnce(conn *grpc.ClientConn, method string, md ...string) string {
	ctx := metadata.AppendToOutgoingContext(context.Background(), md...)
	in, out := []byte("hello"), []byte(nil)
	var trailer metadata.MD
	err := conn.Invoke(ctx, method, &in, &out, meshtest.Raw(), grpc.Trailer(&trailer))
	switch app := trailer.Get("x-app"); {
	case err != nil:
		return status.Code(err).String()
	case len(app) != 1 || string(out) != "hello":
		return codes.DataLoss.String()
	default:
		return app[0]
	}
}

// toGRPC is a backendRefs entry of a gRPC port.
func toGRPC(name string, more ...string) string {
	ref := "{name: " + name + ", namespace: prod, port: 7070"
	for _, m := range more {
		ref += ", " + m
	}
	return ref + "}"
}

// MeshGRPCRouteWeight: one connection, balanced by request, and a backend with
// weight 0 that does not exist.
func TestGRPCRouteWeights(t *testing.T) {
	w := newTown(t, meshRoute("GRPCRoute", "weights", "prod", "name: echo",
		"{backendRefs: ["+toGRPC("echo-v1", "weight: 70")+", "+toGRPC("echo-v2", "weight: 30")+", "+toGRPC("echo-v3", "weight: 0")+"]}")+
		meshRoute("GRPCRoute", "half", "prod", "name: echo-v1",
			"{backendRefs: ["+toGRPC("echo-v1")+", "+toGRPC("echo-v3")+"]}"), nil)
	conn := w.stage.client.GRPC(w.wp.Addr, vipOf("echo:7070"))
	checkShares(t, 500, func() string { return echoOnce(conn, "/proto.EchoTestService/Echo") }, map[string]float64{"echo-v1": 0.7, "echo-v2": 0.3})
	half := w.stage.client.GRPC(w.wp.Addr, vipOf("echo-v1:7070"))
	checkShares(t, 500, func() string { return echoOnce(half, "/proto.EchoTestService/Echo") }, map[string]float64{"echo-v1": 0.5, codes.Unavailable.String(): 0.5})
}
