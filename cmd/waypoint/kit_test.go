package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// outcome is how a command line ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// waypoint runs a command line to its end.
func waypoint(t *testing.T, args ...string) outcome {
	t.Helper()
	return start(t, args...).wait()
}

// want fails the test unless the command ended with code and its output, of both
// kinds, has all parts in it.
func (o outcome) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, expected %d", o.code, code)
	}
	for _, part := range parts {
		if !strings.Contains(o.stdout+o.stderr, part) {
			t.Errorf("it does not say %q", part)
		}
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", o.stdout, o.stderr)
	}
}

// command is one that runs.
type command struct {
	t              *testing.T
	stdout, stderr meshtest.Buffer
	stop           context.CancelFunc // as SIGTERM
	ended          chan int
}

func start(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &command{t: t, stop: cancel, ended: make(chan int, 1)}
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&c.stdout)
	root.SetErr(&c.stderr)
	go func() { c.ended <- cli.Execute(ctx, root) }()
	return c
}

func (c *command) wait() outcome {
	c.t.Helper()
	select {
	case code := <-c.ended:
		return outcome{code, c.stdout.String(), c.stderr.String()}
	case <-time.After(30 * time.Second):
		c.t.Fatalf("the command does not end:\n%s\n%s", &c.stdout, &c.stderr)
		return outcome{}
	}
}

// says waits until the command has written what pattern matches, and returns the
// first group of it.
func (c *command) says(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; time.Now().Before(deadline); <-tick.C {
		if match := re.FindStringSubmatch(c.stdout.String() + c.stderr.String()); match != nil {
			return match[len(match)-1]
		}
		select {
		case code := <-c.ended:
			c.t.Fatalf("the command ended with %d:\n%s\n%s", code, &c.stdout, &c.stderr)
		default:
		}
	}
	c.t.Fatalf("the command does not say %s:\n%s\n%s", pattern, &c.stdout, &c.stderr)
	return ""
}

// write writes a file into a folder of the test, and returns the folder.
func write(t *testing.T, name, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newCerts makes certificates by the command for it, and returns the flags that
// name them.
func certificates(t *testing.T, id string) []string {
	t.Helper()
	dir := t.TempDir()
	waypoint(t, "certs", "--out", dir, "--id", id).want(t, cli.ExitOK)
	file := func(name string) string { return filepath.Join(dir, name) }
	return []string{"--cert", file("cert.pem"), "--key", file("key.pem"), "--root", file("ca.pem")}
}

const (
	waypointID = "spiffe://cluster.local/ns/default/sa/waypoint"
	clientID   = "spiffe://cluster.local/ns/default/sa/client"
)

func gatewayOf(namespace string) string {
	return `
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: ` + namespace + `, labels: {istio.io/waypoint-for: service}}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
`
}

// shop is a mesh of one service, with a route and a policy.
var shop = gatewayOf("default") + `
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: default}
spec:
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1]
  selector: {app: cart}
  ports: [{name: http, port: 8080, targetPort: 8080, appProtocol: http}, {name: tcp, port: 9000, targetPort: 9000, appProtocol: tcp}]
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: default, labels: {app: cart}}
spec: {serviceAccountName: cart, nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: 127.66.0.21, podIPs: [{ip: 127.66.0.21}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: cart}]
  rules:
  - name: canary
    matches: [{headers: [{name: x-canary, value: "1"}]}]
    backendRefs: [{name: cart, port: 8080}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: no-admin, namespace: default}
spec:
  targetRefs: [{group: "", kind: Service, name: cart}]
  action: DENY
  rules: [{to: [{operation: {paths: ["/admin*"], ports: ["8080"]}}]}]
`
