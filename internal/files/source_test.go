package files

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

const (
	gatewayText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default, labels: {istio.io/waypoint-for: service}}
spec:
  gatewayClassName: waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
`
	serviceText = `
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: default}
spec:
  clusterIP: %s
  clusterIPs: [%[2]s]
  selector: {app: %[1]s}
  ports: [{name: http, port: 8080, targetPort: 8080, appProtocol: http}]
`
	policyText = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: %s, namespace: default}
spec:
  targetRefs: [{group: "", kind: Service, name: %s}]
  action: DENY
  rules:
  - to: [{operation: {methods: [GET], paths: ["/%s"]}}]
`
)

func svc(name, vip string) string { return fmt.Sprintf(serviceText, name, vip) }

func policy(name, service, path string) string { return fmt.Sprintf(policyText, name, service, path) }

func docs(list ...string) string { return strings.Join(list, "---\n") }

// folder is a source without its watcher: the test says when it looks, and what
// time it is.
type folder struct {
	*Source
	t    testing.TB
	root string
	now  time.Time
}

// load makes a folder with a gateway and what else is given, and loads it.
func load(t *testing.T, entries ...string) *folder {
	t.Helper()
	f := &folder{t: t, root: tree(t, append([]string{"0-gateway.yaml=" + gatewayText}, entries...)...), now: time.Now()}
	f.Source = New(Options{Path: f.root}, new(mesh.Store))
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	return f
}

// write replaces or makes a file in place, as a shell does.
func (f *folder) write(name, content string) {
	f.t.Helper()
	put(f.t, f.root+"/"+name, content)
}

// rename replaces or makes a file at once, as careful editors do.
func (f *folder) rename(name, content string) {
	f.t.Helper()
	put(f.t, f.root+"/.new", content)
	if err := os.Rename(f.root+"/.new", f.root+"/"+name); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(f.root + "/" + name); err != nil {
		f.t.Fatal(err)
	}
}

// look does what Run does when something happened.
func (f *folder) look() {
	_ = f.inventory.lookThrough(f.now) // the error is among the problems
	f.apply()
}

// after lets time pass and looks again.
func (f *folder) after(d time.Duration) {
	f.now = f.now.Add(d)
	f.look()
}

