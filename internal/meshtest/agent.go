package meshtest

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"sync"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Agent is a SPIFFE agent: the Workload API on a socket. It says nothing until it is
// told what. Started again after a stop it is a new process that knows the same.
type Agent struct {
	Socket string

	mesh *Mesh
	workload.UnimplementedSpiffeWorkloadAPIServer

	mu      sync.Mutex   // guards all below
	server  *grpc.Server // nil: stopped
	answer  *workload.X509SVIDResponse
	refusal error
	news    chan struct{} // closed by the next change
}

// Agent starts one.
func (m *Mesh) Agent() *Agent {
	m.t.Helper()
	a := &Agent{Socket: filepath.Join(m.tempDir(), "agent.sock"), mesh: m, news: make(chan struct{})}
	a.Start()
	m.t.Cleanup(a.Stop)
	return a
}

// Start begins, or begins anew after a Stop.
func (a *Agent) Start() {
	a.mesh.t.Helper()
	server := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(server, a)
	a.mu.Lock()
	a.server = server
	a.mu.Unlock()
	a.mesh.serveGRPC("the agent", server, a.mesh.listenAgain("unix", a.Socket))
}

// Stop cuts everything, as a process does that is killed.
func (a *Agent) Stop() {
	a.mu.Lock()
	server := a.server
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Issue has it say that who asks is who the certificates say, with the roots that
// the mesh trusts now.
func (a *Agent) Issue(certificates ...*tls.Certificate) {
	a.mesh.t.Helper()
	answer := &workload.X509SVIDResponse{}
	roots := a.mesh.rootDER()
	for _, cert := range certificates {
		key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		a.mesh.must(err)
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		a.mesh.must(err)
		answer.Svids = append(answer.Svids, &workload.X509SVID{
			SpiffeId: leaf.URIs[0].String(), X509Svid: cert.Certificate[0], X509SvidKey: key, Bundle: roots,
		})
	}
	a.say(answer, nil)
}

// Refuse ends the streams with an error of package status, and answers new ones
// with it.
func (a *Agent) Refuse(err error) { a.say(nil, err) }

func (a *Agent) say(answer *workload.X509SVIDResponse, refusal error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer, a.refusal = answer, refusal
	close(a.news)
	a.news = make(chan struct{})
}

// FetchX509SVID implements the API.
func (a *Agent) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	if meta, _ := metadata.FromIncomingContext(stream.Context()); len(meta.Get("workload.spiffe.io")) == 0 {
		return status.Error(codes.InvalidArgument, "security header missing from request")
	}
	for {
		a.mu.Lock()
		answer, refusal, news := a.answer, a.refusal, a.news
		a.mu.Unlock()
		if refusal != nil {
			return refusal
		}
		if answer != nil {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		select {
		case <-news:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (m *Mesh) rootDER() (all []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ca := range m.trusted {
		all = append(all, ca.Root.Raw...)
	}
	return all
}
