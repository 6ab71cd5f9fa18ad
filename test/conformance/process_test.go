package conformance

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

const (
	trust    = "spiffe://cluster.local/ns/default/sa/"
	clientID = trust + "client"
)

// mesh is a mesh around a waypoint that runs as a process, with a folder of
// certificates for each who needs one.
type mesh struct {
	*meshtest.Mesh
	t       *testing.T
	program string
	run     *process
}

// newMesh starts the waypoint. Applications come on afterwards.
func newMesh(t *testing.T, manifests string, flags ...string) *mesh {
	t.Helper()
	program := os.Getenv("WAYPOINT")
	if program == "" {
		t.Skip("`make conformance` runs this: WAYPOINT names the program under test")
	}
	m := &mesh{Mesh: meshtest.New(t), t: t, program: program}
	config := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(config, []byte(m.Manifests(manifests)), 0o644); err != nil {
		t.Fatal(err)
	}
	m.run = m.start(append(append([]string{
		"run", "--config", config, "--log-level", "debug",
		"--listen", m.waypoint(), "--status", m.status(), "--metrics", m.Addr(200, 15020), "--admin", m.Addr(200, 15000),
		"--drain-delay", "0s", "--drain-timeout", "5s",
	}, m.certificate(meshtest.WaypointID)...), flags...)...)
	m.Eventually("the waypoint is ready", func() bool { return m.ready() })
	return m
}

func (m *mesh) waypoint() string { return m.Addr(200, 15008) }
func (m *mesh) status() string   { return m.Addr(200, 15021) }

func (m *mesh) ready() bool {
	m.t.Helper()
	m.run.mustLive()
	resp, err := newWebClient(m.t).Get("http://" + m.status() + "/healthz/ready")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// newWebClient is one without connections that outlive the test.
func newWebClient(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// certificate makes one for an identity, and the flags that name it.
func (m *mesh) certificate(uri string) []string {
	m.t.Helper()
	dir := m.t.TempDir()
	m.WriteCertificate(dir, uri)
	file := func(name string) string { return filepath.Join(dir, name) }
	return []string{"--cert", file("cert.pem"), "--key", file("key.pem"), "--root", file("ca.pem")}
}

// tunnel starts `waypoint tunnel` with a forward to target, and returns the local
// address. Each has an address of its own, at the port of the target, so that
// what a client puts into its host field is the same for all.
func (m *mesh) tunnel(host byte, port int, target string) string {
	m.t.Helper()
	local := m.Addr(host, port)
	m.startTunnel("--forward", local+"="+target)
	return local
}

// socks is the same for any target, by SOCKS5.
func (m *mesh) socks(host byte) string {
	m.t.Helper()
	local := m.Addr(host, 1080)
	m.startTunnel("--socks5", local)
	return local
}

func (m *mesh) startTunnel(flags ...string) {
	m.t.Helper()
	p := m.start(append(append([]string{
		"tunnel", "--waypoint", m.waypoint(), "--waypoint-id", meshtest.WaypointID,
	}, m.certificate(clientID)...), flags...)...)
	m.Eventually("the tunnel listens", func() bool {
		p.mustLive()
		return p.stdout.String() != ""
	})
}

// process is one run of the program under test. It has to end well when it is
// told to.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr meshtest.Buffer
	ended          chan struct{}
}

// patience is how long a process may take to end.
const patience = 20 * time.Second

func (m *mesh) start(args ...string) *process {
	m.t.Helper()
	p := &process{t: m.t, cmd: exec.Command(m.program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	m.t.Cleanup(p.end)
	return p
}

// mustLive fails the test if the process has ended by itself.
func (p *process) mustLive() {
	p.t.Helper()
	select {
	case <-p.ended:
		p.t.Fatalf("%s ended by itself: %v\n%s", p.cmd.Args[1], p.cmd.ProcessState, &p.stderr)
	default:
	}
}

func (p *process) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("%s ended with %v, expected exit code 0", p.cmd.Args[1], p.cmd.ProcessState)
		}
	case <-time.After(patience):
		p.t.Errorf("%s does not end on SIGTERM", p.cmd.Args[1])
		p.cmd.Process.Kill()
		<-p.ended
	}
	if p.t.Failed() {
		log := p.stderr.String()
		p.t.Logf("the end of the log of %s:\n%s", p.cmd.Args[1], log[max(0, len(log)-8<<10):])
	}
}
