package stories

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// twoStage has the application echo at 10.0.0.1:8080 with two pods.
func twoStage(t *testing.T, change ...func(*app.Options)) (s *stage, apps [2]*meshtest.HTTPApp, nodes [2]*meshtest.NodeProxy) {
	t.Helper()
	s = newStage(t, world(pod("echo", 21), pod("echo", 22), service("echo", "10.0.0.1", port(8080, "http"))), change...)
	for i := range apps {
		host := byte(21 + i)
		apps[i] = s.HTTP(fmt.Sprintf("echo-%d", host), s.Addr(host, 8080))
		apps[i].Handle(ok)
		nodes[i] = s.node("echo", host)
	}
	return s, apps, nodes
}

// shortConnect has what does not answer given up soon.
func shortConnect(o *app.Options) { o.ConnectTimeout = short }

// TestAnotherEndpoint: whatever keeps a request from reaching one endpoint, it
// goes to another, a POST with a body too, since no application has seen it.
func TestAnotherEndpoint(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *stage, n *meshtest.NodeProxy){
		"no node proxy":      func(_ *stage, n *meshtest.NodeProxy) { n.Stop() },
		"CONNECT 503":        func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(503)) },
		"CONNECT 401":        func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(401)) },
		"CONNECT 400":        func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(400)) },
		"CONNECT refused":    func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeRefusedStream)) },
		"CONNECT reset":      func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeInternal)) },
		"CONNECT cancelled":  func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeCancel)) },
		"CONNECT unanswered": func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Stall()) },
		"a mute acceptor": func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.TCP("mute", n.Address(), silent)
		},
		"another identity": func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.NodeProxy(strings.TrimSuffix(n.Address(), ":15008"), idOf("impostor"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, apps, nodes := twoStage(t, shortConnect)
			fail(s, nodes[0])
			client := s.client.HTTP(s.wp.Addr)
			for range 6 { // some of them begin at the endpoint that fails
				do(t, client, "POST", echo, strings.NewReader("a body")).want(t, 200, "ok")
			}
			if n := len(apps[0].Requests()); n != 0 {
				t.Errorf("the application that cannot be reached had %d requests", n)
			}
			if n := len(apps[1].Requests()); n != 6 {
				t.Errorf("the other had %d requests, expected 6", n)
			}
			for _, line := range s.logged(6) {
				logLine{"response_code": 200, "response_flags": nil, "upstream_host": s.Addr(22, 8080)}.in(t, line)
			}
		})
	}
}

// silent reads and never answers.
func silent(conn *net.TCPConn) { io.Copy(io.Discard, conn) }

// TestNoOtherEndpoint: if there is none, the client gets a 503, and the log says
// what it was.
func TestNoOtherEndpoint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail func(s *stage, n *meshtest.NodeProxy)
		why  string
	}{
		"no node proxy": {func(_ *stage, n *meshtest.NodeProxy) { n.Stop() }, "no ztunnel there"},
		"CONNECT 503":   {func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(503)) }, "the application does not accept connections"},
		"CONNECT 401":   {func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Refuse(401)) }, "denied by an AuthorizationPolicy at the destination"},
		"CONNECT reset": {func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Reset(http2.ErrCodeInternal)) }, "it broke before the answer"},
		"CONNECT unanswered": {
			func(_ *stage, n *meshtest.NodeProxy) { n.Behave(meshtest.Stall()) }, "no answer to the CONNECT",
		},
		"a mute acceptor": {func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.TCP("mute", n.Address(), silent)
		}, "no answer on 15008"},
		"another identity": {func(s *stage, n *meshtest.NodeProxy) {
			n.Stop()
			s.NodeProxy(strings.TrimSuffix(n.Address(), ":15008"), idOf("impostor"))
		}, "identities do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), shortConnect)
			app := s.HTTP("echo", s.Addr(21, 8080))
			tt.fail(s, s.node("echo", 21))
			r := get(t, s.client.HTTP(s.wp.Addr), echo)
			if r.StatusCode != 503 || strings.Contains(r.text, s.IP(21)) {
				t.Errorf("response %d %q, expected a 503 that names no endpoint", r.StatusCode, r.text)
			}
			line := s.logged(1)[0]
			logLine{"response_flags": "UF,URX", "response_code_details": "upstream_connection_failure", "upstream_host": s.Addr(21, 8080)}.in(t, line)
			if why := fmt.Sprint(line["upstream_transport_failure_reason"]); !strings.Contains(why, tt.why) {
				t.Errorf("the log says %q, expected %q in it", why, tt.why)
			}
			if n := len(app.Requests()); n != 0 {
				t.Errorf("the application had %d requests", n)
			}
		})
	}
}

