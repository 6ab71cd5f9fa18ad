package admin

import (
	"bufio"
	"context"
	"errors"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// ask returns the status and the body of the answer.
func ask(h http.Handler, method, target, body string, header ...string) (int, string) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:15000"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const question = `{"from": "spiffe://cluster.local/ns/clients/sa/curl", "to": "10.96.0.20:9080", "method": "GET", "url": "/reviews/7"}`

func options() Options {
	return Options{
		Store: new(mesh.Store), Level: new(slog.LevelVar), Ready: new(Readiness),
		Watch: func(_ context.Context, service, identity string, write func([]byte) error) error {
			if service == "full" {
				return errors.New("too many")
			}
			return errors.Join(write(nil), write([]byte(`{"service":"`+service+`","identity":"`+identity+"\"}\n")))
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, "metrics\n") }),
	}
}

func TestPages(t *testing.T) {
	h := Handler(options())
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string // within the answer
	}{
		{"GET", "/", "", 200, "/snapshot"},
		{"GET", "/nowhere", "", 404, "not found"},
		{"GET", "/metrics", "", 200, "metrics"},
		{"GET", "/stats/prometheus", "", 200, "metrics"},
		{"POST", "/metrics", "", 405, "takes GET"},
		{"GET", "/healthz/ready", "", 200, "ready"},
		{"HEAD", "/healthz/live", "", 200, ""},
		{"GET", "/snapshot", "", 200, `"version": 0`},
		{"GET", "/snapshot?service=a/b", "", 404, `no service \"a/b\" among the 0 known`},
		{"POST", "/explain", question, 200, `"outcome"`},
		{"POST", "/explain", "", 400, `"error"`},
		{"POST", "/explain", `{"from": "spiffe://cluster.local/ns/a/sa/b", "to": "nowhere"}`, 400, "to"},
		{"POST", "/explain", strings.Repeat("x", maxQuestion+1), 413, `too large`},
		{"GET", "/explain", "", 405, "takes POST"},
		{"GET", "/logging", "", 200, "INFO\n"},
		{"POST", "/logging?level=debug", "", 200, "DEBUG\n"},
		{"GET", "/logging", "", 200, "DEBUG\n"},
		{"PUT", "/logging?level=warn", "", 200, "WARN\n"},
		{"GET", "/logging?level=error", "", 405, "takes POST or PUT"},
		{"POST", "/logging?level=loud", "", 400, `"loud" is none of`},
		{"POST", "/logging", "", 400, `"" is none of`},
		{"GET", "/debug/pprof/", "", 200, "goroutine"},
		{"GET", "/debug/pprof/heap?debug=1", "", 200, "heap profile"},
		{"GET", "/debug/pprof/cmdline", "", 200, ""},
	} {
		status, body := ask(h, c.method, c.target, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %.200q, want %d and %q within", c.method, c.target, status, body, c.status, c.want)
		}
	}
}

func TestIndex(t *testing.T) {
	h := Handler(options())
	_, page := ask(h, "GET", "/", "", "Accept", "text/html,*/*")
	_, text := ask(h, "GET", "/", "")
	for _, p := range adminPages(options()) {
		for kind, body := range map[string]string{"html": html.UnescapeString(page), "text": text} {
			if !strings.Contains(body, strings.SplitN(p.doc, "`", 2)[0]) {
				t.Errorf("%s: nothing of %s", kind, p.show)
			}
		}
	}
	if !strings.Contains(page, `<a href="/snapshot">`) || strings.Contains(page, `<a href="/explain">`) {
		t.Errorf("links of the index: %s", page)
	}
}

func TestPagesOfWhatIsThere(t *testing.T) {
	h := Handler(Options{})
	for _, target := range []string{"/snapshot", "/live", "/logging", "/metrics", "/healthz/ready"} {
		if status, _ := ask(h, "GET", target, ""); status != 404 {
			t.Errorf("%s: %d, want 404", target, status)
		}
	}
}

