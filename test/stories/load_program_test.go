package stories

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/process"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// heavy has the stories of load told too, which build the program, measure it, and
// want the machine for themselves: `make stories-heavy`.
var heavy = flag.Bool("heavy", false, "tell the stories of load and memory")

// program is a waypoint in a process of its own, so that what is measured is it
// alone.
type program struct {
	*meshtest.Mesh
	*process.Process
	t      *testing.T
	addr   string // HBONE
	client *meshtest.Client
}

// built is the folder of the program, once it is built.
var built atomic.Pointer[string]

// build builds the program once for all stories of a run.
var build = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "waypoint-stories-")
	if err != nil {
		return "", err
	}
	built.Store(&dir)
	path = filepath.Join(dir, "waypoint")
	cmd := exec.Command("go", "build", "-pgo=off", "-o", path, "github.com/waypoint-mesh/waypoint/cmd/waypoint")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// removeProgram removes what build has built.
func removeProgram() {
	if dir := built.Load(); dir != nil {
		os.RemoveAll(*dir)
	}
}

// run starts the program. It ends with the story.
func run(t *testing.T, manifests string, flags ...string) *program {
	t.Helper()
	if !*heavy {
		t.Skip("told by `make stories-heavy`")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	m := meshtest.New(t)
	dir := t.TempDir()
	m.WriteCertificate(dir, meshtest.WaypointID)
	config := filepath.Join(dir, "mesh.yaml")
	if err := os.WriteFile(config, []byte(m.Manifests(manifests)), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	args := []string{
		"run", "--config", config, "--cert", in("cert.pem"), "--key", in(certs.KeyFile), "--root", in(certs.CAFile),
		"--listen", m.Addr(1, 15008), "--status", m.Addr(1, 15021), "--metrics", m.Addr(1, 15020), "--admin", m.Addr(1, 15000),
	}
	if mode := os.Getenv(meshtest.TaskModeVariable); mode != "" {
		args = append(args, "--task-mode", mode)
	}
	p := &program{Mesh: m, t: t, addr: m.Addr(1, 15008), client: m.Client(clientID)}
	p.Process, err = process.Run(t.Context(), process.Command{
		Path: path, Args: append(args, flags...), Log: in("log"), Ready: "http://" + m.Addr(1, 15021) + "/healthz/ready",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last of the program's log:\n%s", p.Tail())
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// page is a page of one of its ports.
func (p *program) page(port int, path string) string {
	p.t.Helper()
	return page(p.t, p.Addr(1, port), path).text
}

// measured is what a program holds.
type measured struct {
	goroutines, fds, heap, rss float64 // of these two, bytes
}

// measure collects garbage first, so that what counts is what is held: twice, since
// pools of buffers outlive one collection.
func (p *program) measure() (now measured) {
	p.t.Helper()
	for range 2 {
		p.page(15000, "/debug/pprof/heap?gc=1")
	}
	metrics := p.page(15020, "/metrics")
	for name, value := range map[string]*float64{
		"go_goroutines": &now.goroutines, "process_open_fds": &now.fds, "go_memstats_heap_alloc_bytes": &now.heap,
		"process_resident_memory_bytes": &now.rss,
	} {
		_, rest, found := strings.Cut(metrics, "\n"+name+" ")
		if _, err := fmt.Sscan(rest, value); err != nil || !found {
			p.t.Fatalf("metric %s: %v", name, err)
		}
	}
	return now
}

// idleCoroutines is how many the scheduler keeps for the next requests.
const idleCoroutines = 256

// settles waits until the program holds no more than it did before, give or take a
// few connections that are idle in its pools.
func (p *program) settles(before measured) {
	p.t.Helper()
	var now measured
	deadline := time.Now().Add(patience)
	for now = p.measure(); now.goroutines > before.goroutines+10+idleCoroutines || now.fds > before.fds+10; now = p.measure() {
		if time.Now().After(deadline) {
			p.t.Fatalf("%v goroutines and %v descriptors are open, %v and %v were before", now.goroutines, now.fds, before.goroutines, before.fds)
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // there is no event to wait for
	}
}
