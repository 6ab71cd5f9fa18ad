package xds_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/xds"
)

// TestFollow takes a source through the life of a configuration.
func TestFollow(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	c := follow(t, m, of(controller))
	m.Eventually("a stream", func() bool { return controller.Counts().Connected == 1 })
	select {
	case <-c.Whole():
		t.Fatal("whole before the controller knows the gateway")
	default:
	}

	s1, s2, s3 := service(1), other(2), other(3)
	controller.Update(ours, upsert(gateway(), s1, s2, s3, pod(1, s1), pod(2, s2), pod(3, s3), route("r", s1, s2, "/x"), policy("p", s1)))
	<-c.Whole()
	snap := c.store.Load()
	if snap.Version != 1 {
		t.Errorf("one push gave %d publications", snap.Version)
	}
	if snap.Services[key(s1)] == nil || snap.Services[key(s2)] == nil {
		t.Errorf("what is fronted or routed to is missing: %v", snap.Services)
	}
	if snap.Services[key(s3)] != nil || len(snap.Workloads) != 2 {
		t.Errorf("what nobody needs was sent: %v, %v", snap.Services, snap.Workloads)
	}

	// A change of three types comes into force as one, and nothing else is sent.
	before := controller.Counts().Resources
	controller.Update(ours, upsert(route("r", s1, s3, "/x"), policy("q", s1)))
	c.await("the route to the third service", func(snap *mesh.Snapshot) bool { return snap.Services[key(s3)] != nil })
	snap = c.store.Load()
	if snap.Version != 2 || snap.Services[key(s2)] != nil || len(snap.Workloads) != 2 {
		t.Errorf("version %d, services %v, workloads %v", snap.Version, snap.Services, snap.Workloads)
	}
	if sent := controller.Counts().Resources - before; sent != 4 {
		t.Errorf("%d resources were sent, want route, policy, service and pod", sent)
	}

	// What changes elsewhere costs nothing.
	pushes := controller.Counts().Pushes
	controller.Update(ours, upsert(pod(20, s2), pod(21, s2)))
	controller.Update(ours, remove(pod(20)))
	controller.Update(ours, remove(route("r", s1, s3, "/x")))
	c.await("the route gone", func(snap *mesh.Snapshot) bool { return snap.Services[key(s1)].Ports[0].Routes == nil })
	if n := controller.Counts().Pushes - pushes; n != 1 {
		t.Errorf("%d pushes, want 1", n)
	}
	if snap := c.store.Load(); snap.Services[key(s3)] != nil || len(snap.Rejected) > 0 {
		t.Errorf("%v, %v", snap.Services, snap.Rejected)
	}
	if stats := c.Stats(); stats.Updates != 2 || !stats.Connected {
		t.Errorf("%+v", stats)
	}
}

// TestRejected refuses resources by name: the last good versions stay, the rest
// applies, and the controller is told.
func TestRejected(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	s1, s2 := service(1), service(2)
	controller.Update(ours, upsert(gateway(), s1, s2, route("good", s1, s2, "/")))
	c := follow(t, m, of(controller))
	<-c.Whole()

	controller.Update(ours, upsert(broken(route("good", s1, s2, "/")), broken(route("new", s2, s1, "/")), policy("p", s2)))
	c.await("two refused", func(snap *mesh.Snapshot) bool { return len(snap.Rejected) == 2 })
	snap := c.store.Load()
	if r := snap.Services[key(s1)].Ports[0].Routes; r == nil || r.HTTP == nil {
		t.Error("the last good version of a route did not stay")
	}
	if snap.Rejected[0].Object != "HTTPRoute shop/good" || snap.Rejected[1].Object != "HTTPRoute shop/new" {
		t.Errorf("rejected: %v", snap.Rejected)
	}
	m.Eventually("the controller knows", func() bool { return len(controller.Counts().Rejections) == 2 })
	list := controller.Server().Rejections(mustGateway(t))
	if len(list) != 2 || list[0].Key.Name != "HTTPRoute/shop/good" || list[1].Key.Name != "HTTPRoute/shop/new" || !strings.Contains(list[0].Reason, "rules[0]") {
		t.Errorf("rejections: %v", list)
	}

	// After a new connection the controller knows as much, and sends these two
	// only.
	sent := controller.Counts().Resources
	controller.Stop()
	controller.Start()
	m.Eventually("the new controller knows", func() bool { return len(controller.Server().Rejections(mustGateway(t))) == 2 })
	if n := controller.Counts().Resources - sent; n != 2 {
		t.Errorf("%d resources were sent anew, want the two that are refused", n)
	}
	if c.store.Load() != snap {
		t.Error("a new connection without news published")
	}

	// One is repaired, the other is removed while nobody is connected.
	controller.Update(ours, upsert(route("good", s1, s2, "/good")))
	c.await("one refused", func(snap *mesh.Snapshot) bool { return len(snap.Rejected) == 1 })
	controller.Stop()
	controller.Update(ours, remove(route("new", s2, s1, "/")))
	controller.Start()
	c.await("none refused", func(snap *mesh.Snapshot) bool { return len(snap.Rejected) == 0 })
	if list := controller.Server().Rejections(mustGateway(t)); len(list) > 0 {
		t.Errorf("rejections: %v", list)
	}
}

