package stories

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// uris is the edit of a certificate that gives it these SANs, each as it is.
func uris(list ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		names := make([]asn1.RawValue, len(list))
		for i, uri := range list {
			names[i] = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(uri)}
		}
		value, err := asn1.Marshal(names)
		if err != nil {
			panic(err)
		}
		c.URIs = nil
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}}
	}
}

// badPeers are certificates that prove no identity of the mesh, on either side.
func badPeers(m *meshtest.Mesh, good string) map[string]*tls.Certificate {
	odd := func(edit func(*x509.Certificate)) *tls.Certificate { return m.OddCertificate(good, edit) }
	other, err := certs.NewCA()
	if err != nil {
		panic(err)
	}
	foreign, err := other.Issue(m.ID(good), time.Hour)
	if err != nil {
		panic(err)
	}
	const id = "spiffe://cluster.local/ns/prod/sa/client"
	return map[string]*tls.Certificate{
		"of another root":     foreign,
		"expired":             odd(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet valid":       odd(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }),
		"another domain":      odd(uris("spiffe://evil.local/ns/prod/sa/client")),
		"domain in capitals":  odd(uris("spiffe://CLUSTER.LOCAL/ns/prod/sa/client")),
		"a domain's prefix":   odd(uris("spiffe://cluster.local.evil/ns/prod/sa/client")),
		"two SANs":            odd(uris(good, "spiffe://cluster.local/ns/admin/sa/root")),
		"the same SAN twice":  odd(uris(good, good)),
		"no SAN":              odd(func(c *x509.Certificate) { c.URIs = nil }),
		"a DNS name alone":    odd(func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"client.prod"} }),
		"not SPIFFE":          odd(uris("https://cluster.local/ns/prod/sa/client")),
		"a port":              odd(uris("spiffe://cluster.local:443/ns/prod/sa/client")),
		"userinfo":            odd(uris("spiffe://x@cluster.local/ns/prod/sa/client")),
		"a query":             odd(uris(id + "?x=y")),
		"a fragment":          odd(uris(id + "#x")),
		"too long a path":     odd(uris(id + "/more")),
		"too short a path":    odd(uris("spiffe://cluster.local/ns/prod")),
		"an empty part":       odd(uris("spiffe://cluster.local/ns//sa/client")),
		"escapes":             odd(uris("spiffe://cluster.local/ns/prod/sa/clien%74")),
		"an escaped slash":    odd(uris("spiffe://cluster.local/ns/prod%2Fsa%2Fclient")),
		"dots":                odd(uris("spiffe://cluster.local/ns/prod/sa/../sa/client")),
		"NUL":                 odd(uris(id + "\x00.evil")),
		"a trailing slash":    odd(uris(id + "/")),
		"an empty SAN":        odd(uris("")),
		"other words":         odd(uris("spiffe://cluster.local/namespace/prod/account/client")),
		"for servers/clients": odd(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }),
		"a CA's own":          odd(func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "cluster.local"}} }),
	}
}

// Clients without a good certificate get no tunnel; the HBONE port speaks nothing
// but TLS 1.3 with h2.
func TestAttackClientIdentity(t *testing.T) {
	const good = "spiffe://cluster.local/ns/prod/sa/client"
	w := newTown(t, "", func(o *app.Options) { o.HandshakeTimeout = 300 * time.Millisecond })
	try := func(config *tls.Config) string {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", w.wp.Addr, config)
		if err != nil {
			return "no handshake"
		}
		defer conn.Close()
		return firstAnswer(conn)
	}
	config := func(cert *tls.Certificate) *tls.Config {
		c := &tls.Config{NextProtos: []string{"h2"}, InsecureSkipVerify: true} // it is the client that is looked at
		if cert != nil {
			c.Certificates = []tls.Certificate{*cert}
		}
		return c
	}
	if got := try(config(w.Certificate(good))); got != "200" {
		t.Fatalf("a good certificate: %s", got)
	}
	for name, cert := range badPeers(w.Mesh, good) {
		if got := try(config(cert)); got == "200" || strings.HasPrefix(got, "4") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := try(config(nil)); got == "200" {
		t.Errorf("no certificate: %s", got)
	}
	old := config(w.Certificate(good))
	old.MaxVersion = tls.VersionTLS12
	if got := try(old); got != "no handshake" {
		t.Errorf("TLS 1.2: %s", got)
	}
	for _, alpn := range [][]string{nil, {"http/1.1"}, {"h2c"}} {
		c := config(w.Certificate(good))
		c.NextProtos = alpn
		if got := try(c); got == "200" {
			t.Errorf("ALPN %v: %s", alpn, got)
		}
	}
	for name, first := range map[string]string{"plain HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "plain HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "rubbish": "\x16\x03\x01\xff\xff\x01", "nothing": "", "half a hello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"} {
		conn, err := net.Dial("tcp", w.wp.Addr)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		io.WriteString(conn, first) // it may be cut at once
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, conn) // a cut is what is waited for
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s: held for %v", name, took)
		}
		conn.Close()
	}
	if n := len(w.nodes["echo-v1"].Connects()) + len(w.nodes["echo-v2"].Connects()); n != 0 {
		t.Errorf("%d connections went through", n)
	}
	w.check(call{}, w.send(call{}), want{})
}

