package stories

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// town is where the stories of routes, policies, configuration and attacks happen:
// the mesh that the conformance suite of the Gateway API uses. Service echo has
// two pods, echo-v1 and echo-v2, which have Services of their own too, all in
// namespace prod; namespace consumer has clients alone.
type town struct {
	*stage
	http  map[string]*meshtest.HTTPApp   // port 8080, by pod
	grpc  map[string]*meshtest.GRPCApp   // port 7070
	nodes map[string]*meshtest.NodeProxy //

	mu      sync.Mutex // guards what follows
	clients map[string]*meshtest.Client
	calls   int
}

// vips are the addresses of the Services.
var vips = map[string]string{"echo": "10.0.0.1", "echo-v1": "10.0.0.2", "echo-v2": "10.0.0.3", "other": "10.0.1.1"}

// townGateway is the Gateway and the namespaces.
const townGateway = `
apiVersion: v1
kind: Namespace
metadata: {name: prod, labels: {istio.io/use-waypoint: waypoint}}
---
apiVersion: v1
kind: Namespace
metadata: {name: consumer}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: prod, labels: {istio.io/waypoint-for: service}}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
`

// townPod is a pod of the given name and last byte of its address.
func townPod(name string, host byte) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: prod, labels: {app: echo, version: %[1]s}, annotations: {ambient.istio.io/redirection: enabled}}
spec: {serviceAccountName: %[1]s, nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: 127.66.0.%[2]d, podIPs: [{ip: 127.66.0.%[2]d}], conditions: [{type: Ready, status: "True"}]}
`, name, host)
}

// townService is a Service of prod with the ports that the conformance suite uses.
func townService(name, selector string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: prod}
spec:
  clusterIP: %[2]s
  clusterIPs: [%[2]s]
  selector: {%[3]s}
  ports:
  - {name: http, port: 80, targetPort: 8080, appProtocol: http}
  - {name: http-alt, port: 8080}
  - {name: tls, port: 443, targetPort: 8443}
  - {name: tcp, port: 9090}
  - {name: grpc, port: 7070}
  - {name: web, port: 8181, targetPort: 8080}
`, name, vips[name], selector)
}

// townBase is everything but routes and policies.
var townBase = townGateway + townPod("echo-v1", 21) + townPod("echo-v2", 22) +
	townService("echo", "app: echo") + townService("echo-v1", "version: echo-v1") + townService("echo-v2", "version: echo-v2")

// newTown starts the town with further manifests, and options changed by change
// if that is not nil.
func newTown(t *testing.T, manifests string, change func(*app.Options)) *town {
	t.Helper()
	w := newTownWithout(t)
	w.start(townBase+"\n---\n"+manifests, change)
	return w
}

// start starts the waypoint.
func (w *town) start(manifests string, change func(*app.Options)) {
	w.t.Helper()
	w.wp = w.Waypoint(manifests, change)
	t := w.t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the waypoint's log:\n%.20000s", w.wp.Log)
		}
		w.leave()
	})
}

// leave cuts the clients' tunnels: the waypoint need not wait for them to hear that
// it ends.
func (w *town) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		c.Close()
	}
}

// newTownWithout is a town that has no waypoint yet.
func newTownWithout(t *testing.T) *town {
	t.Helper()
	w := &town{
		stage: &stage{Mesh: meshtest.New(t), t: t}, http: make(map[string]*meshtest.HTTPApp), grpc: make(map[string]*meshtest.GRPCApp),
		nodes: make(map[string]*meshtest.NodeProxy), clients: make(map[string]*meshtest.Client),
	}
	for pod, host := range map[string]byte{"echo-v1": 21, "echo-v2": 22} {
		w.http[pod] = w.HTTP(pod, w.Addr(host, 8080))
		w.grpc[pod] = w.GRPC(pod, w.Addr(host, 7070))
		w.TCP(pod, w.Addr(host, 9090), meshtest.Greet(pod+"\n"))
		w.TLS(pod, w.Addr(host, 8443), "a.example", "b.example")
		w.nodes[pod] = w.NodeProxy(w.IP(host), "spiffe://cluster.local/ns/prod/sa/"+pod)
	}
	w.stage.client = w.as("prod/client")
	return w
}

// as is the client of an identity "namespace/account", with "@ADDRESS" behind it if
// it does not call from 127.0.0.1.
func (w *town) as(who string) *meshtest.Client {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clients[who]
	if c == nil {
		id, from, _ := strings.Cut(who, "@")
		namespace, account, ok := strings.Cut(id, "/")
		if !ok {
			w.t.Fatalf("%q is no NAMESPACE/ACCOUNT", who)
		}
		c = w.Client("spiffe://cluster.local/ns/" + namespace + "/sa/" + account)
		c.From = from
		w.clients[who] = c
	}
	return c
}

