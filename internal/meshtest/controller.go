package meshtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Controller serves waypoints their configuration over TLS, as the controller
// does, from what its test says or from manifests. Started again after a stop it
// is a new process with the same configuration. One goroutine, that of the test,
// may change things.
type Controller struct {
	Addr string
	Root string // file with its CA
	// AnswerTimeout is that of discovery.Options, from the next Start on.
	AnswerTimeout time.Duration

	mesh   *Mesh
	config *tls.Config

	// Owned by the test.
	known       map[discovery.Gateway]map[api.Key]api.Resource
	translators map[discovery.Gateway]*translate.Translator

	mu     sync.Mutex // guards all below
	server *discovery.Server
	grpc   *grpc.Server // nil: stopped
	tokens map[string]discovery.Grant
	counts Counts
}

// Counts is what a controller has seen since the start of the mesh.
type Counts struct {
	Connected, Disconnected int
	Pushes                  int
	Resources, Removed      int // sent
	Answers                 int
	Rejections              []discovery.Rejection
	Rejected                int     // times that Server.Rejections may have become others
	Refused                 []error // why somebody was turned away
	Ended                   []error // how streams ended
}

// Controller starts one. It serves a gateway once there was an Update or an Apply
// for it.
func (m *Mesh) Controller() *Controller {
	m.t.Helper()
	c := &Controller{
		mesh:        m,
		known:       make(map[discovery.Gateway]map[api.Key]api.Resource),
		translators: make(map[discovery.Gateway]*translate.Translator),
		tokens:      make(map[string]discovery.Grant),
	}
	cert, err := controllerCertificate()
	m.must(err)
	c.config = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	c.Root = filepath.Join(m.tempDir(), "controller-ca.pem")
	m.must(os.WriteFile(c.Root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o644))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	c.Addr = listener.Addr().String()
	c.serve(listener)
	m.t.Cleanup(c.Stop)
	return c
}

// controllerCertificate is its own root, good for the loopback address.
func controllerCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func (c *Controller) serve(listener net.Listener) {
	server := discovery.New(discovery.Options{
		Authenticate: c.authenticate, Observer: c, AnswerTimeout: c.AnswerTimeout,
		Rejected: func(discovery.Gateway) { c.count(func(n *Counts) { n.Rejected++ }) },
	})
	running := discovery.NewGRPC(c.config)
	server.Register(running)
	for gateway, resources := range c.known {
		_, err := server.Update(gateway, translate.Changes{Upserted: slices.Collect(maps.Values(resources))})
		c.mesh.must(err)
	}
	c.mu.Lock()
	c.server, c.grpc = server, running
	c.mu.Unlock()
	c.mesh.Go(func(context.Context) {
		if err := running.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			c.mesh.t.Errorf("meshtest: the controller ended with: %v", err)
		}
	})
}

// Stop cuts all streams and closes the port, as a process does that is killed.
func (c *Controller) Stop() {
	c.mu.Lock()
	running := c.grpc
	c.grpc = nil
	c.mu.Unlock()
	if running != nil {
		running.Stop()
	}
}

// Start begins anew after a Stop, at the same address.
func (c *Controller) Start() {
	c.mesh.t.Helper()
	var listener net.Listener
	c.mesh.Eventually("the controller's port is free again", func() bool {
		var err error
		listener, err = net.Listen("tcp", c.Addr)
		return err == nil
	})
	c.serve(listener)
}

// Update tells of resources that became different for a gateway,
// "namespace/name".
func (c *Controller) Update(gateway string, changes translate.Changes) {
	c.mesh.t.Helper()
	g := c.gateway(gateway)
	if c.known[g] == nil {
		c.known[g] = make(map[api.Key]api.Resource)
	}
	for _, key := range changes.Removed {
		delete(c.known[g], key)
	}
	for _, r := range changes.Upserted {
		c.known[g][r.Key] = r
	}
	_, err := c.Server().Update(g, changes)
	c.mesh.must(err)
}

// Apply sets the objects of manifests, separated by lines "---", for a gateway
// and returns what was wrong with all that it has.
func (c *Controller) Apply(gateway, manifests string) []translate.Problem {
	c.mesh.t.Helper()
	t := c.translator(gateway)
	for doc := range strings.SplitSeq(c.mesh.Manifests(manifests), "\n---") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		obj, err := translate.Decode([]byte(doc))
		var rejected *translate.Rejected
		switch {
		case errors.As(err, &rejected):
			t.Reject(rejected)
		case err != nil:
			c.mesh.t.Fatalf("meshtest: %v", err)
		default:
			t.Set(obj)
		}
	}
	c.Update(gateway, t.Update())
	return t.AllProblems()
}