// An alias of the trust domain is as good as the domain, if it is configured, and
// policies say so of either.
func TestAttackTrustDomainAlias(t *testing.T) {
	const old = "spiffe://old.local/ns/prod/sa/client"
	w := newTown(t, policyOn("Service echo", "p", "prod", "ALLOW", from(`principals: ["cluster.local/ns/prod/sa/client"]`)), func(o *app.Options) {
		o.Trust.Aliases = []string{"old.local"}
	})
	w.mu.Lock()
	aliased := w.Client(old)
	w.clients["prod/alias"] = aliased
	w.mu.Unlock()
	w.check(call{}, w.send(call{from: "prod/alias"}), want{})
	stranger := w.Client("spiffe://other.local/ns/prod/sa/client")
	if _, err := stranger.Dial(t.Context(), w.wp.Addr, "10.0.0.1:80"); err == nil {
		t.Error("a domain that is no alias was let in")
	}
}

// A destination has to be who the endpoint is. Whoever else answers at its address
// is told nothing.
func TestAttackDestinationIdentity(t *testing.T) {
	const good = "spiffe://cluster.local/ns/prod/sa/echo-v1"
	kinds := badPeers(meshtest.New(t), good)
	kinds["another account"], kinds["another namespace"] = nil, nil
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // what takes time is the pauses between attempts
			w := newTown(t, "", nil)
			peers := badPeers(w.Mesh, good) // those of this mesh
			peers["another account"] = w.Certificate("spiffe://cluster.local/ns/prod/sa/echo-v2")
			peers["another namespace"] = w.Certificate("spiffe://cluster.local/ns/other/sa/echo-v1")
			w.nodes["echo-v1"].Stop()
			told := w.impostor(w.Addr(21, 15008), peers[name])
			a := w.send(call{to: "echo-v1/"})
			entry := w.entry(a)
			if flags, _ := entry["response_flags"].(string); a.status != 503 || !strings.Contains(flags, "UF") || entry["upstream_transport_failure_reason"] == nil {
				t.Errorf("%d, %s, %v", a.status, flags, entry["upstream_transport_failure_reason"])
			}
			if got := w.firstLine("prod/client", "echo-v1:9090"); got != "CONNECT 10.0.0.2:9090 was answered 503" {
				t.Errorf("TCP: %s", got)
			}
			if n := told.stop(); n != 0 {
				t.Errorf("%d bytes were told", n)
			}
			w.NodeProxy(w.IP(21), good)
			w.check(call{}, w.send(call{to: "echo-v1/"}), want{app: "echo-v1"})
		})
	}
}

// impostor listens where a node proxy should and counts the bytes that it is told
// after a handshake.
type impostor struct {
	ln   net.Listener
	told atomic.Int64
	done chan struct{}
}

func (w *town) impostor(addr string, cert *tls.Certificate) *impostor {
	w.t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	i := &impostor{ln: ln, done: make(chan struct{})}
	config := &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	go func() {
		defer close(i.done)
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			conn := tls.Server(raw, config)
			conn.SetDeadline(time.Now().Add(patience)) // a test that hangs says so itself
			n, _ := io.Copy(io.Discard, conn)          // it ends when the waypoint has seen who this is
			i.told.Add(n)
			conn.Close()
		}
	}()
	return i
}

func (i *impostor) stop() int64 {
	i.ln.Close()
	<-i.done
	return i.told.Load()
}

// firstAnswer asks for a CONNECT on a connection that may be over already.
func firstAnswer(conn net.Conn) string {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err.Error()
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range connectTo("10.0.0.1:80") {
		encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value}) // into memory
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return "cut"
	}
	if errors2(framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})) != nil {
		return "cut"
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return "cut"
		}
		if f, ok := frame.(*http2.MetaHeadersFrame); ok {
			return f.PseudoValue("status")
		}
	}
}
