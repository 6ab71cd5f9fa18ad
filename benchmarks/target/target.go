// Package target is what is measured: our waypoint, and Envoy doing a waypoint's
// work, each started with the same mesh, the same certificates and the same
// address.
package target

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/waypoint-mesh/waypoint/benchmarks/envoy"
	"github.com/waypoint-mesh/waypoint/benchmarks/process"
	"github.com/waypoint-mesh/waypoint/benchmarks/waypoint"
	"github.com/waypoint-mesh/waypoint/internal/certs"
)

// The names of targets.
const (
	Waypoint = "waypoint"
	Envoy    = "envoy"
	Base     = "base" // our waypoint of another commit
)

// Target is a program to measure.
type Target struct {
	Name    string
	Version string
	Workers int
	shipped bool // the number of workers is what the program chooses itself
	path    string
	args    []string // more of them
}

// String names the target with its workers.
func (t *Target) String() string { return fmt.Sprintf("%s:%d", t.Name, t.Workers) }

// Ours reports whether it is our waypoint, which tells more about itself.
func (t *Target) Ours() bool { return t.Name != Envoy }

// NewWaypoint returns our waypoint, whose binary is at path. 0 workers: as many as
// it takes itself.
func NewWaypoint(ctx context.Context, name, path string, workers int, args []string) (*Target, error) {
	t := &Target{Name: name, Workers: workers, shipped: workers == 0, path: path, args: args}
	if t.shipped {
		t.Workers = runtime.NumCPU()
	}
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", path, err)
	}
	t.Version = parseVersion(string(out))
	return t, nil
}

// parseVersion reads "waypoint VERSION" from the first line of what it says.
func parseVersion(out string) string {
	line, _, _ := strings.Cut(out, "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "waypoint "))
}

// NewEnvoy returns the Envoy at path. 0 workers: one.
func NewEnvoy(path string, workers int) *Target {
	return &Target{Name: Envoy, Version: envoy.Version, Workers: max(1, workers), path: path}
}

// Mesh is what the target is configured with beside the service that is called.
type Mesh struct {
	Routes, Services, Policies int
	AccessLog                  string // a file; none: it is written and dropped
}

// Instance is a target that runs.
type Instance struct {
	*process.Process
	HBONE    netip.AddrPort
	metrics  string // URL
	admin    string // URL; ours only
	manifest string // folder; ours only

	perReading float64 // objects that a reading of Costs allocates
	readings   int
}

// Destinations in the mesh.
const (
	HTTP = "10.0.0.1:8080"
	GRPC = "10.0.0.5:8080"
	TCP  = "10.0.0.4:9000"
)

const (
	listenPort = 25008
	statusPort = 25021
	metricPort = 25020
	adminPort  = 25000
)

// Editable reports whether Edit works: ours follows files.
func (i *Instance) Editable() bool { return i.manifest != "" }

// Edit has requests for /version reach the application with x-version: n.
func (i *Instance) Edit(n int) error { return waypoint.Edit(i.manifest, n) }

// Start runs t until it is ready.
func (t *Target) Start(ctx context.Context, n *Network, m Mesh) (*Instance, error) {
	start := t.startWaypoint
	if t.Name == Envoy {
		start = t.startEnvoy
	}
	i, err := start(ctx, n, m)
	if err != nil {
		return nil, err
	}
	i.HBONE = netip.AddrPortFrom(n.waypoint(), listenPort)
	return i, nil
}

func (t *Target) startWaypoint(ctx context.Context, n *Network, m Mesh) (*Instance, error) {
	dir := filepath.Join(n.dir, "manifests")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	manifests := waypoint.Manifests{Pod: n.Pod().String(), Client: workload(Client), Policies: m.Policies, Routes: m.Routes, Services: m.Services}
	if err := manifests.WriteDir(dir); err != nil {
		return nil, err
	}
	i, err := t.serve(ctx, n, m.AccessLog, "--config", dir)
	if err != nil {
		return nil, err
	}
	i.manifest = dir
	return i, nil
}

// StartFrom runs our waypoint with its configuration from elsewhere, as the flags in
// source say, until it is ready.
func (t *Target) StartFrom(ctx context.Context, n *Network, source ...string) (*Instance, error) {
	i, err := t.serve(ctx, n, "", source...)
	if err != nil {
		return nil, err
	}
	i.HBONE = netip.AddrPortFrom(n.waypoint(), listenPort)
	return i, nil
}

func (t *Target) serve(ctx context.Context, n *Network, accessLog string, source ...string) (*Instance, error) {
	at := func(port int) string { return netip.AddrPortFrom(n.waypoint(), uint16(port)).String() }
	files := n.files(waypointAccount)
	c := process.Command{
		Path: t.path,
		Args: append([]string{
			"run", "--access-log", "text",
			"--cert", filepath.Join(files, certs.CertFile), "--key", filepath.Join(files, certs.KeyFile), "--root", filepath.Join(files, certs.CAFile),
			"--listen", at(listenPort), "--status", at(statusPort), "--metrics", at(metricPort), "--admin", at(adminPort),
		}, source...),
		Output: accessLog, Log: filepath.Join(n.dir, "waypoint.log"),
		Ready: "http://" + at(statusPort) + "/healthz/ready",
	}
	c.Args = append(c.Args, t.args...)
	if !t.shipped {
		c.Env = []string{"GOMAXPROCS=" + strconv.Itoa(t.Workers)}
	}
	p, err := process.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Instance{Process: p, metrics: "http://" + at(metricPort) + "/metrics", admin: "http://" + at(adminPort)}, nil
}

func (t *Target) startEnvoy(ctx context.Context, n *Network, m Mesh) (*Instance, error) {
	path := filepath.Join(n.dir, "envoy.yaml")
	if err := writeEnvoy(path, envoy.Config{
		Certs: n.files(waypointAccount), Bind: n.waypoint().String(), Port: listenPort, Admin: adminPort,
		Pod: n.Pod().String(), Client: workload(Client).String(), AccessLog: m.AccessLog, Policies: m.Policies, Routes: m.Routes, Services: m.Services,
	}); err != nil {
		return nil, err
	}
	args := []string{
		"-c", path, "--concurrency", strconv.Itoa(t.Workers), "--disable-hot-restart",
		// The deprecations that it warns of are in what istiod sends.
		"--component-log-level", "misc:error,main:error",
	}
	if m.AccessLog != "" {
		args = append(args, "--file-flush-interval-msec", "100") // somebody reads it; 10 s otherwise
	}
	admin := fmt.Sprintf("http://%s:%d", n.waypoint(), adminPort)
	p, err := process.Run(ctx, process.Command{
		Path: t.path, Args: args, Log: filepath.Join(n.dir, "envoy.log"), Ready: admin + "/ready",
	})
	if err != nil {
		return nil, err
	}
	return &Instance{Process: p, metrics: admin + "/stats/prometheus?filter=requests_total"}, nil
}

func writeEnvoy(path string, c envoy.Config) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := c.Write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
