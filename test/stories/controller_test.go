package stories

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const gatewayName = "default/waypoint"

// controlled has a waypoint take its configuration from a controller.
func controlled(c *meshtest.Controller, stateDir string) func(*app.Options) {
	return func(o *app.Options) {
		o.Config, o.Gateway = "", gatewayName
		o.XDS, o.XDSRoot, o.Token, o.StateDir = c.Addr, c.Root, c.TokenFile(gatewayName), stateDir
	}
}

// TestController takes a waypoint through the life of a controller: manifests,
// translation, discovery, a request.
func TestController(t *testing.T) {
	t.Parallel()
	m := meshtest.New(t)
	controller := m.Controller()
	m.HTTP("v1", m.Addr(21, 8080))
	m.HTTP("v2", m.Addr(22, 8080))
	m.NodeProxy(m.IP(21), idOf("v1"))
	m.NodeProxy(m.IP(22), idOf("v2"))
	state := filepath.Join(t.TempDir(), "state")
	wp := m.StartWaypoint("", controlled(controller, state))

	// Before there is a configuration nobody is served, and everybody told why.
	m.Eventually("the controller is reached", func() bool { return controller.Counts().Connected == 1 })
	if reason := wp.Ready(); !strings.HasPrefix(reason, "configuration: ") {
		t.Errorf("readiness says %q", reason)
	}
	conn, err := net.Dial("tcp", wp.Addr)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a connection without a configuration ended with %v", err)
	}

	if problems := controller.Apply(gatewayName, world(
		service("v1", "10.0.0.1", "{name: http, port: 80, targetPort: 8080, appProtocol: http}"), pod("v1", 21),
		service("v2", "10.0.0.2", "{name: http, port: 80, targetPort: 8080, appProtocol: http}"), pod("v2", 22),
	)); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	wp.AwaitReady()
	c := m.Client(clientID)
	answers := func(addr string) string {
		r := get(t, c.HTTP(addr), "http://10.0.0.1/")
		if r.StatusCode != http.StatusOK {
			return r.Status
		}
		return r.Header.Get("x-app")
	}
	if got := answers(wp.Addr); got != "v1" {
		t.Fatalf("answered by %q", got)
	}

	controller.Apply(gatewayName, httpRoute("v1", "{backendRefs: [{name: v2, port: 80}]}"))
	m.Eventually("the route", func() bool { return answers(wp.Addr) == "v2" })

	// The controller goes, and the waypoint serves on; so does its next life.
	controller.Stop()
	if got := answers(wp.Addr); got != "v2" {
		t.Errorf("answered by %q without the controller", got)
	}
	wp.Stop()
	<-wp.Done()
	wp = m.StartWaypoint("", controlled(controller, state))
	wp.AwaitReady()
	if got := answers(wp.Addr); got != "v2" {
		t.Errorf("answered by %q after a restart without the controller", got)
	}
	if !strings.Contains(wp.Log.String(), "serving the saved configuration") {
		t.Error("nothing is said of it")
	}

	sent := controller.Counts().Resources
	controller.Start()
	controller.Delete(gatewayName, translate.Key{Kind: "HTTPRoute", Namespace: "default", Name: "v1"})
	m.Eventually("the route gone", func() bool { return answers(wp.Addr) == "v1" })
	if n := controller.Counts().Resources - sent; n != 0 {
		t.Errorf("%d resources were sent again", n)
	}
}
