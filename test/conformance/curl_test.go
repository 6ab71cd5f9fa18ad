package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// much is a body that fills every window on the way several times.
var much = bytes.Repeat([]byte("0123456789abcdef\n"), 20_000_000/17)

// curl is curl in a mesh with an HTTP/1.1 application and an h2c one.
type curl struct {
	tool
	h1, h2 string // URLs
	body   string // a file of 20 MB
}

func newCurl(t *testing.T) (curl, *mesh) {
	t.Helper()
	c := curl{tool: newTool(t, "curl", "curl"), body: filepath.Join(t.TempDir(), "body")}
	m := newMesh(t, gateway+service("old", 21, 8080, "http")+service("new", 22, 8080, "kubernetes.io/h2c"))
	m.HTTP("old", m.Addr(21, 8080)).Handle(oldServer)
	m.H2C("new", m.Addr(22, 8080)).Handle(newServer)
	m.node("old", 21)
	m.node("new", 22)
	c.h1 = "http://" + m.tunnel(101, 8080, vip(21, 8080))
	c.h2 = "http://" + m.tunnel(102, 8080, vip(22, 8080))
	if err := os.WriteFile(c.body, much, 0o600); err != nil {
		t.Fatal(err)
	}
	return c, m
}

// oldServer answers HTTP/1.1: /much with 20 MB, /trailer with one, all else with
// the request as JSON.
func oldServer(x *meshtest.Exchange) {
	switch x.Target {
	case "/much":
		x.Reply(200, string(much))
	case "/trailer":
		fmt.Fprint(x, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 42\r\n\r\n")
	default:
		meshtest.Tell(x)
	}
}

// newServer does the same in HTTP/2.
func newServer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/much":
		w.Write(much)
	case "/trailer":
		io.WriteString(w, "hello")
		w.Header().Set(http.TrailerPrefix+"x-sum", "42")
	default:
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		json.NewEncoder(w).Encode(meshtest.Request{
			Method: r.Method, Target: r.RequestURI, Proto: r.Proto, Host: r.Host, Length: n, SHA256: [32]byte(sum.Sum(nil)),
		})
	}
}

// ask runs curl and returns the request as the application saw it.
func (c curl) ask(stdin []byte, args ...string) meshtest.Request {
	c.t.Helper()
	out := c.output(stdin, append([]string{"-sS", "--fail-with-body"}, args...)...)
	var r meshtest.Request
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		c.t.Fatalf("%v in %.1000q", err, out)
	}
	return r
}

// in makes the curl of a subtest.
func (c curl) in(t *testing.T) curl {
	c.t = t
	return c
}

func TestCurl(t *testing.T) {
	all, m := newCurl(t)
	tests := []struct {
		name  string
		flags []string
		url   string
		proto string // the application's
	}{
		{"HTTP/1.1", nil, all.h1, "HTTP/1.1"},
		{"HTTP/1.0", []string{"--http1.0"}, all.h1, "HTTP/1.1"},
		{"offers an upgrade to h2c, which nobody takes", []string{"--http2"}, all.h1, "HTTP/1.1"},
		{"prior knowledge", []string{"--http2-prior-knowledge"}, all.h2, "HTTP/2.0"},
		{"HTTP/1.1 to an h2c application", nil, all.h2, "HTTP/2.0"},
		{"prior knowledge to an HTTP/1.1 application", []string{"--http2-prior-knowledge"}, all.h1, "HTTP/1.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { all.in(t).everyBody(tt.proto, tt.url, tt.flags) })
	}
	t.Run("SOCKS5 by name", func(t *testing.T) {
		c := all.in(t)
		r := c.ask(nil, "--proxy", "socks5h://"+m.socks(103), "http://old.default.svc.cluster.local:8080/hello")
		if r.Host != "old.default.svc.cluster.local:8080" || r.Target != "/hello" {
			t.Errorf("the application saw %s %s", r.Host, r.Target)
		}
	})
}

// everyBody sends and fetches bodies of every kind that curl knows.
func (c curl) everyBody(proto, url string, flags []string) {
	c.t.Helper()
	args := func(more ...string) []string { return append(append([]string(nil), flags...), more...) }
	sum := sha256.Sum256(much)

	r := c.ask(nil, args(url+"/a/b?c=d%20e")...)
	if r.Method != "GET" || r.Target != "/a/b?c=d%20e" || r.Proto != proto || r.Length != 0 {
		c.t.Errorf("GET: the application saw %s %s %s with %d bytes", r.Method, r.Target, r.Proto, r.Length)
	}
	r = c.ask(nil, args("-d", "a small body", url)...)
	if r.Method != "POST" || r.Length != int64(len("a small body")) {
		c.t.Errorf("POST: the application saw %s with %d bytes", r.Method, r.Length)
	}
	// Above 1 MB curl asks first: Expect: 100-continue.
	r = c.ask(nil, args("--data-binary", "@"+c.body, url)...)
	if r.SHA256 != sum {
		c.t.Errorf("POST of %d bytes: the application got %d, or others", len(much), r.Length)
	}
	if !slices.Contains(flags, "--http1.0") { // which has no chunks
		r = c.ask(much, args("-T", "-", url)...)
		if r.Method != "PUT" || r.SHA256 != sum {
			c.t.Errorf("PUT without a length: the application saw %s and got %d bytes, or others", r.Method, r.Length)
		}
	}
	if got := c.output(nil, args("-sS", url+"/much")...); got != string(much) {
		c.t.Errorf("%d bytes came, expected %d", len(got), len(much))
	}
	if got := c.output(nil, args("-sS", "--limit-rate", "20M", url+"/much")...); got != string(much) {
		c.t.Errorf("read slowly: %d bytes came, expected %d", len(got), len(much))
	}
	head := c.output(nil, args("-sS", "-I", url)...)
	if !strings.Contains(strings.SplitN(head, "\n", 2)[0], " 200") {
		c.t.Errorf("HEAD: %q", head)
	}
	if got := c.output(nil, args("-sS", url+"/trailer")...); got != "hello" {
		c.t.Errorf("a response with trailers: %q", got)
	}
	if len(flags) == 0 { // HTTP/1.0 has none to use again, and curl 7.88 fails at it in HTTP/2 by itself
		reused := c.output(nil, "-sS", "-o", os.DevNull, "-o", os.DevNull, "-w", "%{num_connects},", url, url)
		if reused != "1,0," {
			c.t.Errorf("connections made for two requests: %s expected 1,0,", reused)
		}
	}
}
