package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nowhere are flags that have every port chosen by the system.
var nowhere = []string{"--listen", "127.0.0.1:0", "--status", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s"}

func runArgs(t *testing.T, config string, more ...string) []string {
	t.Helper()
	args := append([]string{"run", "--config", config}, certificates(t, waypointID)...)
	return append(append(args, nowhere...), more...)
}

func TestRunServesAndDrains(t *testing.T) {
	c := start(t, runArgs(t, write(t, "mesh.yaml", shop))...)
	status := c.says(`msg=serving .* status=(\S+)`)
	if got := get(t, "http://"+status+"/healthz/ready"); got != http.StatusOK {
		t.Errorf("not ready: %d", got)
	}
	c.stop()
	c.wait().want(t, cli.ExitOK, "msg=drained")
}

func get(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestRunNeedsOneGateway(t *testing.T) {
	none := write(t, "mesh.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
	several := write(t, "mesh.yaml", gatewayOf("shop")+gatewayOf("bank"))
	waypoint(t, runArgs(t, none)...).want(t, cli.ExitUsage, `no Gateway of class "waypoint"`, none, "--gateway NAMESPACE/NAME")
	waypoint(t, runArgs(t, several)...).want(t, cli.ExitUsage, "bank/waypoint, shop/waypoint", "--gateway NAMESPACE/NAME")
	waypoint(t, runArgs(t, several, "--gateway", "shop/other")...).want(t, cli.ExitUsage, "no Gateway shop/other", "bank/waypoint, shop/waypoint")
	c := start(t, runArgs(t, several, "--gateway", "shop/waypoint")...)
	c.says("msg=serving")
	c.stop()
	c.wait().want(t, cli.ExitOK)
}

func TestRunFails(t *testing.T) {
	mesh := write(t, "mesh.yaml", shop)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--listen", "--status", "--metrics", "--admin"} {
		waypoint(t, runArgs(t, mesh, flag, taken.Addr().String())...).want(t, cli.ExitFailed, flag, taken.Addr().String())
	}
	waypoint(t, runArgs(t, mesh, "--trust-domain", "elsewhere")...).want(t, cli.ExitFailed, "elsewhere", waypointID, "--trust-domain-aliases")
	waypoint(t, runArgs(t, "does/not/exist")...).want(t, cli.ExitFailed, "does/not/exist")
	waypoint(t, "run", "--config", mesh, "--cert", "gone.pem", "--key", "gone.pem", "--root", "gone.pem").want(t, cli.ExitFailed, "gone.pem")
}

// TestRunIsControlled takes configuration from a controller, and keeps it.
func TestRunIsControlled(t *testing.T) {
	controller := meshtest.New(t).Controller()
	args := func(state string) []string {
		args := append([]string{
			"run", "--xds", controller.Addr, "--xds-root", controller.Root, "--token", controller.TokenFile("default/waypoint"),
			"--gateway", "default/waypoint", "--state-dir", state,
		}, certificates(t, waypointID)...)
		return append(args, nowhere...)
	}
	state := filepath.Join(t.TempDir(), "state")
	c := start(t, args(state)...)
	status := c.says(`msg=serving .* status=(\S+)`)
	if got := get(t, "http://"+status+"/healthz/ready"); got != http.StatusServiceUnavailable {
		t.Errorf("ready without a configuration: %d", got)
	}
	controller.Apply("default/waypoint", shop)
	c.says(`msg="in step with the controller"`)
	c.stop()
	c.wait().want(t, cli.ExitOK)

	controller.Stop()
	c = start(t, args(state)...)
	c.says(`msg="serving the saved configuration until the controller is reached"`)
	c.stop()
	c.wait().want(t, cli.ExitOK)
	waypoint(t, args(filepath.Join(write(t, "file", ""), "file"))...).want(t, cli.ExitFailed, "--state-dir")
}

// TestRunIsCertified gets certificates from Istio's CA, and from a SPIFFE agent.
func TestRunIsCertified(t *testing.T) {
	m := meshtest.New(t)
	ca, agent := m.Authority(), m.Agent()
	agent.Issue(m.Certificate(clientID), m.Certificate(waypointID))
	mesh := write(t, "mesh.yaml", shop)
	for name, flags := range map[string][]string{
		"ca":    {"--ca", ca.Addr, "--ca-root", ca.Root, "--ca-token", ca.Token, "--cluster-id", "west", "--cert-ttl", "1h"},
		"agent": {"--workload-api", agent.Socket, "--identity", waypointID},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, append(append([]string{"run", "--config", mesh}, nowhere...), flags...)...)
			c.says(`msg="certificate in force" .*identity=` + waypointID)
			c.stop()
			c.wait().want(t, cli.ExitOK)
		})
	}
	if call := ca.Calls()[0]; call.Cluster != "west" || call.TTL != time.Hour {
		t.Errorf("the CA was asked with %+v", call)
	}
}

func TestValidate(t *testing.T) {
	good := write(t, "mesh.yaml", shop)
	bad := write(t, "mesh.yaml", strings.Replace(shop, "action: DENY", "action: FORBID", 1))
	waypoint(t, "validate", "--config", good).want(t, cli.ExitOK, "0 errors")
	waypoint(t, "validate", "--config", bad).want(t, cli.ExitFailed, "error: ", "mesh.yaml:", "AuthorizationPolicy", "action", "1 error")
	// Its policy does not mean what it seems to on a TCP port.
	waypoint(t, "validate", "--config", good, "--strict").want(t, cli.ExitFailed, "0 errors, 1 warning")
	clean, _, _ := strings.Cut(shop, "apiVersion: security")
	waypoint(t, "validate", "--config", write(t, "mesh.yaml", clean), "--strict").want(t, cli.ExitOK, "0 warnings")
	waypoint(t, "validate", "--config", "does/not/exist").want(t, cli.ExitFailed, "does/not/exist")

	var report struct {
		Gateway  string
		Rejected int
		Problems []struct{ File, Object, Field string }
	}
	out := waypoint(t, "validate", "--config", bad, "--output", "json")
	out.want(t, cli.ExitFailed)
	if err := json.Unmarshal([]byte(out.stdout), &report); err != nil {
		t.Fatalf("%v in %s", err, out.stdout)
	}
	if report.Gateway != "default/waypoint" || report.Rejected != 1 || len(report.Problems) != 1 || report.Problems[0].Field != "spec.action" {
		t.Errorf("report %+v", report)
	}
}

