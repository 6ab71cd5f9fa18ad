package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// underLoad makes calls of several kinds until edits returns. Each must succeed.
func (w *town) underLoad(edits func()) {
	w.t.Helper()
	var (
		stop  atomic.Bool
		calls atomic.Int64
		wg    sync.WaitGroup
	)
	loop := func(one func() error) {
		wg.Go(func() {
			for !stop.Load() {
				if err := one(); err != nil {
					w.t.Errorf("under load: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 4 {
		loop(func() error {
			a, err := w.attempt(call{to: "echo/load", h2c: i%2 == 1, method: "POST", body: "some body"})
			if err == nil && a.status != 200 {
				err = fmt.Errorf("status %d: %s", a.status, a.body)
			}
			return err
		})
	}
	loop(func() error {
		if got := w.firstLine("prod/client", "echo:9090"); !strings.HasPrefix(got, "echo-v") {
			return fmt.Errorf("TCP: %s", got)
		}
		return nil
	})
	edits()
	before := calls.Load()
	w.Eventually("the load goes on", func() bool { return calls.Load() > before+20 || w.t.Failed() })
	stop.Store(true)
	wg.Wait()
	w.t.Logf("%d calls", calls.Load())
}

// Edits of every kind take effect while requests pass, and none of those fails.
func TestConfigEditsUnderLoad(t *testing.T) {
	w := newTown(t, "", nil)
	answers := func(to, app string) func() bool {
		return func() bool {
			a := w.send(call{to: to})
			return a.app.App == app
		}
	}
	w.underLoad(func() {
		w.wp.Write("route.yaml", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/load", "echo-v1")+", "+leadsTo("/x", "echo-v1")))
		w.Eventually("the route is added", answers("echo/x", "echo-v1"))
		w.wp.Write("route.yaml", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/load", "echo-v2")+", "+leadsTo("/x", "echo-v2")))
		w.Eventually("the route is changed", answers("echo/x", "echo-v2"))
		w.wp.Write("policy.yaml", policyOn("Service echo", "p", "prod", "ALLOW", from("namespaces: [prod]")))
		w.Eventually("the policy is added", func() bool { return w.send(call{to: "echo/load", from: "shop/web"}).status == 403 })
		w.wp.Write("route.yaml", meshRoute("HTTPRoute", "r", "prod", "name: echo, port: 8080", leadsTo("/", "echo-v1")))
		w.Eventually("the route is moved to another port", func() bool { return w.send(call{to: "echo/y"}).status == 200 })
		w.wp.Remove("policy.yaml")
		w.Eventually("the policy is removed", func() bool { return w.send(call{to: "echo/load", from: "shop/web"}).status == 200 })
		w.wp.Write("mesh.yaml", strings.Replace(townBase, `podIP: 127.66.0.22, podIPs: [{ip: 127.66.0.22}], conditions: [{type: Ready, status: "True"}]`, `podIP: 127.66.0.22, podIPs: [{ip: 127.66.0.22}], conditions: [{type: Ready, status: "False"}]`, 1))
		w.Eventually("an endpoint is not ready", func() bool { return w.send(call{to: "echo-v2/"}).status == 503 })
		for range 20 {
			if got := w.send(call{to: "echo/load"}).app.App; got != "echo-v1" {
				t.Errorf("%s answers, which is not ready", got)
			}
		}
		w.wp.Write("mesh.yaml", townBase)
		w.Eventually("it is ready again", answers("echo-v2/", "echo-v2"))
		w.wp.Write("mesh.yaml", strings.Replace(townBase, townPod("echo-v1", 21), "", 1))
		w.Eventually("a pod has gone", func() bool { return w.send(call{to: "echo-v1/"}).status == 503 })
		w.wp.Write("mesh.yaml", townBase)
		w.Eventually("it has come back", answers("echo-v1/", "echo-v1"))
		w.wp.Remove("route.yaml")
		w.Eventually("the route is removed", answers("echo-v1/", "echo-v1"))
	})
}

// What is refused keeps its last good version, if it has one; all else applies.
func TestConfigRejectedKeepsTheLastGoodVersion(t *testing.T) {
	good := meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/a", "echo-v1"))
	policy := policyOn("Service echo", "p", "prod", "DENY", to("paths: [/denied]"))
	w := newTown(t, "", nil)
	w.wp.Write("route.yaml", good)
	w.wp.Write("policy.yaml", policy)
	w.Eventually("both are in force", func() bool {
		return w.send(call{to: "echo/b"}).status == 404 && w.send(call{to: "echo/denied"}).status == 403
	})
	other := meshRoute("HTTPRoute", "other", "prod", "name: echo-v2", leadsTo("/new", "echo-v2"))
	for name, bad := range map[string]string{
		"an unknown field":          replaceOnce(good, "spec:", "spec:\n  colour: red"),
		"a wrong type":              replaceOnce(good, "value: /a", "value: [/a]"),
		"a value that is none":      replaceOnce(good, "type: PathPrefix", "type: Suffix"),
		"a regular expression":      replaceOnce(good, "type: PathPrefix, value: /a", `type: RegularExpression, value: "("`),
		"no YAML":                   replaceOnce(good, "spec:", "spec: ]["),
		"a path that is not rooted": replaceOnce(good, "value: /a", "value: a"),
	} {
		w.wp.Write("route.yaml", bad)
		w.wp.Write("other.yaml", other)
		w.Eventually(name+": the log names it", func() bool { return strings.Contains(w.wp.Log.String(), "route.yaml") })
		w.Eventually("the other one applies", func() bool { return w.send(call{to: "echo-v2/x"}).status == 404 })
		w.check(call{}, w.send(call{to: "echo/a"}), want{app: "echo-v1"})
		w.check(call{}, w.send(call{to: "echo/b"}), want{status: 404})
		w.wp.Write("route.yaml", good)
		w.wp.Remove("other.yaml")
		w.Eventually("the other one has gone", func() bool { return w.send(call{to: "echo-v2/x"}).status == 200 })
	}
	w.wp.Write("policy.yaml", replaceOnce(policy, "action: DENY", "action: DENIAL"))
	w.Eventually("the log names the policy", func() bool { return strings.Contains(w.wp.Log.String(), "prod/p: spec.action") })
	w.expect([]expectation{{"the old policy", call{to: "echo/denied"}, want{status: 403}}, {"and no more", call{to: "echo/a"}, want{app: "echo-v1"}}})
	if n := w.metric("waypoint_config_rejected_objects"); n != 1 {
		t.Errorf("waypoint_config_rejected_objects is %v, want 1", n)
	}
}

// What is new and refused fails closed: a route answers 500 on its parents, a
// policy denies.
func TestConfigNewRejectedFailsClosed(t *testing.T) {
	w := newTown(t, "", nil)
	w.wp.Write("route.yaml", replaceOnce(meshRoute("HTTPRoute", "r", "prod", "name: echo-v1", leadsTo("/a", "echo-v1")), "type: PathPrefix", "type: Suffix"))
	w.Eventually("500 on its parent", func() bool { return w.send(call{to: "echo-v1/"}).status == 500 })
	a := w.send(call{to: "echo-v1/"})
	if entry := w.entry(a); entry["response_code_details"] != "route_rejected" || entry["response_flags"] != "NR" {
		t.Errorf("access log: %v %v", entry["response_code_details"], entry["response_flags"])
	}
	w.check(call{}, w.send(call{to: "echo/"}), want{})
	w.wp.Write("policy.yaml", policyOn("Service echo-v2", "p", "prod", "DENIAL", "{}"))
	w.Eventually("403 on its target", func() bool { return w.send(call{to: "echo-v2/"}).status == 403 })
	w.check(call{}, w.send(call{to: "echo/"}), want{})
	w.wp.Remove("route.yaml")
	w.wp.Remove("policy.yaml")
	w.Eventually("both are gone", func() bool {
		return w.send(call{to: "echo-v1/"}).status == 200 && w.send(call{to: "echo-v2/"}).status == 200
	})
}

// What we cannot do is not left out in silence: the rule answers 500.
func TestConfigUnsupportedFailsClosed(t *testing.T) {
	for name, rule := range map[string]string{
		"extensionRef":       prefixed("/a", "{type: ExtensionRef, extensionRef: {group: x.example, kind: Wasm, name: w}}", toPod("echo-v1")),
		"sessionPersistence": "{matches: [{path: {type: PathPrefix, value: /a}}], sessionPersistence: {type: Cookie}, backendRefs: [" + toPod("echo-v1") + "]}",
		"a backend's mirror": prefixed("/a", "", toPod("echo-v1", "filters: ["+mirrorTo("echo-v2", "")+"]")),
	} {
		w := newTown(t, meshRoute("HTTPRoute", "r", "prod", "name: echo", rule+", "+leadsTo("/b", "echo-v2")), nil)
		a := w.send(call{to: "echo/a"})
		w.check(call{to: name}, a, want{status: 500, app: "none"})
		w.check(call{to: name}, w.send(call{to: "echo/b"}), want{app: "echo-v2"})
		if log := w.wp.Log.String(); !strings.Contains(log, "HTTPRoute prod/r: spec.rules[0]") {
			t.Errorf("%s: the log does not say so:\n%s", name, log)
		}
	}
}

// Of two documents for one object that of the first file stays; both are named.
func TestConfigDuplicates(t *testing.T) {
	w := newTown(t, "", nil)
	w.wp.Write("b.yaml", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/", "echo-v2")))
	w.Eventually("b is in force", func() bool { return w.send(call{}).app.App == "echo-v2" })
	w.wp.Write("c.yaml", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/", "echo-v1")))
	w.Eventually("the log names both", func() bool { return containsAll(w.wp.Log.String(), []string{"b.yaml", "c.yaml"}) })
	w.check(call{}, w.send(call{}), want{app: "echo-v2"})
	w.wp.Write("a.yaml", meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/", "echo-v1")))
	w.Eventually("a comes first", func() bool { return w.send(call{}).app.App == "echo-v1" })
	w.wp.Remove("a.yaml")
	w.Eventually("b is back", func() bool { return w.send(call{}).app.App == "echo-v2" })
	w.wp.Remove("b.yaml")
	w.Eventually("c is left", func() bool { return w.send(call{}).app.App == "echo-v1" })
}

// A ConfigMap volume: files are links into a folder that ..data is a link to, and
// an update swaps that one link.
func TestConfigKubeletSwap(t *testing.T) {
	w := newTown(t, "", nil)
	swap := func(version, pod string) {
		dir := filepath.Join(w.wp.Dir, "..2024_"+version)
		next := filepath.Join(w.wp.Dir, "..data_tmp")
		for _, err := range []error{
			os.Mkdir(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "route.yaml"), []byte(meshRoute("HTTPRoute", "r", "prod", "name: echo", leadsTo("/", pod))), 0o644),
			os.Symlink("..2024_"+version, next),
			os.Rename(next, filepath.Join(w.wp.Dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	swap("1", "echo-v1")
	if err := os.Symlink("..data/route.yaml", filepath.Join(w.wp.Dir, "route.yaml")); err != nil {
		t.Fatal(err)
	}
	only := func(app string) func() bool {
		return func() bool {
			a, b := w.send(call{}), w.send(call{})
			return a.app.App == app && b.app.App == app && w.send(call{}).app.App == app
		}
	}
	w.Eventually("the first version", only("echo-v1"))
	w.underLoad(func() {
		for i := range 4 {
			pod := []string{"echo-v2", "echo-v1"}[i%2]
			swap(fmt.Sprint(i+2), pod)
			w.Eventually("the next version", only(pod))
			if err := os.RemoveAll(filepath.Join(w.wp.Dir, fmt.Sprintf("..2024_%d", i+1))); err != nil {
				t.Fatal(err)
			}
		}
	})
	if log := w.wp.Log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("nothing was read twice or half, but:\n%s", log)
	}
}

// A Service that goes is not served any more, on open connections too.
func TestConfigServiceDeleted(t *testing.T) {
	w := newTown(t, "", nil)
	c := w.open("10.0.0.2:80")
	c.say("GET / HTTP/1.1\r\nHost: echo-v1\r\n\r\n")
	if got := c.reply("GET").StatusCode; got != 200 {
		t.Fatal(got)
	}
	tcp := w.open("10.0.0.2:9090")
	tcp.hear("echo-v1\n")
	w.wp.Write("mesh.yaml", strings.Replace(townBase, townService("echo-v1", "version: echo-v1"), "", 1))
	if _, err := tcp.in.ReadByte(); err == nil {
		t.Error("the TCP stream went on")
	}
	if status := w.refused("10.0.0.2:80"); status != 404 {
		t.Errorf("CONNECT: %d, want 404", status)
	}
	c.say("GET / HTTP/1.1\r\nHost: echo-v1\r\n\r\n")
	c.reply("GET").want(t, 404, "not found")
}

// An edit of one rule in a file with 5,000 routes is live in milliseconds.
func TestConfigFiveThousandRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a file of 5,000 routes")
	}
	file := func(pod string) string {
		var b strings.Builder
		for i := range 5000 {
			target := "echo-v1"
			if i == 2500 {
				target = pod
			}
			b.WriteString(meshRoute("HTTPRoute", fmt.Sprintf("r%d", i), "prod", "name: echo", leadsTo(fmt.Sprintf("/path-%d", i), target)))
		}
		return b.String()
	}
	w := newTown(t, file("echo-v1"), nil)
	w.check(call{}, w.send(call{to: "echo/path-2500"}), want{app: "echo-v1"})
	var took []time.Duration
	for i := range 4 {
		pod := []string{"echo-v2", "echo-v1"}[i%2]
		w.wp.Write("mesh.yaml", townBase+"\n---\n"+file(pod))
		start := time.Now()
		for w.send(call{to: "echo/path-2500"}).app.App != pod {
			if time.Since(start) > patience {
				t.Fatal("the edit does not come")
			}
		}
		took = append(took, time.Since(start).Round(time.Millisecond))
	}
	t.Logf("from the file's being there to being routed by: %v", took)
	if best := slices.Min(took); best > 5*time.Second { // tens of milliseconds where nothing else runs
		t.Errorf("an edit takes %v", best)
	}
}
