package stories

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// TestNodeProxyGoesAway: a node proxy that says GOAWAY gets nothing new on that
// connection, not even on a stream that is open there and idle; what is under way
// is finished.
func TestNodeProxyGoesAway(t *testing.T) {
	t.Parallel()
	s, app, node := echoStage(t)
	hold := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		if x.Target == "/slow" {
			<-hold
		}
		ok(x)
	})
	client := s.client.HTTP(s.wp.Addr)
	slow := make(chan error, 1)
	go func() { slow <- expect200(t.Context(), client, echo+"/slow") }()
	s.Eventually("the slow request is there", func() bool { return len(app.Requests()) == 1 })
	get(t, client, echo+"/before").want(t, 200, "ok") // leaves an idle stream on that tunnel
	tunnel := node.Tunnels()[0]
	node.Drain()
	if err := tunnel.Ping(t.Context()); err != nil { // the waypoint has seen the GOAWAY
		t.Fatal(err)
	}
	last := tunnel.LastStream()
	for i := range 10 {
		get(t, client, fmt.Sprintf("%s/after/%d", echo, i)).want(t, 200, "ok")
	}
	if node.Accepted() != 2 {
		t.Errorf("%d tunnels, expected a second one", node.Accepted())
	}
	if tunnel.LastStream() != last {
		t.Errorf("stream %d was opened on the tunnel after its GOAWAY", tunnel.LastStream())
	}
	for _, request := range app.Requests()[2:] {
		if request.Serial <= 2 {
			t.Errorf("%s came on a connection through the tunnel that is going away", request.Target)
		}
	}
	close(hold)
	if err := <-slow; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	s.Eventually("the tunnel that is going away has ended", func() bool { return tunnel.Err() != nil })
}

// TestConnectAboveGoAway: a CONNECT above the last id of a GOAWAY hangs until the
// connection is cut, so it goes elsewhere at once.
func TestConnectAboveGoAway(t *testing.T) {
	t.Parallel()
	s, _, node := echoStage(t)
	var connects atomic.Int32
	node.Behave(func(ctx context.Context, stream *meshtest.Stream) {
		connects.Add(1)
		node.Behave(nil)
		if err := stream.Conn().GoAway(stream.ID()-1, http2.ErrCodeNo); err != nil {
			t.Error(err)
		}
		meshtest.Stall()(ctx, stream)
	})
	start := time.Now()
	r := do(t, s.client.HTTP(s.wp.Addr), "POST", echo, strings.NewReader("x"))
	if r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
	if took := time.Since(start); took > 5*short {
		t.Errorf("it took %v: the request hung where nobody looks at it", took)
	}
	if connects.Load() != 1 || node.Accepted() != 2 {
		t.Errorf("%d CONNECTs were left hanging, %d tunnels; expected 1 and 2", connects.Load(), node.Accepted())
	}
}

// TestStreamLimitOfNodeProxy: where a node proxy takes three streams a connection,
// ten requests need four.
func TestStreamLimitOfNodeProxy(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	app := s.HTTP("echo", s.Addr(21, 8080))
	node := s.node("echo", 21, meshtest.Settings{MaxStreams: 3})
	hold := make(chan struct{})
	app.Handle(func(x *meshtest.Exchange) {
		if x.Target == "/slow" {
			<-hold
		}
		ok(x)
	})
	client := s.client.HTTP(s.wp.Addr)
	get(t, client, echo).want(t, 200, "ok") // the limit is known
	failed := make(chan error)
	for range 10 {
		go func() { failed <- expect200(t.Context(), client, echo+"/slow") }()
	}
	s.Eventually("all ten are there", func() bool { return len(app.Requests()) == 11 })
	if n := len(node.Tunnels()); n != 4 {
		t.Errorf("%d tunnels, expected 4", n)
	}
	close(hold)
	for range 10 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for _, line := range s.logged(11) {
		logLine{"retries": 0}.in(t, line)
	}
}

// TestStreamLimitAtOnce is the same without a request before: the limit is not
// known when the first CONNECTs leave, and those that are refused go elsewhere.
func TestStreamLimitAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))))
	app := s.HTTP("echo", s.Addr(21, 8080))
	app.Handle(ok)
	s.node("echo", 21, meshtest.Settings{MaxStreams: 3})
	client := s.client.HTTP(s.wp.Addr)
	failed := make(chan error)
	for range 50 {
		go func() {
			r, err := try(t.Context(), client, "POST", echo, strings.NewReader("x"))
			if err == nil && r.StatusCode != 200 {
				err = fmt.Errorf("status %d: %s", r.StatusCode, r.text)
			}
			failed <- err
		}()
	}
	for range 50 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestManyRequestsAtOnce: as many as it takes ten tunnels for, all under way before
// the first is answered.
func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const requests = 1000
	s, app, _ := echoStage(t)
	release := held(app)
	failed := make(chan error, requests)
	client := s.client.HTTP(s.wp.Addr)
	for range requests {
		go func() { failed <- expect200(t.Context(), client, echo+"/slow") }()
	}
	s.Eventually("all are under way", func() bool { return len(app.Requests()) == requests })
	if n := s.metric("waypoint_tunnels_open"); n != 10 {
		t.Errorf("%v tunnels of 100 streams, expected 10", n)
	}
	release()
	for range requests {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
