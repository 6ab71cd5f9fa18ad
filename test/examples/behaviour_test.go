package examples

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

const (
	client = "spiffe://cluster.local/ns/default/sa/client"
	admin  = "spiffe://cluster.local/ns/default/sa/admin"
	till   = "spiffe://cluster.local/ns/shop/sa/till"
)

// town is a waypoint that serves all examples at once, and what stands behind it.
type town struct {
	mesh     *meshtest.Mesh
	waypoint *meshtest.Waypoint
	reviews  map[string]*meshtest.HTTPApp
}

func newTown(t *testing.T) *town {
	t.Helper()
	m := meshtest.New(t)
	for host, account := range map[byte]string{
		21: "reviews", 22: "reviews", 41: "checkout", 42: "checkout", 51: "ledger", 61: "accounts", 62: "billing", 72: "books",
	} {
		m.NodeProxy(m.IP(host), "spiffe://cluster.local/ns/default/sa/"+account)
	}
	town := &town{mesh: m, reviews: map[string]*meshtest.HTTPApp{
		"v1": m.HTTP("reviews-v1", m.Addr(21, 8080)),
		"v2": m.HTTP("reviews-v2", m.Addr(22, 8080)),
	}}
	m.GRPC("checkout-v1", m.Addr(41, 9090))
	m.GRPC("checkout-v2", m.Addr(42, 9090))
	m.TCP("ledger", m.Addr(51, 9000), meshtest.Echo)
	m.TLS("accounts", m.Addr(61, 8443), "accounts.sni.test")
	m.TLS("billing", m.Addr(62, 8443), "billing.sni.test")
	m.HTTP("books-1", m.Addr(71, 8080))
	m.HTTP("books-2", m.Addr(72, 8080))
	town.waypoint = m.Waypoint(everything(t), nil)
	return town
}