func TestGuard(t *testing.T) {
	h := Handler(options())
	for _, c := range []struct {
		name, method, target string
		header               []string
		want                 int
	}{
		{"localhost", "GET", "/logging", []string{"Host", "localhost:15000"}, 200},
		{"localhost without a port", "GET", "/logging", []string{"Host", "LOCALHOST"}, 200},
		{"IPv4", "GET", "/logging", []string{"Host", "127.0.0.1:15000"}, 200},
		{"IPv6", "GET", "/logging", []string{"Host", "[::1]:15000"}, 200},
		{"IPv6 without a port", "GET", "/logging", []string{"Host", "[::1]"}, 200},
		{"a name that was made to resolve to us", "GET", "/snapshot", []string{"Host", "attacker.example"}, 403},
		{"one that looks like ours", "GET", "/snapshot", []string{"Host", "localhost.attacker.example:15000"}, 403},
		{"none", "GET", "/snapshot", []string{"Host", ""}, 403},
		{"change from this origin", "POST", "/logging?level=info", []string{"Origin", "http://localhost:15000"}, 200},
		{"change from another origin", "POST", "/logging?level=info", []string{"Origin", "http://attacker.example"}, 403},
		{"question across sites", "POST", "/explain", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if got, body := ask(h, c.method, c.target, "?", c.header...); got != c.want {
			t.Errorf("%s: %d %q, want %d", c.name, got, body, c.want)
		}
	}
}

func TestReadiness(t *testing.T) {
	var r Readiness
	h := StatusHandler(&r)
	expect := func(status int, want string) {
		t.Helper()
		if got, body := ask(h, "GET", "/healthz/ready", ""); got != status || body != want {
			t.Errorf("ready: %d %q, want %d %q", got, body, status, want)
		}
		if got, _ := ask(h, "GET", "/healthz/live", ""); got != 200 {
			t.Errorf("live: %d", got)
		}
	}
	expect(200, "ready\n")
	config, certificate := r.Require("configuration", "not read yet"), r.Require("certificate", "none yet")
	expect(503, "configuration: not read yet\ncertificate: none yet\n")
	config.Met()
	expect(503, "certificate: none yet\n")
	certificate.Met()
	expect(200, "ready\n")
	r.Require("drain", "the process is ending")
	expect(503, "drain: the process is ending\n")
	certificate.NotMet("it has expired")
	expect(503, "certificate: it has expired\ndrain: the process is ending\n")
}

// serve runs a server until the test ends, or until stop is called.
func serve(t *testing.T, h http.Handler) (url string, stop func() error) {
	t.Helper()
	s, err := Listen("admin", "127.0.0.1:0", h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(cancel)
	return "http://" + s.Addr().String(), func() error {
		cancel()
		return <-served
	}
}

func TestLiveStream(t *testing.T) {
	o := options()
	seen := make(chan struct{})
	o.Watch = func(ctx context.Context, service, identity string, write func([]byte) error) error {
		if err := errors.Join(write(nil), write([]byte(service+" "+identity+"\n"))); err != nil {
			return err
		}
		<-ctx.Done()
		close(seen)
		return nil
	}
	url, stop := serve(t, Handler(o))
	client := &http.Client{}
	r, err := client.Get(url + "/live?service=a/b&identity=c/d")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body := bufio.NewReader(r.Body)
	if line, err := body.ReadString('\n'); err != nil || line != "a/b c/d\n" || r.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%q, %v, %v", line, err, r.Header)
	}
	// The end of the server ends a stream that has no end of its own.
	if err := stop(); err != nil {
		t.Error(err)
	}
	<-seen
	if rest, err := io.ReadAll(body); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

// The timeouts are for requests and answers that have an end.
func TestLiveOutlivesTimeouts(t *testing.T) {
	o := options()
	o.Watch = func(ctx context.Context, _, _ string, write func([]byte) error) error {
		if err := write(nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return write([]byte("ended\n"))
		case <-time.After(250 * time.Millisecond):
			return write([]byte("still here\n"))
		}
	}
	s, err := Listen("admin", "127.0.0.1:0", Handler(o), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.http.ReadTimeout, s.http.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	r, err := new(http.Client).Get("http://" + s.Addr().String() + "/live")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if string(body) != "still here\n" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	r.Body.Close()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestLiveRefused(t *testing.T) {
	url, stop := serve(t, Handler(options()))
	r, err := new(http.Client).Get(url + "/live?service=full")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if r.StatusCode != 503 || !strings.Contains(string(body), "too many") || err != nil {
		t.Errorf("%d %q %v", r.StatusCode, body, err)
	}
	r.Body.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestListenNamesWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Listen("status", taken.Addr().String(), nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), `status port "`+taken.Addr().String()) {
		t.Errorf("error %v", err)
	}
}

func TestMetricsPort(t *testing.T) {
	h := MetricsHandler(options().Metrics)
	for target, want := range map[string]int{"/metrics": 200, "/stats/prometheus": 200, "/": 200, "/snapshot": 404, "/debug/pprof/": 404} {
		if got, _ := ask(h, "GET", target, "", "Host", "10.1.0.5:15020"); got != want {
			t.Errorf("%s: %d, want %d", target, got, want)
		}
	}
}
