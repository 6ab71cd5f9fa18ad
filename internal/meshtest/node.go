package meshtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// NodeProxy is the destination's ztunnel for one pod: it takes CONNECTs at port
// 15008 of the pod's address and connects to the application there. It answers
// as ztunnel does: 400 for what is not this pod, 503 for an application that is
// not there, and a reset of the application comes out as a clean end.
type NodeProxy struct {
	*Listener
	ID identity.ID

	mesh     *Mesh
	ip       string
	settings Settings
	config   atomic.Pointer[tls.Config]

	mu        sync.Mutex
	behaviour Behaviour
	tunnels   map[*Conn]bool
	connects  []*Connect
	accepted  int
}

// Connect is the record of one CONNECT that came to a node proxy.
type Connect struct {
	Target   string
	Header   []Field // with the pseudo-header fields, in order
	Peer     identity.ID
	PeerAddr netip.AddrPort

	mu       sync.Mutex
	up, down bytes.Buffer
}

// Get is the value of a header field, empty if it has none.
func (c *Connect) Get(name string) string { return get(c.Header, name) }

func get(fields []Field, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// Sent is the first of the bytes that came through the tunnel, 64 KiB at most.
func (c *Connect) Sent() []byte { return c.kept(&c.up) }

// Received is the first of the bytes that the application sent, 64 KiB at most.
func (c *Connect) Received() []byte { return c.kept(&c.down) }

func (c *Connect) kept(b *bytes.Buffer) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(b.Bytes())
}

// keep returns a writer that takes everything and keeps the beginning.
func (c *Connect) keep(b *bytes.Buffer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		b.Write(p[:min(len(p), 64<<10-b.Len())])
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Behaviour is what a CONNECT meets in place of the application. It owns the
// stream until it returns; the stream is closed then.
type Behaviour func(ctx context.Context, s *Stream)

// Refuse answers with a status, such as 401: denied by policy, or 503: the
// application cannot be reached.
func Refuse(status int) Behaviour {
	return func(_ context.Context, s *Stream) {
		s.Respond(status) //nolint:errcheck // the peer may have gone
	}
}

// Stall never answers.
func Stall() Behaviour {
	return func(ctx context.Context, s *Stream) {
		select {
		case <-ctx.Done():
		case <-s.conn.Done():
		}
	}
}

// Reset breaks the stream unanswered.
func Reset(code http2.ErrCode) Behaviour {
	return func(_ context.Context, s *Stream) { s.Reset(code) }
}

// ResetAfter answers 200, takes n bytes and then breaks the stream.
func ResetAfter(n int64, code http2.ErrCode) Behaviour {
	return func(_ context.Context, s *Stream) {
		if s.Respond(200) == nil {
			io.CopyN(io.Discard, s, n) //nolint:errcheck // broken earlier is broken too
		}
		s.Reset(code)
	}
}

// NodeProxy starts the destination node proxy of the pod at ip, whose identity
// is uri. The settings may be left out.
func (m *Mesh) NodeProxy(ip, uri string, settings ...Settings) *NodeProxy {
	m.t.Helper()
	n := &NodeProxy{ID: m.ID(uri), mesh: m, ip: ip, tunnels: make(map[*Conn]bool)}
	if len(settings) > 0 {
		n.settings = settings[0]
	}
	n.Rotate()
	n.Listener = m.bind(net.JoinHostPort(ip, fmt.Sprint(hbonePort)))
	n.Listener.serve(m, func(raw net.Conn) { n.serve(tls.Server(raw, n.config.Load())) })
	return n
}

// Rotate has it present a new certificate, of the CA that issues them now.
func (n *NodeProxy) Rotate() {
	n.config.Store(n.mesh.tlsConfig(n.mesh.Certificate(n.ID.String()), x509.ExtKeyUsageClientAuth))
}

func (n *NodeProxy) serve(raw *tls.Conn) {
	if err := handshake(raw); err != nil {
		n.mesh.t.Logf("meshtest: node proxy %s: %s: %v", n.ip, raw.RemoteAddr(), err)
		return
	}
	peer, err := peerID(raw.ConnectionState().PeerCertificates[0])
	if err != nil {
		return // VerifyConnection has seen to that
	}
	var streams sync.WaitGroup
	defer streams.Wait()
	conn := newConn(raw, n.settings, &streams, func(s *Stream) { n.connect(s, peer) })
	n.mu.Lock()
	n.accepted++
	n.tunnels[conn] = true
	n.mu.Unlock()
	if err := conn.start(); err == nil {
		<-conn.Done()
	}
	n.mu.Lock()
	delete(n.tunnels, conn)
	n.mu.Unlock()
}

func (n *NodeProxy) connect(s *Stream, peer identity.ID) {
	defer s.Close()
	header := s.Header()
	record := &Connect{Target: get(header, ":authority"), Header: header, Peer: peer, PeerAddr: addrPort(s.RemoteAddr())}
	n.mu.Lock()
	n.connects = append(n.connects, record)
	behave := n.behaviour
	n.mu.Unlock()
	if behave != nil {
		behave(n.mesh.ctx, s)
		return
	}
	app, status := n.dial(record.Target)
	if app == nil {
		Refuse(status)(n.mesh.ctx, s)
		return
	}
	defer app.Close()
	if s.Respond(200) == nil {
		relay(s, app, record)
	}
}

// dial connects to the application, or says with what status it cannot.
func (n *NodeProxy) dial(target string) (*net.TCPConn, int) {
	host, _, err := net.SplitHostPort(target)
	if err != nil || host != n.ip {
		return nil, 400
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(n.mesh.ctx, "tcp", target)
	if err != nil {
		return nil, 503
	}
	return conn.(*net.TCPConn), 200
}

// relay copies both ways until both have ended.
func relay(s *Stream, app *net.TCPConn, record *Connect) {
	var up sync.WaitGroup
	up.Go(func() {
		_, err := io.Copy(io.MultiWriter(record.keep(&record.up), app), s)
		if err != nil {
			app.SetLinger(0) //nolint:errcheck // the application gets at least an end
			app.Close()
			return
		}
		app.CloseWrite() //nolint:errcheck // it may have gone
	})
	_, err := io.Copy(io.MultiWriter(record.keep(&record.down), s), app)
	var reset *ResetError
	if errors.As(err, &reset) {
		app.Close()
	}
	s.CloseWrite() //nolint:errcheck // the tunnel may have gone
	up.Wait()
}

// Behave has CONNECTs from now on meet b; nil: the application again.
func (n *NodeProxy) Behave(b Behaviour) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behaviour = b
}

// Connects are the CONNECTs so far.
func (n *NodeProxy) Connects() []*Connect {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.connects)
}

// Tunnels are the connections open now.
func (n *NodeProxy) Tunnels() []*Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	tunnels := make([]*Conn, 0, len(n.tunnels))
	for c := range n.tunnels {
		tunnels = append(tunnels, c)
	}
	return tunnels
}

// Accepted is how many tunnels there have been.
func (n *NodeProxy) Accepted() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accepted
}

// Drain goes as a ztunnel that is told to end: GOAWAY with the highest id, and
// shortly after with the real one. Streams above that are left hanging. The
// connections live on; [NodeProxy.Stop] cuts them.
func (n *NodeProxy) Drain() {
	for _, c := range n.Tunnels() {
		c.GoAway(1<<31-1, http2.ErrCodeNo)        //nolint:errcheck // it may have gone
		c.GoAway(c.LastStream(), http2.ErrCodeNo) //nolint:errcheck // it may have gone
	}
}
