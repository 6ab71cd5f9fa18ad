package meshtest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// TaskModeVariable names the environment variable by which a whole test run puts
// its waypoints on goroutines.
const TaskModeVariable = "WAYPOINT_TEST_TASK_MODE"

// WaypointID is who a waypoint is unless its test says otherwise.
const WaypointID = "spiffe://cluster.local/ns/default/sa/waypoint"

// Waypoint is a whole waypoint in this process.
type Waypoint struct {
	App  *app.App
	Addr string // HBONE
	Dir  string // the folder of its manifests: write to it to change them
	Log  *Buffer
	// AccessLog is what it logs of requests, as JSON.
	AccessLog *Buffer

	mesh *Mesh
	stop context.CancelFunc
	done chan struct{}
	err  error // of Run; valid once done is closed
}

// Waypoint starts a waypoint for manifests, which are moved to the network of the
// mesh first, and waits until it is ready. change, if not nil, may change its
// options.
func (m *Mesh) Waypoint(manifests string, change func(*app.Options)) *Waypoint {
	m.t.Helper()
	w := m.StartWaypoint(manifests, change)
	w.AwaitReady()
	return w
}

// StartWaypoint is Waypoint without the wait.
func (m *Mesh) StartWaypoint(manifests string, change func(*app.Options)) *Waypoint {
	m.t.Helper()
	dir := m.tempDir()
	certDir := filepath.Join(dir, "certs")
	m.must(os.Mkdir(certDir, 0o700))
	m.WriteCertificate(certDir, WaypointID)
	w := &Waypoint{Dir: filepath.Join(dir, "mesh"), Log: new(Buffer), AccessLog: new(Buffer), mesh: m, done: make(chan struct{})}
	m.must(os.Mkdir(w.Dir, 0o755))
	w.Write("mesh.yaml", manifests)
	level := new(slog.LevelVar)
	level.Set(slog.LevelDebug)
	o := app.Options{
		Version: "test", Commit: "test",
		Log: slog.New(slog.NewTextHandler(w.Log, &slog.HandlerOptions{Level: level})), Level: level,
		Config: w.Dir,
		Cert:   filepath.Join(certDir, "cert.pem"), Key: filepath.Join(certDir, "key.pem"), Root: filepath.Join(certDir, "ca.pem"),
		Trust:  identity.Trust{Domain: "cluster.local"},
		Listen: "127.0.0.1:0", Status: "127.0.0.1:0", Metrics: "127.0.0.1:0", Admin: "127.0.0.1:0",
		DrainDelay: 0, DrainTimeout: 10 * time.Second,
		AccessLog: "json", AccessLogOutput: w.AccessLog, TraceSampling: 1,
		HandshakeTimeout: 10 * time.Second, ConnectTimeout: 10 * time.Second, IdleTimeout: time.Hour,
		DetectTimeout: 200 * time.Millisecond, MaxHeaderBytes: 60 << 10, MaxHeaders: 1000, ClientHeaders: true,
	}
	if os.Getenv(TaskModeVariable) == task.Goroutines.String() {
		o.TaskMode = task.Goroutines
	}
	if change != nil {
		change(&o)
	}
	w.start(o)
	return w
}

func (w *Waypoint) start(o app.Options) {
	m := w.mesh
	ctx, cancel := context.WithCancel(m.ctx)
	a, err := app.New(ctx, o)
	if err != nil {
		cancel()
		m.t.Fatalf("meshtest: starting a waypoint: %v", err)
	}
	w.App, w.Addr, w.stop = a, a.Addr().String(), cancel
	go func() {
		defer close(w.done)
		w.err = a.Run(ctx)
	}()
	m.t.Cleanup(w.cleanUp)
}

// AwaitReady waits until the waypoint is ready.
func (w *Waypoint) AwaitReady() {
	w.mesh.t.Helper()
	w.mesh.Eventually("the waypoint is ready", func() bool { return w.Ready() == "ready" })
}

// Ready is what a probe is answered: "ready", or what is missing.
func (w *Waypoint) Ready() string {
	w.mesh.t.Helper()
	return strings.TrimSpace(w.get(w.App.StatusAddr().String(), "/healthz/ready"))
}

func (w *Waypoint) cleanUp() {
	w.stop()
	select {
	case <-w.done:
		if w.err != nil {
			w.mesh.t.Errorf("meshtest: the waypoint ended with: %v", w.err)
		}
	case <-time.After(20 * time.Second):
		w.mesh.t.Errorf("meshtest: the waypoint does not end; its log:\n%s", w.Log)
	}
}

// Stop begins the drain, as SIGTERM does.
func (w *Waypoint) Stop() { w.stop() }

// Done is closed when the waypoint has ended.
func (w *Waypoint) Done() <-chan struct{} { return w.done }

// Write writes a manifest of the waypoint's, whole at once.
func (w *Waypoint) Write(name, manifests string) {
	w.mesh.t.Helper()
	part := filepath.Join(w.Dir, "."+name+".part")
	w.mesh.must(os.WriteFile(part, []byte(w.mesh.Manifests(manifests)), 0o644))
	w.mesh.must(os.Rename(part, filepath.Join(w.Dir, name)))
}

// Remove removes a manifest.
func (w *Waypoint) Remove(name string) {
	w.mesh.t.Helper()
	w.mesh.must(os.Remove(filepath.Join(w.Dir, name)))
}

// Metrics returns what Prometheus would scrape.
func (w *Waypoint) Metrics() string { return w.get(w.App.MetricsAddr().String(), "/metrics") }

// Admin returns a page of the admin port.
func (w *Waypoint) Admin(path string) string { return w.get(w.App.AdminAddr().String(), path) }

func (w *Waypoint) get(addr, path string) string {
	w.mesh.t.Helper()
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // nothing is to outlive the waypoint
	resp, err := web.Get("http://" + addr + path)
	w.mesh.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	w.mesh.must(err)
	return string(body)
}

func (m *Mesh) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("meshtest: %v", err)
	}
}

// tempDir makes a folder that goes with the mesh.
func (m *Mesh) tempDir() string {
	m.t.Helper()
	dir, err := os.MkdirTemp("", "waypoint-mesh-")
	m.must(err)
	m.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			m.t.Errorf("meshtest: %v", err)
		}
	})
	return dir
}

// Buffer collects what several goroutines write.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
