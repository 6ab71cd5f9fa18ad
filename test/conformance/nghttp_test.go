package conformance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

func TestNghttp(t *testing.T) {
	nghttp := newTool(t, "nghttp", "nghttp2-client")
	m := newMesh(t, gateway+service("new", 22, 8080, "kubernetes.io/h2c"))
	m.H2C("new", m.Addr(22, 8080)).Handle(newServer)
	m.node("new", 22)
	url := "http://" + m.tunnel(102, 8080, vip(22, 8080))

	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("a small body"), 0o600); err != nil {
		t.Fatal(err)
	}
	told := nghttp.output(nil, "-v", "-n", "--no-dep", "--trailer", "x-checksum: 7", "-d", body, url+"/trailer")
	for _, want := range []string{"recv SETTINGS frame", ":status: 200", "x-sum: 42", "ACK"} {
		if !strings.Contains(told, want) {
			t.Errorf("nghttp does not tell of %q:\n%s", want, told)
		}
	}
	if strings.Contains(told, "PROTOCOL_ERROR") {
		t.Errorf("nghttp finds fault:\n%s", told)
	}
	// Windows and padding of its own, and several requests at once.
	many := nghttp.output(nil, "-n", "-s", "-w", "16", "-W", "17", "-b", "100", "-m", "20", "--no-dep", url+"/much")
	if n := strings.Count(many, " 200 "); n != 20 {
		t.Errorf("%d of 20 requests were answered 200:\n%s", n, many)
	}
}

// TestH2load puts bounded load on, in both versions of HTTP: not one request may
// fail.
func TestH2load(t *testing.T) {
	h2load := newTool(t, "h2load", "nghttp2-client")
	m := newMesh(t, gateway+service("old", 21, 8080, "http")+service("new", 22, 8080, "kubernetes.io/h2c"))
	m.HTTP("old", m.Addr(21, 8080)).Handle(func(x *meshtest.Exchange) { x.Reply(200, "hello") })
	m.H2C("new", m.Addr(22, 8080)).Handle(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	m.node("old", 21)
	m.node("new", 22)
	h1, h2 := "http://"+m.tunnel(101, 8080, vip(21, 8080)), "http://"+m.tunnel(102, 8080, vip(22, 8080))
	tests := []struct {
		name string
		args []string
	}{
		{"HTTP/1.1", []string{"--h1", "-c", "50", h1}},
		{"HTTP/1.1 to an h2c application", []string{"--h1", "-c", "50", h2}},
		{"HTTP/2", []string{"-c", "10", "-m", "50", h2}},
		{"HTTP/2 to an HTTP/1.1 application", []string{"-c", "10", "-m", "20", h1}},
		{"HTTP/2, small windows", []string{"-c", "4", "-m", "20", "-w", "10", "-W", "12", h2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const requests = 20_000
			h2load := tool{t, h2load.path}
			out := h2load.output(nil, append([]string{"-n", fmt.Sprint(requests), "-t", "1"}, tt.args...)...)
			if !strings.Contains(out, fmt.Sprintf("%d succeeded, 0 failed, 0 errored, 0 timeout", requests)) ||
				!strings.Contains(out, fmt.Sprintf("%d 2xx", requests)) {
				t.Errorf("not all requests succeeded:\n%s", out)
			}
			t.Log(regexp.MustCompile(`finished in .*`).FindString(out))
		})
	}
}