// vipOf turns "SERVICE[:PORT]" into an address. What names no Service stays.
func vipOf(to string) string {
	name, port, ok := strings.Cut(to, ":")
	if !ok {
		port = "80"
	}
	if vip := vips[name]; vip != "" {
		name = vip
	}
	return name + ":" + port
}

// call is one request.
type call struct {
	method  string // default: GET
	to      string // "SERVICE[:PORT]/path"; default: echo/
	from    string // who calls, as town.as has it; default: prod/client
	host    string // default: the Service
	headers string // "name: value | name: value"
	body    string
	h2c     bool
}

// answer is what came of it.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	app     meshtest.Request // as it reached the application; zero: none
	id      string           // its x-request-id
}

// headerLines takes "name: value | name: value" apart.
func headerLines(list string) (all []meshtest.Field) {
	for line := range strings.SplitSeq(list, "|") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all = append(all, meshtest.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
		}
	}
	return all
}

// send makes a call, and ends the test if there is no answer at all.
func (w *town) send(c call) answer {
	w.t.Helper()
	a, err := w.attempt(c)
	if err != nil {
		w.t.Fatalf("%+v: %v\n%s", c, err, w.wp.Log)
	}
	return a
}

// attempt makes a call.
func (w *town) attempt(c call) (a answer, err error) {
	to := c.to
	if to == "" {
		to = "echo/"
	}
	service, path, _ := strings.Cut(to, "/")
	from := c.from
	if from == "" {
		from = "prod/client"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+vipOf(service)+"/"+path, strings.NewReader(c.body))
	if err != nil {
		return a, err
	}
	if c.body == "" {
		req.Body = http.NoBody
	}
	req.Host, _, _ = strings.Cut(service, ":")
	if c.host != "" {
		req.Host = c.host
	}
	w.mu.Lock()
	w.calls++
	a.id = "call-" + strconv.Itoa(w.calls)
	w.mu.Unlock()
	req.Header.Set("x-request-id", a.id)
	for _, f := range headerLines(c.headers) {
		req.Header.Add(f.Name, f.Value)
	}
	return a, a.receive(w.httpClient(from, c.h2c), req)
}

func (a *answer) receive(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	a.status, a.header, a.trailer, a.body = resp.StatusCode, resp.Header, resp.Trailer, string(body)
	if a.app.App = resp.Header.Get("x-app"); a.app.App == "" || len(body) == 0 {
		return nil
	}
	return json.Unmarshal(body, &a.app)
}

// httpClients are kept for the connections that they keep.
var httpClients sync.Map // by httpClientKey

type httpClientKey struct {
	w    *town
	from string
	h2c  bool
}

func (w *town) httpClient(from string, h2c bool) *http.Client {
	key := httpClientKey{w, from, h2c}
	if c, ok := httpClients.Load(key); ok {
		return c.(*http.Client)
	}
	c := w.as(from).HTTP(w.wp.Addr)
	if h2c {
		c = w.as(from).H2C(w.wp.Addr)
	}
	w.t.Cleanup(func() { httpClients.Delete(key) })
	httpClients.Store(key, c)
	return c
}

// entry is the line of the access log of a call, once it has been written.
func (w *town) entry(a answer) map[string]any {
	w.t.Helper()
	return w.logLine(func(line map[string]any) bool { return line["request_id"] == a.id })
}

// logLine is the first line of the access log that is so.
func (w *town) logLine(so func(map[string]any) bool) (found map[string]any) {
	w.t.Helper()
	w.Eventually("the access log has the line", func() bool {
		for text := range strings.Lines(w.wp.AccessLog.String()) {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && so(line) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// splitPairs takes "key: value|key: value" apart.
func splitPairs(list string) map[string]string {
	pairs := make(map[string]string)
	for pair := range strings.SplitSeq(list, "|") {
		key, value, _ := strings.Cut(pair, ": ")
		pairs[key] = value
	}
	return pairs
}

// answerWithFields answers with the fields of the request that are an
// application's.
func answerWithFields(x *meshtest.Exchange) {
	var sent []meshtest.Field
	for _, f := range x.Header {
		if name := strings.ToLower(f.Name); strings.HasPrefix(name, "x-header-") || name == "another" {
			sent = append(sent, f)
		}
	}
	x.Reply(200, "", sent...)
}

// replaceOnce is for manifests that are made of others.
func replaceOnce(manifest, old, by string) string {
	before, after, ok := strings.Cut(manifest, old)
	if !ok {
		panic("no " + old + " in " + manifest)
	}
	return before + by + after
}