// everything is the text of all examples.
func everything(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString("---\n")
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func host(service string) string { return service + ".default.svc.cluster.local:8080" }

// TestHTTP sends what the comments of the files say, and looks for what they promise.
func TestHTTP(t *testing.T) {
	town := newTown(t)
	for _, tt := range []struct {
		name   string
		as     string
		method string
		url    string
		header []string // name, value, ...
		status int
		app    string            // that answers; empty: none
		want   map[string]string // fields of the response
	}{
		{"header route: everybody", client, "GET", host("header-route") + "/", nil, 200, "reviews-v1", nil},
		{"header route: header", client, "GET", host("header-route") + "/", []string{"X-User", "beta"}, 200, "reviews-v2", nil},
		{"header route: query", client, "GET", host("header-route") + "/?preview=yes", nil, 200, "reviews-v2", nil},
		{"rewrite", client, "GET", host("rewrite") + "/v1/books", nil, 200, "reviews-v1", map[string]string{"X-Api-Version": "1"}},
		{"rewrite: redirect", client, "GET", host("rewrite") + "/moved", nil, 301, "", map[string]string{"Location": "http://" + host("rewrite") + "/books"}},
		{"rewrite: no rule", client, "GET", host("rewrite") + "/other", nil, 404, "", nil},
		{"mirror", client, "GET", host("mirror") + "/mirrored", nil, 200, "reviews-v1", nil},
		{
			"cors: preflight", client, "OPTIONS", host("cors") + "/",
			[]string{"Origin", "https://shop.test", "Access-Control-Request-Method", "PUT"},
			200, "",
			map[string]string{"Access-Control-Allow-Origin": "https://shop.test"},
		},
		{"timeouts", client, "GET", host("timeout") + "/", nil, 200, "reviews-v1 reviews-v2", nil},
		{"grpc: plain HTTP", client, "GET", host("grpc") + "/", nil, 200, "reviews-v1", nil},
		{"allow", client, "GET", host("policy-allow") + "/books/7", nil, 200, "reviews-v1 reviews-v2", nil},
		{"allow: another identity", till, "GET", host("policy-allow") + "/books/7", nil, 403, "", nil},
		{"allow: another method", client, "DELETE", host("policy-allow") + "/books/7", nil, 403, "", nil},
		{"allow: a longer path", client, "GET", host("policy-allow") + "/books/7/pages/1", nil, 403, "", nil},
		{"deny: what it does not name", client, "GET", host("policy-deny") + "/", nil, 200, "reviews-v1 reviews-v2", nil},
		{"deny", client, "GET", host("policy-deny") + "/admin/users", nil, 403, "", nil},
		{"deny: spelled otherwise", client, "GET", host("policy-deny") + "/x/..//admin/users", nil, 403, "", nil},
		{"deny: but for the administrator", admin, "GET", host("policy-deny") + "/admin/users", nil, 200, "reviews-v1 reviews-v2", nil},
		{"deny: by a header", admin, "GET", host("policy-deny") + "/", []string{"X-Maintenance", "yes"}, 403, "", nil},
		{"consumer route: its namespace", till, "GET", host("consumer") + "/", nil, 200, "reviews-v2", nil},
		{"consumer route: another namespace", client, "GET", host("consumer") + "/", nil, 200, "reviews-v1", nil},
		{"service entry", client, "GET", "books.example.test:8080/", nil, 200, "books-1 books-2", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+tt.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(tt.header); i += 2 {
				req.Header.Set(tt.header[i], tt.header[i+1])
			}
			resp, err := town.mesh.Client(tt.as).HTTP(town.waypoint.Addr).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			app := resp.Header.Get("X-App")
			if resp.StatusCode != tt.status || !strings.Contains(tt.app, app) || (tt.app != "") != (app != "") {
				t.Errorf("%d from %q, want %d from %q\n%s", resp.StatusCode, app, tt.status, tt.app, body)
			}
			for name, want := range tt.want {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
	town.checkArrivals(t)
}

// checkArrivals looks at what filters have made of requests.
func (town *town) checkArrivals(t *testing.T) {
	t.Helper()
	rewritten := false
	for _, r := range town.reviews["v1"].Requests() {
		rewritten = rewritten || r.Target == "/books" && r.Get("x-via") == "waypoint"
	}
	if !rewritten {
		t.Error("rewrite: no request for /books with x-via has come")
	}
	town.mesh.Eventually("reviews-v2 has seen the copy", func() bool {
		for _, r := range town.reviews["v2"].Requests() {
			if r.Target == "/mirrored" {
				return true
			}
		}
		return false
	})
}

func TestSplit(t *testing.T) {
	town := newTown(t)
	c := town.mesh.Client(client).HTTP(town.waypoint.Addr)
	v1 := 0
	for range 400 {
		resp, err := c.Get("http://" + host("split") + "/")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.Header.Get("X-App") == "reviews-v1" {
			v1++
		}
	}
	if v1 < 280 || v1 > 360 { // five standard deviations of 8
		t.Errorf("%d of 400 requests at reviews-v1, want about 320", v1)
	}
}

func TestGRPC(t *testing.T) {
	town := newTown(t)
	c := town.mesh.Client(client).GRPC(town.waypoint.Addr, host("grpc"))
	for _, tt := range []struct {
		method, tenant, app string
		code                uint32
	}{
		{"/shop.Catalog/List", "main", "checkout-v1", 0},
		{"/shop.Catalog/List", "beta", "checkout-v2", 0},
		{"/shop.Other/List", "main", "", 12},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", tt.tenant)
		message, answer := []byte("books"), []byte(nil)
		var trailer metadata.MD
		err := c.Invoke(ctx, tt.method, &message, &answer, meshtest.Raw(), grpc.Trailer(&trailer))
		app := strings.Join(trailer.Get("x-app"), "")
		if uint32(status.Code(err)) != tt.code || app != tt.app {
			t.Errorf("%s for %s: %v from %q, want %d from %q", tt.method, tt.tenant, err, app, tt.code, tt.app)
		}
	}
}

func TestTCP(t *testing.T) {
	town := newTown(t)
	const target = "tcp.default.svc.cluster.local:9000"
	s, err := town.mesh.Client(client).Dial(t.Context(), town.waypoint.Addr, target)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := io.WriteString(s, "some bytes"); err != nil {
		t.Fatal(err)
	}
	s.CloseWrite()
	if back, err := io.ReadAll(s); string(back) != "some bytes" || err != nil {
		t.Errorf("%q came back, %v", back, err)
	}
	if s, err := town.mesh.Client(till).Dial(t.Context(), town.waypoint.Addr, target); err == nil {
		s.Close()
		t.Error("another identity got a connection, want 403 for its CONNECT")
	}
}

func TestTLS(t *testing.T) {
	town := newTown(t)
	for name, want := range map[string]string{
		"accounts.sni.test": "accounts accounts.sni.test\n",
		"other.sni.test":    "billing other.sni.test\n",
		"sni.test":          "",
	} {
		if got := town.hello(t.Context(), t, name); got != want {
			t.Errorf("%s was answered %q, want %q", name, got, want)
		}
	}
}

// hello returns the first line of the application that a server name leads to.
func (town *town) hello(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	s, err := town.mesh.Client(client).Dial(ctx, town.waypoint.Addr, "sni.default.svc.cluster.local:443")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	line, _ := bufio.NewReader(tls.Client(s, &tls.Config{ServerName: name, InsecureSkipVerify: true})).ReadString('\n')
	return line
}
