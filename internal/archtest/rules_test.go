package archtest

// arrow says what one package of ours, with everything below it, may import of
// our own. Packages below internal/ are written without that prefix.
type arrow struct {
	from string
	to   []string
	why  string // what the package is for, which is why it needs these and no others
}

// anything as the only target of an arrow lifts the rule for that package.
const anything = "anything"

// arrows is the architecture, leaves first. Nothing points from a line to one
// below it.
var arrows = []arrow{
	{"api", nil, "wire types and their generated code: both ends of a wire use them, so they use nothing of ours"},
	{"identity", nil, "SPIFFE IDs, certificate sources, TLS configurations"},
	{"route", nil, "pure matcher of requests to rules, usable alone"},
	{"task", nil, "blocking code on an event loop: park, wake, batches"},
	{"bearer", nil, "tokens in files, and what they claim of themselves"},
	{"certs", []string{"identity", "bearer", "api"}, "certificate sources: files, the Istio CA, the Workload API, a throw-away CA"},
	{"authz", []string{"identity"}, "pure policy engine, usable alone"},
	{"flow", []string{"identity"}, "the record of one connection or request, and who observes it"},
	{"wire", []string{"task", "identity"}, "TCP and TLS sockets: reader loop, flush without blocking, limits"},
	{"h2", []string{"task"}, "one HTTP/2 connection, client or server, over any transport"},
	{"hbone", []string{"h2", "wire", "task", "identity"}, "CONNECT in both directions: server, dialer, pool"},
	{"mesh", []string{"identity", "authz", "route", "flow"}, "services, workloads and endpoints in one immutable snapshot"},
	{"decide", []string{"mesh", "authz", "route", "flow", "identity"}, "pure: destination, protocol, policy and route of one connection or request"},
	{"upstream", []string{"mesh", "hbone", "wire", "task", "identity"}, "choose an endpoint and connect to it"},
	{"l4", []string{"decide", "upstream", "mesh", "flow", "hbone", "task"}, "byte streams, TLS by server name"},
	{"l7", []string{"decide", "upstream", "mesh", "route", "flow", "hbone", "h2", "task", "identity"}, "HTTP: codec, exchange, filters, retries; it acts on what decide says in the words of mesh and route"},
	{"proxy", []string{"hbone", "l4", "l7", "decide", "mesh", "flow", "identity", "task"}, "the spine: listener, tunnel, sniffing, drain"},
	{"translate", []string{"api"}, "pure: Kubernetes and Istio objects to api resources and status"},
	{"compile", []string{"mesh", "authz", "route", "flow", "api"}, "pure: api resources to parts of a snapshot"},
	{"files", []string{"translate", "compile", "mesh"}, "a watched folder of manifests as the source of configuration"},
	{"xds", []string{"compile", "mesh", "bearer", "api"}, "a delta ADS client as the source of configuration"},
	{"explain", []string{"decide", "upstream", "mesh", "authz", "route", "identity"}, "one decision told step by step, by the engines of the data path"},
	{"tunnel", []string{"hbone", "wire", "task"}, "a way into the mesh without a ztunnel: forwards and SOCKS5"},
	{"telemetry", []string{"flow"}, "metrics, traces and access log of the flows"},
	{"admin", []string{"mesh", "route", "authz", "flow", "explain"}, "readiness, snapshot, live view, profiles"},
	{"controller", []string{"api", "translate", "compile", "identity", "bearer"}, "Gateways to deployments, objects to xDS, status, CA, admission"},
	{"kubectl", []string{"controller", "translate", "api"}, "what `kubectl waypoint` does at an API server; the controller's own code tells it what became of an object"},
	{"app", []string{anything}, "the wiring of a whole waypoint, for the program and for tests alike"},
	{"meshtest", []string{anything}, "test kit: the whole mesh in one process"},
	{"archtest", nil, "this test"},
	{"cmd", []string{anything}, "wiring only"},
	{"cmd/waypoint-demo", []string{anything}, "the demo: a mesh of the kit's parts around a real waypoint process"},
	{"test", []string{anything}, "tests against real components"},
	{"benchmarks", []string{anything}, "load tools"},
}

