package meshtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Client is a workload behind its ztunnel: it reaches services through a
// waypoint, in streams of tunnels that it shares as ztunnel does. The exported
// fields are to be set before it is used.
type Client struct {
	ID       identity.ID
	From     string           // source address; empty: 127.0.0.1
	Cert     *tls.Certificate // another than the mesh's CA issued for ID
	Expect   []identity.ID    // who the waypoint may be; empty: anybody of the mesh
	Settings Settings

	mesh *Mesh
	mu   sync.Mutex
	pool map[string][]*Conn
}

// Client makes a client with the identity uri.
func (m *Mesh) Client(uri string) *Client {
	m.t.Helper()
	return &Client{ID: m.ID(uri), Cert: m.Certificate(uri), mesh: m, pool: make(map[string][]*Conn)}
}

// Tunnel opens a connection to a waypoint, outside the pool. It is closed with
// the mesh at the latest.
func (c *Client) Tunnel(ctx context.Context, waypoint string) (*Conn, error) {
	raw, err := c.dialTCP(ctx, waypoint)
	if err != nil {
		return nil, err
	}
	forget := c.mesh.track(raw)
	secured := tls.Client(raw, c.mesh.tlsConfig(c.Cert, x509.ExtKeyUsageServerAuth, c.Expect...))
	if err := handshake(secured); err != nil {
		raw.Close()
		forget()
		return nil, fmt.Errorf("tunnel to %s: %w", waypoint, err)
	}
	conn := newConn(secured, c.Settings, &c.mesh.tasks, nil)
	if err := conn.start(); err != nil {
		forget()
		return nil, fmt.Errorf("tunnel to %s: %w", waypoint, err)
	}
	c.mesh.tasks.Go(func() {
		<-conn.Done()
		forget()
	})
	return conn, nil
}

func (c *Client) dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if c.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.From)}
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// Dial opens a stream through a waypoint to target, which is a VIP or a pod's
// address with a port. The fields are added to those that ztunnel sends.
func (c *Client) Dial(ctx context.Context, waypoint, target string, fields ...Field) (*Stream, error) {
	s, err := c.ask(ctx, waypoint, target, fields)
	if err != nil {
		return nil, err
	}
	return s.accepted(ctx, target)
}

// ask sends a CONNECT on a tunnel that has room for it. Dials wait for each other
// here, so that a burst fills a tunnel, and not more than that, before it opens
// the next.
func (c *Client) ask(ctx context.Context, waypoint, target string, fields []Field) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, err := c.pooled(ctx, waypoint)
	if err != nil {
		return nil, err
	}
	return conn.ask(target, append(c.fields(conn), fields...))
}

// pooled returns a tunnel with room for a stream. It needs c.mu.
func (c *Client) pooled(ctx context.Context, waypoint string) (*Conn, error) {
	var kept []*Conn
	var found *Conn
	for _, conn := range c.pool[waypoint] {
		if conn.Err() != nil || conn.GoneAway() != nil {
			continue
		}
		kept = append(kept, conn)
		if found == nil && conn.usable() {
			found = conn
		}
	}
	if found == nil {
		conn, err := c.Tunnel(ctx, waypoint)
		if err != nil {
			return nil, err
		}
		found, kept = conn, append(kept, conn)
	}
	c.pool[waypoint] = kept
	return found, nil
}

// Close cuts the tunnels of the pool, as the end of the client's node does.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conns := range c.pool {
		for _, conn := range conns {
			conn.Close()
		}
	}
	clear(c.pool)
	return nil
}

// fields are those of a CONNECT of ztunnel.
func (c *Client) fields(conn *Conn) []Field {
	return []Field{
		{"baggage", fmt.Sprintf("k8s.cluster.name=Kubernetes,k8s.namespace.name=%s,k8s.pod.name=%s,service.name=%[2]s,service.version=latest", c.ID.Namespace, c.ID.ServiceAccount)},
		{"forwarded", fmt.Sprintf("for=%q", conn.raw.LocalAddr())},
		{"traceparent", fmt.Sprintf("00-%016x%016x-%016x-00", rand.Uint64(), rand.Uint64(), rand.Uint64())},
	}
}

// HTTP is a client that sends HTTP/1.1 to the authority of each URL through a
// waypoint. It follows no redirects.
func (c *Client) HTTP(waypoint string) *http.Client {
	return c.httpClient(waypoint, func(p *http.Protocols) { p.SetHTTP1(true) })
}

// H2C is a client that sends HTTP/2 with prior knowledge.
func (c *Client) H2C(waypoint string) *http.Client {
	return c.httpClient(waypoint, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
}

func (c *Client) httpClient(waypoint string, choose func(*http.Protocols)) *http.Client {
	transport := &http.Transport{
		Protocols:          new(http.Protocols),
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, target string) (net.Conn, error) {
			return c.Dial(ctx, waypoint, target)
		},
	}
	choose(transport.Protocols)
	context.AfterFunc(c.mesh.ctx, transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// GRPC is a gRPC connection to target through a waypoint.
func (c *Client) GRPC(waypoint, target string, options ...grpc.DialOption) *grpc.ClientConn {
	c.mesh.t.Helper()
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
			return c.Dial(ctx, waypoint, target)
		}),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///"+target, options...)
	if err != nil {
		c.mesh.t.Fatalf("meshtest: %v", err)
	}
	context.AfterFunc(c.mesh.ctx, func() { conn.Close() })
	return conn
}
