package meshtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/api/istio/ca"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Authority is Istio's CA service over TLS, as istiod has it, with what a pod finds
// mounted beside: a token and the roots. It signs with [Mesh.CA]. Started again
// after a stop it is a new process.
type Authority struct {
	Addr  string
	Root  string // file
	Token string // file

	mesh *Mesh
	ca.UnimplementedIstioCertificateServiceServer

	mu     sync.Mutex   // guards all below
	server *grpc.Server // nil: stopped
	ca     *certs.CA
	cert   *tls.Certificate // of the server
	handle func(context.Context, *Certification) error
	calls  []Certification
}

// Certification is one call.
type Certification struct {
	Token, Cluster string
	Request        *x509.CertificateRequest
	// What it is going to be answered with.
	Identity identity.ID
	TTL      time.Duration
	Chain    []string // if any, instead of certificates
}

// Authority starts one, and writes a token for who a waypoint usually is.
func (m *Mesh) Authority() *Authority {
	m.t.Helper()
	dir := m.tempDir()
	a := &Authority{
		Root: filepath.Join(dir, "root-cert.pem"), Token: filepath.Join(dir, "istio-token"),
		mesh: m, handle: answerAll,
	}
	a.WriteToken(a.NewToken(WaypointID, time.Hour, "istio-ca"))
	a.WriteRoots()
	a.Rotate()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	a.Addr = listener.Addr().String()
	a.serve(listener)
	m.t.Cleanup(a.Stop)
	return a
}

// Rotate has it sign with the CA that the mesh has now, and prove by that itself.
func (a *Authority) Rotate() {
	a.mesh.t.Helper()
	cert, err := a.mesh.oddCertificate(WaypointID, func(c *x509.Certificate) {
		c.URIs, c.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	a.mesh.must(err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ca, a.cert = a.mesh.CA, cert
}

// WriteRoots writes the roots that the mesh trusts now, as istiod and kubelet do.
func (a *Authority) WriteRoots() {
	a.mesh.t.Helper()
	a.mesh.replace(a.Root, a.mesh.rootPEM())
}

// NewToken makes a token that Kubernetes might have issued to a service account.
func (a *Authority) NewToken(uri string, life time.Duration, audience string) string {
	a.mesh.t.Helper()
	id := a.mesh.ID(uri)
	claims, err := json.Marshal(map[string]any{
		"sub": "system:serviceaccount:" + id.Namespace + ":" + id.ServiceAccount,
		"aud": []string{audience}, "exp": time.Now().Add(life).Unix(),
	})
	a.mesh.must(err)
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2lnbmF0dXJl"
}

// WriteToken writes what a waypoint is to prove itself by from now on.
func (a *Authority) WriteToken(token string) {
	a.mesh.t.Helper()
	a.mesh.replace(a.Token, []byte(token+"\n"))
}

// replace writes a file by a rename.
func (m *Mesh) replace(path string, content []byte) {
	m.t.Helper()
	m.must(os.WriteFile(path+".part", content, 0o600))
	m.must(os.Rename(path+".part", path))
}

// Handle has calls looked at before they are answered: change may change the
// answer, take its time as long as the context allows, or refuse with an error of
// package status. nil: nothing is changed.
func (a *Authority) Handle(change func(context.Context, *Certification) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if change == nil {
		change = answerAll
	}
	a.handle = change
}

func answerAll(context.Context, *Certification) error { return nil }

// Calls are those that came with a valid request, in order.
func (a *Authority) Calls() []Certification {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[:len(a.calls):len(a.calls)]
}

// CreateCertificate implements the service.
func (a *Authority) CreateCertificate(ctx context.Context, request *ca.IstioCertificateRequest) (*ca.IstioCertificateResponse, error) {
	call, err := certification(ctx, request)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.calls = append(a.calls, *call)
	handle, authority := a.handle, a.ca
	a.mu.Unlock()
	if err := handle(ctx, call); err != nil {
		return nil, err
	}
	if call.Chain != nil {
		return &ca.IstioCertificateResponse{CertChain: call.Chain}, nil
	}
	leaf, err := authority.Sign(call.Request.PublicKey, call.Identity, call.TTL)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	chain := []string{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})), string(authority.CertPEM())}
	return &ca.IstioCertificateResponse{CertChain: chain}, nil
}

func certification(ctx context.Context, request *ca.IstioCertificateRequest) (*Certification, error) {
	call := &Certification{TTL: time.Duration(request.GetValidityDuration()) * time.Second}
	meta, _ := metadata.FromIncomingContext(ctx)
	call.Token = strings.TrimPrefix(strings.Join(meta.Get("authorization"), ","), "Bearer ")
	call.Cluster = strings.Join(meta.Get("clusterid"), ",")
	var err error
	if call.Identity, err = holder(call.Token); err != nil {
		return nil, status.Error(codes.Unauthenticated, "request authenticate failure") // istiod tells its log more
	}
	block, _ := pem.Decode([]byte(request.GetCsr()))
	if block == nil {
		return nil, status.Error(codes.InvalidArgument, "CSR signing error (no PEM)")
	}
	if call.Request, err = x509.ParseCertificateRequest(block.Bytes); err == nil {
		err = call.Request.CheckSignature()
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("CSR signing error (%v)", err))
	}
	return call, nil
}

// holder is whom a token of NewToken is for, if istiod would take it.
func holder(token string) (id identity.ID, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return id, errors.New("no JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return id, err
	}
	var claims struct {
		Sub string
		Aud []string
		Exp int64
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return id, err
	}
	who := strings.Split(claims.Sub, ":")
	if len(who) != 4 || len(claims.Aud) != 1 || claims.Aud[0] != "istio-ca" || time.Now().Unix() >= claims.Exp {
		return id, errors.New("not for us")
	}
	return identity.ID{TrustDomain: "cluster.local", Namespace: who[2], ServiceAccount: who[3]}, nil
}

func (a *Authority) serve(listener net.Listener) {
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.cert, nil
		},
	})))
	ca.RegisterIstioCertificateServiceServer(server, a)
	a.mu.Lock()
	a.server = server
	a.mu.Unlock()
	a.mesh.serveGRPC("the CA", server, listener)
}

// serveGRPC runs a server until it is stopped.
func (m *Mesh) serveGRPC(name string, server *grpc.Server, listener net.Listener) {
	m.Go(func(context.Context) {
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			m.t.Errorf("meshtest: %s ended with: %v", name, err)
		}
	})
}

// Stop cuts all calls and closes the port, as a process does that is killed.
func (a *Authority) Stop() {
	a.mu.Lock()
	server := a.server
	a.server = nil
	a.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Start begins anew after a Stop, at the same address.
func (a *Authority) Start() {
	a.mesh.t.Helper()
	a.serve(a.mesh.listenAgain("tcp", a.Addr))
}

// listenAgain takes an address that was in use just now.
func (m *Mesh) listenAgain(network, addr string) (listener net.Listener) {
	m.t.Helper()
	m.Eventually(addr+" is free again", func() (ok bool) {
		var err error
		listener, err = net.Listen(network, addr)
		return err == nil
	})
	return listener
}