// module says who may import a module that is not ours, or a part of one. The
// longest prefix of an import path decides.
type module struct {
	prefix string
	users  []string
	why    string
}

// modules is all that is not of the standard library. The data path has one
// line: what a request passes through is written here.
var modules = []module{
	{"golang.org/x/net/http2", []string{"h2", "meshtest"}, "one engine, and its choice private to one package; the kit speaks HTTP/2 by another so that one fault cannot hide another"},
	{"golang.org/x/net/http2/hpack", []string{"h2", "meshtest"}, "as above"},

	{"google.golang.org/protobuf", []string{"api", "translate", "compile", "xds", "controller"}, "resources end at compile; what lies behind it is plain Go"},
	{"google.golang.org/grpc", []string{"api", "xds", "certs", "telemetry", "controller"}, "control planes, CAs and collectors, and the stubs of their services; never the data path"},
	{"github.com/envoyproxy/go-control-plane", []string{"xds", "controller"}, "the discovery protocol"},
	{"google.golang.org/genproto/googleapis/rpc", []string{"xds", "controller"}, "what is wrong with each resource of a response, in a form that both ends read"},
	{"github.com/spiffe/go-spiffe", []string{"certs"}, "the Workload API; what an identity is, identity says, by rules of its own"},
	{"github.com/cenkalti/backoff", []string{"xds", "certs"}, "pauses between tries, with jitter"},

	{"k8s.io", []string{"translate", "files", "controller", "kubectl"}, "object types; behind translate nobody knows Kubernetes"},
	{"sigs.k8s.io", []string{"translate", "files", "controller", "kubectl"}, "as k8s.io"},
	{"istio.io", []string{"translate", "files", "controller", "kubectl"}, "as k8s.io"},
	{"k8s.io/cli-runtime", []string{"kubectl", "cmd"}, "the flags by which kubectl and its plugins reach a cluster"},
	{"k8s.io/client-go", []string{"controller", "kubectl"}, "a waypoint has no API server"},
	{"sigs.k8s.io/controller-runtime", []string{"controller", "kubectl"}, "as client-go"},
	{"github.com/go-logr/logr", []string{"controller"}, "controller-runtime logs through it; it is given our slog handler"},

	{"github.com/prometheus", []string{"telemetry", "controller"}, "metrics of the waypoint are an observer of flows; no other package of it counts into a registry"},
	{"go.opentelemetry.io", []string{"telemetry"}, "as prometheus"},

	{"go.yaml.in/yaml/v3", []string{"files"}, "the line that a field of a manifest stands in; sigs.k8s.io/yaml knows no lines"},

	{"github.com/fsnotify/fsnotify", []string{"certs", "files"}, "an edit is live in milliseconds, and nothing polls; the standard library cannot watch"},

	{"github.com/spf13", []string{"cmd"}, "packages take options, commands make them out of flags"},
}

// free may import any module: kits and tools are linked into no product, and
// cmd is held by what its binaries link.
var free = []string{"meshtest", "cmd/waypoint-demo", "test", "benchmarks"}

// link says what a binary must not contain.
type link struct {
	binary, barred, why string
}

var links = []link{
	{"cmd/waypoint", "k8s.io/client-go", "one waypoint runs per namespace; Kubernetes clients took a small binary from 15 to 43 MB and its idle memory from 15 to 35 MiB"},
	{"cmd/waypoint", "sigs.k8s.io/controller-runtime", "as client-go"},
	{"cmd/waypoint", "testing", "registers flags and carries test code into the product"},
	{"cmd/waypoint", ours + "/internal/meshtest", "the kit makes keys and trusts itself; the demo is a program of its own for that reason"},
	{"cmd/waypoint-controller", "testing", "as for waypoint"},
	{"cmd/waypoint-controller", ours + "/internal/meshtest", "as for waypoint"},
	{"cmd/kubectl-waypoint", "testing", "as for waypoint"},
	{"cmd/kubectl-waypoint", ours + "/internal/meshtest", "as for waypoint"},
}

// Sizes are limits, not goals: median functions here have about ten lines. The
// codebases of this field that are known for being readable have 90 % of their
// files under 490 lines and of their functions under 50; what people complain
// about there are single outliers, which these catch.
const (
	maxFileLines     = 600
	maxFunctionLines = 100
)