// TestExplainAsksManifestsAndWaypoints: both give the same answer.
func TestExplainAsksManifestsAndWaypoints(t *testing.T) {
	mesh := write(t, "mesh.yaml", shop)
	running := start(t, runArgs(t, mesh)...)
	serving := running.says(`msg=serving .* (status=\S+ .* admin=\S+)`)
	status, _, _ := strings.Cut(strings.TrimPrefix(serving, "status="), " ")
	bare := serving[strings.Index(serving, "admin=")+len("admin="):]
	admin := "http://" + bare
	tests := []struct {
		name string
		args []string
		says []string
	}{
		{"a route", []string{"--to", "10.0.0.1:8080", "GET", "/", "-H", "x-canary: 1"}, []string{"default/cart", "canary"}},
		{"no route", []string{"--to", "10.0.0.1:8080", "GET", "/"}, []string{"404"}},
		{"a policy", []string{"--to", "cart.default.svc.cluster.local:8080", "GET", "/admin/users"}, []string{"403", "no-admin"}},
		{"a TCP connection", []string{"--to", "10.0.0.1:9000"}, []string{"tcp", "127.66.0.21"}},
		{"not served", []string{"--to", "10.9.9.9:80"}, []string{"404"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(whom ...string) outcome {
				return waypoint(t, append(append([]string{"explain", "--from", clientID}, whom...), tt.args...)...)
			}
			text := ask("--config", mesh)
			text.want(t, cli.ExitOK, tt.says...)
			if other := ask("--admin", admin); other != text {
				t.Errorf("the waypoint answers\n%s\nand the manifests\n%s", other.stdout, text.stdout)
			}
			asJSON := ask("--config", mesh, "--output", "json")
			asJSON.want(t, cli.ExitOK)
			if other := ask("--admin", admin, "--output", "json"); other != asJSON {
				t.Errorf("the waypoint answers\n%s\nand the manifests\n%s", other.stdout, asJSON.stdout)
			}
		})
	}
	waypoint(t, "explain", "--admin", bare, "--from", clientID, "--to", "10.9.9.9:80").want(t, cli.ExitOK, "404")
	waypoint(t, "explain", "--admin", status, "--from", clientID, "--to", "10.9.9.9:80").want(t, cli.ExitFailed, status, "is it the admin port?")
	running.stop()
	running.wait().want(t, cli.ExitOK)
	waypoint(t, "explain", "--admin", admin, "--from", clientID, "--to", "10.0.0.1:80").want(t, cli.ExitFailed, "not running, or another --admin?")
	waypoint(t, "explain", "--config", "does/not/exist", "--from", clientID, "--to", "10.0.0.1:80").want(t, cli.ExitFailed, "does/not/exist")
	waypoint(t, "explain", "--config", write(t, "mesh.yaml", gatewayOf("shop")+gatewayOf("bank")), "--from", clientID, "--to", "10.0.0.1:80").
		want(t, cli.ExitUsage, "bank/waypoint, shop/waypoint")
}

func TestCertsUsesACAAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	waypoint(t, "certs", "--out", dir, "--id", waypointID, "--ttl", "1h").
		want(t, cli.ExitOK, waypointID, "1h", "--cert "+filepath.Join(dir, "cert.pem"), "--key ", "--root ")
	ca, cert := read("ca.pem"), read("cert.pem")
	waypoint(t, "certs", "--out", dir, "--id", clientID).want(t, cli.ExitOK, clientID)
	if read("ca.pem") != ca {
		t.Error("the CA was replaced")
	}
	if read("cert.pem") == cert {
		t.Error("the certificate is the old one")
	}
	for _, name := range []string{"key.pem", "ca-key.pem"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is readable by others: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	waypoint(t, "certs", "--out", dir, "--id", clientID).want(t, cli.ExitFailed, "incomplete", "ca-key.pem")
}

func TestTunnelCarries(t *testing.T) {
	m := meshtest.New(t)
	m.TCP("cart", m.Addr(21, 9000), meshtest.Echo)
	wp := m.Waypoint(shop, nil)
	dir := t.TempDir()
	m.WriteCertificate(dir, clientID)
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"tunnel", "--waypoint", wp.Addr, "--waypoint-id", meshtest.WaypointID, "--cert", file("cert.pem"), "--key", file("key.pem"), "--root", file("ca.pem")}
	c := start(t, append(args, "--forward", "127.0.0.1:0=10.0.0.1:9000", "--socks5", "127.0.0.1:0")...)
	c.says("any target, SOCKS5")
	conn, err := net.Dial("tcp", c.says(`(\S+) -> 10\.0\.0\.1:9000`))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if echo, err := io.ReadAll(conn); string(echo) != "hello" || err != nil {
		t.Errorf("%q, %v", echo, err)
	}
	taken := c.says(`(\S+) -> 10\.0\.0\.1:9000`)
	waypoint(t, append(args, "--socks5", taken)...).want(t, cli.ExitFailed, taken, "in use")
	c.stop()
	c.wait().want(t, cli.ExitOK)
}