// services lists the services in force as "name:vip".
func (f *folder) services() string {
	var list []string
	for _, s := range f.store.Load().Services {
		list = append(list, fmt.Sprintf("%s:%v", s.Name, s.VIPs[0]))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (f *folder) wantServices(want string) {
	f.t.Helper()
	if got := f.services(); got != want {
		f.t.Errorf("services %q, want %q; problems %v", got, want, f.Problems())
	}
}

// wantProblem looks for a problem that has all of these words; none wanted: that
// there is no problem.
func (f *folder) wantProblem(words ...string) {
	f.t.Helper()
	for _, p := range f.Problems() {
		all := len(words) > 0
		for _, w := range words {
			all = all && strings.Contains(p.String(), w)
		}
		if all {
			return
		}
	}
	if len(words) > 0 || len(f.Problems()) > 0 {
		f.t.Errorf("problems %v, want one with %q", f.Problems(), words)
	}
}

func TestLoad(t *testing.T) {
	f := load(t, "a.yaml="+docs(svc("a", "10.0.0.1"), svc("b", "10.0.0.2")), "sub/c.yml="+svc("c", "10.0.0.3"),
		"d.json={\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"x\"}}")
	f.wantServices("a:10.0.0.1 b:10.0.0.2 c:10.0.0.3")
	f.wantProblem()
	if snap := f.store.Load(); !snap.VIPs[netip.MustParseAddr("10.0.0.3")].Attached {
		t.Error("a service of the gateway's namespace is not attached")
	}
	if s := f.Stats(); s.Files != 4 || s.Documents != 5 || s.Objects != 5 || s.Decoded != 5 {
		t.Errorf("stats %+v", s)
	}
}

func TestChooseGateway(t *testing.T) {
	other := strings.ReplaceAll(gatewayText, "name: waypoint,", "name: other,")
	foreign := strings.ReplaceAll(strings.ReplaceAll(gatewayText, "name: waypoint,", "name: foreign,"), "ClassName: waypoint", "ClassName: nginx")
	broken := strings.ReplaceAll(gatewayText, "gatewayClassName: waypoint", "gatewayClassName: [waypoint]")
	tests := []struct {
		name, content, asked, want string
		found                      []string
	}{
		{name: "the only one", content: docs(gatewayText, foreign), want: "waypoint"},
		{name: "asked for", content: docs(gatewayText, other), asked: "default/other", want: "other"},
		{name: "asked for, of another class", content: docs(gatewayText, foreign), asked: "default/foreign", want: "foreign"},
		{name: "none", content: foreign},
		{name: "several", content: docs(gatewayText, other), found: []string{"default/other", "default/waypoint"}},
		{name: "not there", content: gatewayText, asked: "default/x", found: []string{"default/waypoint"}},
		{name: "unreadable", content: broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var store mesh.Store
			err := New(Options{Path: tree(t, "a.yaml="+tt.content), Gateway: tt.asked}, &store).Load()
			var which *GatewayError
			if errors.As(err, &which) {
				if tt.want != "" || !slices.Equal(which.Found, tt.found) {
					t.Errorf("found %v: %v", which.Found, err)
				}
			} else if got := store.Load().Gateway.Name; err != nil || got != tt.want {
				t.Errorf("chose %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestRefusedGateway: a gateway that cannot be read is told of with the reason.
func TestRefusedGateway(t *testing.T) {
	tests := []struct{ name, was, is, want string }{
		{"unknown field", "listeners:", "listener:", "spec.listener: unknown field"},
		{"wrong value", "protocol: HBONE}", "protocol: HBONE, allowedRoutes: {namespaces: {from: Some}}}", "allowedRoutes.namespaces.from"},
		{"not YAML", "listeners: [", "listeners: [[", "not YAML"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, "a.yaml="+strings.Replace(gatewayText, tt.was, tt.is, 1))
			err := New(Options{Path: root}, new(mesh.Store)).Load()
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "default/waypoint") {
				t.Errorf("got %v, want an error that names default/waypoint and %q", err, tt.want)
			}
		})
	}
}

// TestSituations is what happens to a folder in practice. Each has one file with
// services a and b at first.
func TestSituations(t *testing.T) {
	const both = "a:10.0.0.1 b:10.0.0.2"
	tests := []struct {
		name   string
		happen func(*folder)
		want   string // services at once
		later  string // after the grace, if that is different
		words  []string
	}{
		{"nothing", func(*folder) {}, both, "", nil},
		{"edited in place", func(f *folder) { f.write("m.yaml", docs(svc("a", "10.0.0.9"), svc("b", "10.0.0.2"))) }, "a:10.0.0.9 b:10.0.0.2", "", nil},
		{"edited by rename", func(f *folder) { f.rename("m.yaml", docs(svc("a", "10.0.0.9"), svc("b", "10.0.0.2"))) }, "a:10.0.0.9 b:10.0.0.2", "", nil},
		{"one more", func(f *folder) {
			f.write("m.yaml", docs(svc("a", "10.0.0.1"), svc("b", "10.0.0.2"), svc("c", "10.0.0.3")))
		}, both + " c:10.0.0.3", "", nil},
		{"one more file", func(f *folder) { f.write("n.yaml", svc("c", "10.0.0.3")) }, both + " c:10.0.0.3", "", nil},
		{"one more folder", func(f *folder) { f.write("x/y/n.yaml", svc("c", "10.0.0.3")) }, both + " c:10.0.0.3", "", nil},
		{"one less", func(f *folder) { f.write("m.yaml", svc("a", "10.0.0.1")) }, both, "a:10.0.0.1", nil},
		{"deleted", func(f *folder) { f.remove("m.yaml") }, both, "-", nil},
		{"renamed", func(f *folder) { f.must(os.Rename(f.root+"/m.yaml", f.root+"/z.yaml")) }, both, "", nil},
		{"moved below", func(f *folder) {
			f.write("sub/", "")
			f.must(os.Rename(f.root+"/m.yaml", f.root+"/sub/m.yaml"))
		}, both, "", nil},
		{"emptied", func(f *folder) { f.write("m.yaml", "") }, both, "", []string{"m.yaml", "is empty"}},
		{"only comments", func(f *folder) { f.write("m.yaml", "# nothing\n") }, both, "-", nil},
		{"cut after a document", func(f *folder) { f.write("m.yaml", svc("a", "10.0.0.1")+"---\n") }, both, "a:10.0.0.1", nil},
		{"cut within a line", func(f *folder) { f.write("m.yaml", "apiVersion: v1\nkind: Ser") }, both, "-", []string{"m.yaml:1", "v1 Ser"}},
		{"cut within a document", func(f *folder) { f.write("m.yaml", svc("a", "10.0.0.1")+"---\napiVersion: v1\n") }, both, "", []string{"m.yaml:11", "apiVersion and kind"}},
		{"not YAML", func(f *folder) { f.write("m.yaml", docs("a: [\n", svc("b", "10.0.0.9"))) }, "a:10.0.0.1 b:10.0.0.9", "", []string{"m.yaml:1", "not YAML", "what the file had before stays in force: 1 object"}},
		{"binary", func(f *folder) { f.write("m.yaml", "\x7fELF\x00\n") }, both, "", []string{"m.yaml", "binary"}},
		{"unknown field", func(f *folder) {
			f.write("m.yaml", docs(strings.Replace(svc("a", "10.0.0.9"), "ports:", "port:", 1), svc("b", "10.0.0.9")))
		}, "a:10.0.0.1 b:10.0.0.9", "", []string{"m.yaml:1", "Service default/a", "spec.port", "unknown field"}},
		{"unknown kind", func(f *folder) { f.write("n.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n") }, both, "", []string{"n.yaml:1", "apps/v1 Deployment", "ignored"}},
		{"list", func(f *folder) {
			f.write("m.yaml", "kind: List\napiVersion: v1\nitems:\n"+indent(svc("a", "10.0.0.1"))+indent(svc("b", "10.0.0.9")))
		}, "a:10.0.0.1 b:10.0.0.9", "", nil},
		{"twice the same", func(f *folder) { f.write("n.yaml", svc("a", "10.0.0.1")) }, both, "", []string{"n.yaml:1", "Service default/a", "m.yaml:1"}},
		{"two that differ", func(f *folder) { f.write("n.yaml", svc("a", "10.0.0.9")) }, both, "", []string{"n.yaml:1", "Service default/a", "m.yaml:1"}},
		{"an earlier file", func(f *folder) { f.write("1.yaml", svc("a", "10.0.0.9")) }, "a:10.0.0.9 b:10.0.0.2", "", []string{"m.yaml:1", "Service default/a", "1.yaml:1"}},
		{"twice in one file", func(f *folder) { f.write("n.yaml", docs(svc("c", "10.0.0.3"), svc("c", "10.0.0.4"))) }, both + " c:10.0.0.3", "", []string{"n.yaml:11", "Service default/c", "n.yaml:1"}},
		{"the folder is gone", func(f *folder) { f.must(os.Rename(f.root, f.root+".gone")) }, both, "", []string{"no such file"}},
		{"windows line ends", func(f *folder) {
			f.write("m.yaml", "\ufeff"+strings.ReplaceAll(docs(svc("a", "10.0.0.9"), svc("b", "10.0.0.2")), "\n", "\r\n"))
		}, "a:10.0.0.9 b:10.0.0.2", "", nil},
		{"anchors", func(f *folder) {
			f.write("m.yaml", docs(strings.Replace(svc("a", "10.0.0.9"), "clusterIP: 10.0.0.9\n  clusterIPs: [10.0.0.9]", "clusterIP: &ip 10.0.0.9\n  clusterIPs: [*ip]", 1), svc("b", "10.0.0.2")))
		}, "a:10.0.0.9 b:10.0.0.2", "", nil},
		{"too large", func(f *folder) {
			f.must(os.Truncate(f.root+"/m.yaml", maxFile+1))
		}, both, "", []string{"m.yaml", "larger than 64 MiB"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "m.yaml="+docs(svc("a", "10.0.0.1"), svc("b", "10.0.0.2")))
			tt.happen(f)
			f.look()
			f.wantServices(tt.want)
			f.after(grace)
			switch tt.later {
			case "":
				f.wantServices(tt.want)
			case "-":
				f.wantServices("")
			default:
				f.wantServices(tt.later)
			}
			f.wantProblem(tt.words...)
		})
	}
}

func (f *folder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// indent makes an item of a list.
func indent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "- " + strings.Join(lines, "\n  ") + "\n"
}

// kubelet makes a folder as kubelet mounts a ConfigMap: the file is a link
// through ..data, which is a link to a hidden directory of one version.
func kubelet(t *testing.T, content string) *folder {
	f := &folder{t: t, root: t.TempDir(), now: time.Now()}
	f.swap(1, content)
	put(t, f.root+"/m.yaml", "-> ..data/m.yaml")
	f.Source = New(Options{Path: f.root}, new(mesh.Store))
	f.must(f.Load())
	return f
}

// swap puts a version in the place of the one before, as kubelet does.
func (f *folder) swap(version int, content string) {
	f.t.Helper()
	dir := fmt.Sprintf("..2024_%d", version)
	put(f.t, filepath.Join(f.root, dir, "m.yaml"), docs(gatewayText, content))
	put(f.t, f.root+"/..data_tmp", "-> "+dir)
	f.must(os.Rename(f.root+"/..data_tmp", f.root+"/..data"))
	f.remove(fmt.Sprintf("..2024_%d", version-1))
}

func TestKubelet(t *testing.T) {
	f := kubelet(t, svc("a", "10.0.0.1"))
	f.swap(2, svc("a", "10.0.0.9"))
	f.look()
	f.wantServices("a:10.0.0.9")
	f.wantProblem()
	if s := f.Stats(); s.Files != 1 || s.Decoded != 3 {
		t.Errorf("stats %+v, want one file and 3 documents decoded: the gateway stayed", s)
	}
}

func TestOnlyChangedDocumentsAreDecoded(t *testing.T) {
	list := make([]string, 50)
	for i := range list {
		list[i] = svc(fmt.Sprint("s", i), fmt.Sprint("10.0.0.", i+1))
	}
	f := load(t, "m.yaml="+docs(list...))
	before, was := f.Stats().Decoded, maps.Clone(f.store.Load().Services)
	list[7] = svc("s7", "10.9.0.9")
	f.write("m.yaml", "# a line more\n"+docs(list...))
	f.look()
	if n := f.Stats().Decoded - before; n != 2 { // the first document has the comment
		t.Errorf("%d documents were decoded, want 2", n)
	}
	f.remove("m.yaml")
	f.look()
	f.write("m.yaml", "# a line more\n"+docs(list...))
	f.look()
	if n := f.Stats().Decoded - before; n != 2 {
		t.Errorf("%d documents were decoded, want 2: the file was gone only for a moment", n)
	}
	fresh := 0
	for key, s := range f.store.Load().Services {
		if was[key] != s {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d services were built anew, want 1", fresh)
	}
}

func TestOnlyChangedItemsAreApplied(t *testing.T) {
	list := func(vip string) string {
		return "apiVersion: v1\nkind: List\nitems:\n" + indent(svc("a", "10.0.0.1")) + indent(svc("b", vip))
	}
	f := load(t, "m.yaml="+list("10.0.0.2"))
	was := maps.Clone(f.store.Load().Services)
	f.write("m.yaml", list("10.0.0.9"))
	f.look()
	f.wantServices("a:10.0.0.1 b:10.0.0.9")
	for key, s := range f.store.Load().Services {
		if same := was[key] == s; same != (s.Name == "a") {
			t.Errorf("%s: the same as before: %v", key, same)
		}
	}
}

// TestFailsClosed: a policy that cannot be read denies; it is not left out.
func TestFailsClosed(t *testing.T) {
	tests := []struct{ name, text string }{
		{"wrong value", strings.Replace(policy("p", "a", "x"), "DENY", "DENIED", 1)},
		{"unknown field", strings.Replace(policy("p", "a", "x"), "action", "actions", 1)},
		{"not YAML after the target", strings.Replace(policy("p", "a", "x"), "rules:", "rules: [", 1)},
		{"not YAML in the target", strings.Replace(policy("p", "a", "x"), "name: a}]", "name: a]", 1)},
		{"tabs", strings.Replace(policy("p", "a", "x"), "  action", "\taction", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "a.yaml="+svc("a", "10.0.0.1"), "p.yaml="+tt.text)
			f.wantProblem("p.yaml:", "AuthorizationPolicy default/p")
			rejected := f.store.Load().Rejected
			if !slices.ContainsFunc(rejected, func(p mesh.Problem) bool { return p.Object == "AuthorizationPolicy default/p" }) {
				t.Errorf("rejected: %v", rejected)
			}
			f.wantDenied(true)
			f.write("p.yaml", policy("p", "a", "x"))
			f.look()
			f.wantDenied(false)
			f.wantProblem()
			f.write("p.yaml", tt.text)
			f.look()
			f.wantDenied(false) // the last good version stays
			f.wantProblem("p.yaml:", "AuthorizationPolicy default/p")
		})
	}
}

// wantDenied asks the policies of service a about a request that the good
// version of the policy lets pass.
func (f *folder) wantDenied(want bool) {
	f.t.Helper()
	_, port := f.store.Load().VIP(netip.MustParseAddrPort("10.0.0.1:8080"))
	d := port.HTTPAuthz.Check(&authz.Request{Method: "POST", Path: "/"})
	if d.Allowed == want {
		f.t.Errorf("a request is allowed: %v, want %v (%v)", d.Allowed, !want, d.Reason)
	}
}

// TestRouteFailsClosed: what a route that cannot be read was to take is answered
// 500, whichever way it is wrong.
func TestRouteFailsClosed(t *testing.T) {
	good := strings.ReplaceAll(strings.TrimPrefix(fmt.Sprintf(routeText, 1, 0, 1), "---\n"), "name: s0", "name: a")
	for name, change := range map[string][2]string{
		"unknown field": {"matches:", "matching:"},
		"wrong type":    {"matches: [", "matches: {x: ["},
		"wrong value":   {"value: /p1", "value: p1"},
		"not YAML":      {"matches: [", "matches: [["},
	} {
		t.Run(name, func(t *testing.T) {
			f := load(t, "a.yaml="+svc("a", "10.0.0.1"), "r.yaml="+strings.Replace(good, change[0], change[1], 1))
			f.wantProblem("r.yaml", "HTTPRoute default/r1")
			_, port := f.store.Load().VIP(netip.MustParseAddrPort("10.0.0.1:8080"))
			if port.Routes == nil || port.Routes.HTTP == nil {
				t.Fatal("requests are served as if there were no route")
			}
			rule, _, ok := port.Routes.HTTP.Match(&route.Request{Method: "GET", Path: "/p1"})
			if !ok || rule.Invalid == "" {
				t.Errorf("a request follows %+v", rule)
			}
		})
	}
}