// TestReconnect loses the controller and finds it again: nothing that is known is
// sent, what changed is.
func TestReconnect(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	controller.Update(ours, upsert(gateway()))
	for n := range 50 {
		controller.Update(ours, upsert(service(n), pod(n, service(n))))
	}
	c := follow(t, m, of(controller))
	<-c.Whole()
	c.awaitStep()
	if n := controller.Counts().Resources; n != 101 {
		t.Errorf("%d resources were sent at first", n)
	}
	before := c.store.Load()

	controller.Stop()
	m.Eventually("the loss is known", func() bool { return !c.Stats().Connected })
	m.Eventually("tries that fail are counted", func() bool { return c.Stats().Failures > 0 })
	if c.store.Load() != before {
		t.Error("the loss changed something")
	}
	controller.Update(ours, upsert(pod(99, service(7))))
	controller.Update(ours, remove(service(8)))
	controller.Start()
	c.awaitStep()
	snap := c.store.Load()
	if snap.Version != before.Version+1 {
		t.Errorf("the difference came in %d publications", snap.Version-before.Version)
	}
	// The pod of the service that is gone is not needed any more.
	if counts := controller.Counts(); counts.Resources != 102 || counts.Removed != 2 {
		t.Errorf("sent %d, removed %d", counts.Resources, counts.Removed)
	}
	if snap.Services[key(service(8))] != nil || len(snap.Services[key(service(7))].Ports[0].Endpoints) != 2 {
		t.Error("the difference is not in force")
	}
	if s := c.Stats(); s.Streams != 2 || s.Updates != 1 || s.Last.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestState(t *testing.T) {
	m := meshtest.New(t)
	controller := m.Controller()
	s1, s2 := service(1), service(2)
	controller.Update(ours, upsert(gateway(), s1, s2, pod(1, s1), route("r", s1, s2, "/x"), broken(route("b", s2, s1, "/"))))
	o := of(controller)
	o.StateDir = filepath.Join(t.TempDir(), "state")
	c := follow(t, m, o)
	<-c.Whole()
	controller.Update(ours, upsert(pod(2, s1)))
	c.await("the second pod", func(snap *mesh.Snapshot) bool { return len(snap.Services[key(s1)].Ports[0].Endpoints) == 2 })
	c.end()
	controller.Stop()

	// Without the controller: the same at once, what was refused still fails closed.
	c = follow(t, m, o)
	select {
	case <-c.Whole():
	default:
		t.Fatal("not whole after Load")
	}
	snap := c.store.Load()
	if len(snap.Services[key(s1)].Ports[0].Endpoints) != 2 || len(snap.Rejected) != 1 || snap.Services[key(s2)].Ports[0].Routes == nil {
		t.Errorf("%+v", snap)
	}
	if !strings.Contains(c.log.String(), "serving the saved configuration") {
		t.Error("nothing is said of it")
	}
	sent := controller.Counts().Resources
	controller.Start()
	c.awaitStep()
	if n := controller.Counts().Resources - sent; n != 1 {
		t.Errorf("%d resources were sent anew, want the one that is refused", n)
	}
	c.end()

	path := filepath.Join(o.StateDir, "configuration")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	for name, edit := range map[string]func([]byte) []byte{
		"cut":         func(b []byte) []byte { return b[:len(b)-7] },
		"almost none": func(b []byte) []byte { return b[:30] },
		"empty":       func([]byte) []byte { return nil },
		"flipped":     func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"newer":       func(b []byte) []byte { return []byte(strings.Replace(string(b), " 1\n", " 2\n", 1)) },
		"another's":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			m := meshtest.New(t)
			controller := m.Controller()
			o := of(controller)
			o.StateDir = t.TempDir()
			bad := content
			if edit != nil {
				bad = edit([]byte(string(content)))
			}
			if err := os.WriteFile(filepath.Join(o.StateDir, "configuration"), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if edit == nil {
				o.Gateway = "shop/another"
				var store mesh.Store
				s := xds.New(o, &store)
				if err := s.Load(); err != nil || store.Load().Version != 0 {
					t.Errorf("%v, version %d", err, store.Load().Version)
				}
				return
			}
			c := follow(t, m, o)
			if c.store.Load().Version != 0 || !strings.Contains(c.log.String(), "of no use") {
				t.Error("it was taken")
			}
			controller.Update(ours, upsert(gateway(), s1))
			<-c.Whole()
		})
	}
}

func TestStateDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := xds.New(xds.Options{Gateway: ours, StateDir: file}, new(mesh.Store))
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("%v", err)
	}
}
