package gatewayapi

import (
	"net/http"
	"regexp"
	"slices"
	"testing"
)

// unasked is what the suite states of its requests and its mesh tests do not look
// at, by the path of the request: the path at the application where it is rewritten,
// and where a redirect leads to.
var unasked = map[string]map[string]string{
	"MeshHTTPRouteRewritePath": {
		"/prefix/one/two":     "/one/two",
		"/strip-prefix/three": "/three",
		"/strip-prefix":       "/",
		"/full/one/two":       "/one",
		"/full/rewrite-path-and-modify-headers/test":  "/test",
		"/prefix/rewrite-path-and-modify-headers/one": "/prefix/one",
	},
	"MeshHTTPRoute303Redirect": {"/redirect": "http://echo/redirect"},
	"MeshHTTPRoute307Redirect": {"/temporary": "http://echo/temporary"},
	"MeshHTTPRoute308Redirect": {"/permanent": "http://echo/permanent"},
	"MeshHTTPRouteRedirectHostAndStatus": {
		"/hostname-redirect": "http://example.org/hostname-redirect",
		"/host-and-status":   "http://example.org/host-and-status",
	},
	"MeshHTTPRouteRedirectPath": {
		"/original-prefix/lemon": "http://echo/replacement-prefix/lemon",
		"/full/path/original":    "http://echo/full-path-replacement",
		"/path-and-host":         "http://example.org/replacement-prefix",
		"/path-and-status":       "http://echo/replacement-prefix",
		"/full-path-and-host":    "http://example.org/replacement-full",
		"/full-path-and-status":  "http://echo/replacement-full",
	},
	"MeshHTTPRouteRedirectPort": {
		"/port":                     "http://echo:8083/port",
		"/port-and-host":            "http://example.org:8083/port-and-host",
		"/port-and-status":          "http://echo:8083/port-and-status",
		"/port-and-host-and-status": "http://example.org:8083/port-and-host-and-status",
	},
	"MeshHTTPRouteSchemeRedirect": {
		"/scheme":                     "https://echo/scheme",
		"/scheme-and-host":            "https://example.org/scheme-and-host",
		"/scheme-and-status":          "https://echo/scheme-and-status",
		"/scheme-and-host-and-status": "https://example.org/scheme-and-host-and-status",
	},
}

// exchange is one HTTP request that was made, and what became of it.
type exchange struct {
	host, target string // as they were sent
	status       int
	location     string
	echo         string // what the application says that reached it
}

func (r *runner) note(x exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, x)
}

// forget begins a new record.
func (r *runner) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = nil
}

// exchanges are those since then.
func (r *runner) exchanges() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// checkUnasked looks at what became of the requests of a test: of each the last,
// since the first may have come before the test's routes.
func (r *runner) checkUnasked(t *testing.T, test string) {
	t.Helper()
	last := make(map[string]exchange)
	for _, x := range r.exchanges() {
		last[x.host+x.target] = x
	}
	rows := unasked[test]
	met := 0
	for _, x := range last {
		want, ok := rows[x.target]
		if ok {
			met++
		}
		switch {
		case x.status == http.StatusOK:
			if !ok {
				want = x.target
			}
			if x.said("Method") != http.MethodGet || x.said("URL") != want || x.said("Host") != x.host {
				t.Errorf("GET %s of %s, which was to come as %s, came as:\n%s", x.target, x.host, want, x.echo)
			}
		case x.location != want:
			t.Errorf("GET %s of %s: %d to %q, want %q", x.target, x.host, x.status, x.location, want)
		}
	}
	if met != len(rows) {
		t.Errorf("of %d requests that the suite was to make it made %d", len(rows), met)
	}
}

// said is the value of a line "name=value" of the application.
func (x exchange) said(name string) string {
	found := regexp.MustCompile("(?m)^" + name + "=(.*)$").FindStringSubmatch(x.echo)
	if found == nil {
		return ""
	}
	return found[1]
}
