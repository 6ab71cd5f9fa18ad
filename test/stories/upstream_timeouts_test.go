package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// TestRequestTimeout: timeouts.request ends the exchange on time, retries and all,
// and the application learns of it.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), service("echo", "10.0.0.1", port(8080, "http")),
		httpRoute("echo", fmt.Sprintf("{timeouts: {request: %v}, backendRefs: [{name: echo, port: 8080}]}", short))))
	s.node("echo", 21)
	app := s.HTTP("echo", s.Addr(21, 8080))
	left := make(chan struct{}, 1)
	app.Handle(func(x *meshtest.Exchange) {
		if x.Target == "/quick" {
			ok(x)
			return
		}
		x.In.ReadByte()
		left <- struct{}{}
		x.Close()
	})
	client := s.client.HTTP(s.wp.Addr)
	get(t, client, echo+"/quick").want(t, 200, "ok")
	start := time.Now()
	r := get(t, client, echo+"/slow")
	took := time.Since(start)
	if r.StatusCode != 504 {
		t.Errorf("status %d, expected 504", r.StatusCode)
	}
	if took < short || took > 2*short {
		t.Errorf("it took %v, expected %v", took, short)
	}
	<-left
	if n := len(app.Requests()); n != 2 {
		t.Errorf("the application had %d requests, expected 2", n)
	}
	logLine{"response_flags": "UT", "response_code_details": "response_timeout", "route_name": "default/echo/0"}.in(t, s.logged(2)[1])
}

// TestAttemptTimeout: timeouts.backendRequest ends one attempt, and retry makes
// the next at another endpoint.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(pod("echo", 21), pod("echo", 22), service("echo", "10.0.0.1", port(8080, "http")),
		httpRoute("echo", fmt.Sprintf("{timeouts: {request: 30s, backendRequest: %v}, retry: {attempts: 1, codes: [503]}, backendRefs: [{name: echo, port: 8080}]}", short))))
	var apps [2]*meshtest.HTTPApp
	for i := range apps {
		host := byte(21 + i)
		s.node("echo", host)
		apps[i] = s.HTTP(fmt.Sprintf("echo-%d", host), s.Addr(host, 8080))
	}
	apps[0].Handle(func(x *meshtest.Exchange) {
		x.In.ReadByte()
		x.Close()
	})
	apps[1].Handle(ok)
	client := s.client.HTTP(s.wp.Addr)
	for range 8 {
		do(t, client, "POST", echo, strings.NewReader("again")).want(t, 200, "ok")
	}
	if len(apps[0].Requests()) == 0 {
		t.Error("the slow endpoint was never tried")
	}
	for _, request := range apps[1].Requests() {
		if string(request.Body) != "again" {
			t.Errorf("the body of an attempt was %q", request.Body)
		}
	}
}

// TestNoHiddenTimeout: without timeouts in the route, a response may take as long
// as it likes.
func TestNoHiddenTimeout(t *testing.T) {
	t.Parallel()
	s, app, _ := echoStage(t)
	app.Handle(func(x *meshtest.Exchange) {
		time.Sleep(3 * time.Second) //nolint:forbidigo // what is told of here is time
		ok(x)
	})
	get(t, s.client.HTTP(s.wp.Addr), echo).want(t, 200, "ok")
}
