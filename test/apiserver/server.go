package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
)

// adminToken is that of a user who may do everything.
const adminToken = "admin-of-the-test" //nolint:gosec // G101: of an API server that ends with its test

// Server is etcd and an API server.
type Server struct {
	// Client may do everything.
	Client client.WithWatch

	dir   string // for data, certificates and kubeconfigs
	host  string // URL of the API server
	procs []*exec.Cmd
	logs  map[string]*Log // of processes, by name
}

// Start starts etcd and kube-apiserver from the programs in the folder bin, and
// waits until they are ready. What they keep is in the folder dir. The server is
// to be stopped in any case, also after an error. flags are further ones of
// kube-apiserver.
func Start(ctx context.Context, bin, dir string, flags ...string) (*Server, error) {
	s := &Server{dir: dir, logs: make(map[string]*Log)}
	etcd, err := s.startEtcd(bin)
	if err != nil {
		return s, err
	}
	if err := s.startAPIServer(ctx, bin, etcd, flags); err != nil {
		return s, err
	}
	return s, s.connect()
}

// Stop ends all processes at once.
func (s *Server) Stop() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		_ = s.procs[i].Process.Kill() // it may have ended
		_ = s.procs[i].Wait()
	}
}

// Logs returns the end of what the processes wrote.
func (s *Server) Logs() string {
	var all strings.Builder
	for name, log := range s.logs {
		lines := strings.Split(log.String(), "\n")
		fmt.Fprintf(&all, "--- %s\n%s\n", name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	return all.String()
}

// Log holds what a process writes. It may be written and read at the same time.
type Log struct {
	mu      sync.Mutex
	content bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Write(p)
}

// String returns everything that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.String()
}

// spawn starts a program that does not outlive us, however we end.
func (s *Server) spawn(path string, args ...string) error {
	cmd, log := exec.Command(path, args...), new(Log)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.logs[filepath.Base(path)] = log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.procs = append(s.procs, cmd)
	return nil
}

// freePorts are some that nobody listened at a moment ago.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are found: they are to differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (s *Server) startEtcd(bin string) (url string, err error) {
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	return url, s.spawn(filepath.Join(bin, "etcd"), "--name=test", "--data-dir="+filepath.Join(s.dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+url, "--advertise-client-urls="+url, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer)
}

func (s *Server) startAPIServer(ctx context.Context, bin, etcd string, flags []string) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	key, err := s.signingKey()
	if err != nil {
		return err
	}
	users := filepath.Join(s.dir, "users.csv")
	if err := os.WriteFile(users, []byte(adminToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	s.host = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	err = s.spawn(filepath.Join(bin, "kube-apiserver"), append(flags, "--etcd-servers="+etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+filepath.Join(s.dir, "certs"),
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--token-auth-file="+users,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--api-audiences=https://kubernetes.default.svc", "--profiling=false")...)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(s.config(adminToken))
	if err != nil {
		return err
	}
	return Until(ctx, func() error { return get(ctx, transport, s.host+"/readyz") })
}

func (s *Server) signingKey() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, "sa.key")
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return path, os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
}

// config is how to reach the API server with a token. Its certificate is one that
// it made itself a moment ago.
func (s *Server) config(token string) *rest.Config {
	return &rest.Config{Host: s.host, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func (s *Server) connect() error {
	scheme, err := feed.NewScheme()
	if err != nil {
		return err
	}
	s.Client, err = client.NewWithWatch(s.config(adminToken), client.Options{Scheme: scheme})
	return err
}

// get fails unless the answer is 200.
func get(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// Until tries until there is no error, or ctx ends; then the error is the last one.
func Until(ctx context.Context, try func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