// Delete removes objects.
func (c *Controller) Delete(gateway string, keys ...translate.Key) {
	c.mesh.t.Helper()
	t := c.translator(gateway)
	for _, key := range keys {
		t.Delete(key)
	}
	c.Update(gateway, t.Update())
}

func (c *Controller) translator(gateway string) *translate.Translator {
	c.mesh.t.Helper()
	g := c.gateway(gateway)
	if c.translators[g] == nil {
		c.translators[g] = translate.New(translate.Options{GatewayNamespace: g.Namespace, GatewayName: g.Name})
	}
	return c.translators[g]
}

func (c *Controller) gateway(name string) discovery.Gateway {
	c.mesh.t.Helper()
	g, err := discovery.ParseGateway(name)
	c.mesh.must(err)
	return g
}

// Server is the discovery server that runs, or ran last.
func (c *Controller) Server() *discovery.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// Counts returns what was seen so far.
func (c *Controller) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	counts.Rejections = slices.Clone(counts.Rejections)
	counts.Refused = slices.Clone(counts.Refused)
	counts.Ended = slices.Clone(counts.Ended)
	return counts
}

// Token makes a token by which a waypoint of the gateway is known for so long. It
// looks like one of Kubernetes: a JWT.
func (c *Controller) Token(gateway string, life time.Duration) string {
	c.mesh.t.Helper()
	now := time.Now()
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"jti":"%d"}`, now.Unix(), now.Add(life).Unix(), now.UnixNano())
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[token] = discovery.Grant{Gateway: c.gateway(gateway), Until: now.Add(life)}
	return token
}

// TokenFile writes such a token, good for an hour, to a file.
func (c *Controller) TokenFile(gateway string) string {
	c.mesh.t.Helper()
	path := filepath.Join(c.mesh.tempDir(), "token")
	c.mesh.must(os.WriteFile(path, []byte(c.Token(gateway, time.Hour)), 0o600))
	return path
}

// authenticate knows the tokens that were made, and takes the service account of
// a certificate for the name of a Gateway in its namespace.
func (c *Controller) authenticate(_ context.Context, who discovery.Peer) (discovery.Grant, error) {
	if who.Token == "" {
		roots := x509.NewCertPool()
		roots.AddCert(c.mesh.CA.Root)
		if err := identity.VerifyChain(who.Chain, roots, x509.ExtKeyUsageClientAuth); err != nil {
			return discovery.Grant{}, err
		}
		id, err := identity.FromCertificate(who.Chain[0])
		return discovery.Grant{Gateway: discovery.Gateway{Namespace: id.Namespace, Name: id.ServiceAccount}}, err
	}
	c.mu.Lock()
	grant, ok := c.tokens[who.Token]
	c.mu.Unlock()
	switch {
	case !ok:
		return grant, errors.New("nobody knows this token")
	case time.Now().After(grant.Until):
		return grant, fmt.Errorf("the token expired at %s", grant.Until.Format(time.RFC3339))
	}
	return grant, nil
}

func (c *Controller) count(note func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note(&c.counts)
}

// Updated implements discovery.Observer.
func (c *Controller) Updated(discovery.Gateway, int) {}

// Connected implements discovery.Observer.
func (c *Controller) Connected(discovery.Client) { c.count(func(n *Counts) { n.Connected++ }) }

// Disconnected implements discovery.Observer.
func (c *Controller) Disconnected(_ discovery.Client, err error) {
	c.count(func(n *Counts) {
		n.Disconnected++
		n.Ended = append(n.Ended, err)
	})
}

// Refused implements discovery.Observer.
func (c *Controller) Refused(_ string, err error) {
	c.count(func(n *Counts) { n.Refused = append(n.Refused, err) })
}

// Pushed implements discovery.Observer.
func (c *Controller) Pushed(_ discovery.Client, p discovery.Push) {
	c.count(func(n *Counts) {
		n.Pushes++
		n.Resources += p.Resources
		n.Removed += p.Removed
	})
}

// Answered implements discovery.Observer.
func (c *Controller) Answered(_ discovery.Client, _ time.Duration, rejected []discovery.Rejection) {
	c.count(func(n *Counts) {
		n.Answers++
		n.Rejections = append(n.Rejections, rejected...)
	})
}