func TestNoEndpointAtAll(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(service("echo", "10.0.0.1", port(8080, "http"), port(3306, "tcp"))))
	if r := get(t, s.client.HTTP(s.wp.Addr), echo); r.StatusCode != 503 {
		t.Errorf("status %d, expected 503", r.StatusCode)
	}
	logLine{"response_flags": "UH", "response_code_details": "no_healthy_upstream", "upstream_host": nil}.in(t, s.logged(1)[0])
	if status := s.refused("10.0.0.1:3306"); status != 503 {
		t.Errorf("CONNECT to the TCP port was answered %d", status)
	}
}

// TestTCPGoesToAnotherEndpoint: the client sees nothing of the one that is down.
func TestTCPGoesToAnotherEndpoint(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("db", 21), pod("db", 22), service("db", "10.0.0.1", port(3306, "tcp"))))
	s.node("db", 21) // its application is down: 503
	s.node("db", 22)
	s.TCP("db", s.Addr(22, 3306), meshtest.Greet("hi\n"))
	for range 6 {
		c := s.open("10.0.0.1:3306")
		c.hear("hi\n")
		c.Close()
	}
	for _, line := range s.logged(6) {
		logLine{"upstream_host": s.Addr(22, 3306), "response_flags": nil}.in(t, line)
	}
}

// TestEndpointLeaves: its tunnel goes with it, once it is not needed any more, and
// nothing is sent there.
func TestEndpointLeaves(t *testing.T) {
	t.Parallel()
	s, apps, nodes := twoStage(t)
	hold := make(chan struct{})
	for _, app := range apps {
		app.Handle(func(x *meshtest.Exchange) {
			if x.Target == "/slow" {
				<-hold
			}
			ok(x)
		})
	}
	client := s.client.HTTP(s.wp.Addr)
	slow := make(chan error, 2)
	for i := range 2 { // one for each endpoint: the second goes where the first is not
		go func() { slow <- expect200(t.Context(), client, echo+"/slow") }()
		s.Eventually("the slow request is there", func() bool { return len(apps[0].Requests())+len(apps[1].Requests()) == i+1 })
	}
	s.wp.Write("mesh.yaml", world(pod("echo", 22), service("echo", "10.0.0.1", port(8080, "http"))))
	s.Eventually("the endpoint has left", func() bool { return s.metric("waypoint_config_endpoints") == 1 })
	for range 20 {
		get(t, client, echo).want(t, 200, "ok")
	}
	if n := len(apps[0].Requests()); n != 1 {
		t.Errorf("%d requests went to the endpoint that has left", n-1)
	}
	if n := len(nodes[0].Tunnels()); n != 1 {
		t.Errorf("%d tunnels to it while a request is under way there", n)
	}
	close(hold)
	for range 2 {
		if err := <-slow; err != nil {
			t.Errorf("a request under way: %v", err)
		}
	}
	s.Eventually("its tunnels are gone", func() bool { return len(nodes[0].Tunnels()) == 0 })
	if len(nodes[1].Tunnels()) == 0 {
		t.Error("so are those of the endpoint that stays")
	}
}

// TestMuteNodeProxyRecovers: a node proxy that accepts and says nothing fails
// requests within the connect timeout, and costs nothing once it is back.
func TestMuteNodeProxyRecovers(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http"))), shortConnect)
	s.HTTP("echo", s.Addr(21, 8080)).Handle(ok)
	mute := s.TCP("mute", s.Addr(21, 15008), silent)
	client := s.client.HTTP(s.wp.Addr)
	failed := make(chan error)
	for range 20 {
		go func() {
			r, err := try(t.Context(), client, "GET", echo, nil)
			if err == nil && r.StatusCode != 503 && r.StatusCode != 504 {
				err = fmt.Errorf("status %d", r.StatusCode)
			}
			failed <- err
		}()
	}
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := mute.Conns(); n == 0 || n > 20 {
		t.Errorf("%d connections to the mute node proxy", n)
	}
	mute.Stop()
	s.node("echo", 21)
	get(t, client, echo).want(t, 200, "ok")
}

// TestLeastRequest: of two endpoints the one with less under way is taken, so that
// what is held up at one stays with it alone.
func TestLeastRequest(t *testing.T) {
	t.Parallel()
	s, apps, _ := twoStage(t)
	hold := make(chan struct{})
	for _, app := range apps {
		app.Handle(func(x *meshtest.Exchange) {
			<-hold
			ok(x)
		})
	}
	client := s.client.HTTP(s.wp.Addr)
	failed := make(chan error)
	for i := range 20 {
		go func() {
			_, err := try(t.Context(), client, "GET", echo, nil)
			failed <- err
		}()
		s.Eventually("the request is there", func() bool { return len(apps[0].Requests())+len(apps[1].Requests()) == i+1 })
	}
	if a, b := len(apps[0].Requests()), len(apps[1].Requests()); a != 10 || b != 10 {
		t.Errorf("%d and %d requests are under way, expected 10 and 10", a, b)
	}
	close(hold)
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
