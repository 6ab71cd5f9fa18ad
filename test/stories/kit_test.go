package stories

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// stage is a mesh with a waypoint and a client on it.
type stage struct {
	*meshtest.Mesh
	t      *testing.T
	wp     *meshtest.Waypoint
	client *meshtest.Client
}

// newStage sets it. Applications and node proxies come on afterwards, before
// anybody calls them.
func newStage(t *testing.T, manifests string, change ...func(*app.Options)) *stage {
	t.Helper()
	s := newStageOn(meshtest.New(t), t, manifests, change...)
	s.wp.AwaitReady()
	return s
}

// newStageOn sets one on a mesh that has parts already, and does not wait until the
// waypoint is ready.
func newStageOn(m *meshtest.Mesh, t *testing.T, manifests string, change ...func(*app.Options)) *stage {
	t.Helper()
	s := &stage{Mesh: m, t: t, client: m.Client(clientID)}
	s.wp = m.StartWaypoint(manifests, func(o *app.Options) {
		for _, c := range change {
			c(o)
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the waypoint's log:\n%s\nits access log:\n%s", s.wp.Log, s.wp.AccessLog)
		}
	})
	return s
}

// node starts the node proxy of an application's pod.
func (s *stage) node(app string, host byte, settings ...meshtest.Settings) *meshtest.NodeProxy {
	s.t.Helper()
	return s.NodeProxy(s.IP(host), idOf(app), settings...)
}

// patience is how long a story waits for what has to come: on a busy machine,
// under the race detector, with twenty stories told at a time.
const patience = 30 * time.Second

// conversation is a connection through the waypoint, spoken by hand.
type conversation struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// open opens a connection to target.
func (s *stage) open(target string) *conversation {
	s.t.Helper()
	stream, err := s.client.Dial(s.t.Context(), s.wp.Addr, target)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.converse(stream)
}

func (s *stage) converse(conn net.Conn) *conversation {
	s.t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return &conversation{Conn: conn, t: s.t, in: bufio.NewReader(conn)}
}

// refused opens a connection that must not come about, and returns the status
// of the CONNECT.
func (s *stage) refused(target string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	_, err := s.client.Dial(ctx, s.wp.Addr, target)
	refused, ok := err.(*meshtest.RefusedError)
	if !ok {
		s.t.Fatalf("CONNECT %s: %v, expected a refusal", target, err)
	}
	return refused.Status
}

// say sends text as it is.
func (c *conversation) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatalf("saying %.40q: %v", text, err)
	}
}

// hear expects exactly these bytes next.
func (c *conversation) hear(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.in, got)
	if string(got[:n]) != want {
		c.t.Fatalf("heard %q (%v), expected %q", got[:n], err, want)
	}
}

// rest is all that comes until the end, which must be a clean one.
func (c *conversation) rest() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	if err != nil {
		c.t.Fatalf("after %d bytes, %.60q: %v, expected a clean end", len(rest), rest, err)
	}
	return string(rest)
}

// closeWrite ends our direction.
func (c *conversation) closeWrite() {
	c.t.Helper()
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// reply is a response that was read to its end.
type reply struct {
	*http.Response
	text string
}

// reply reads the response to a request with the given method.
func (c *conversation) reply(method string) reply {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("expected a response: %v", err)
	}
	return c.read(resp)
}

func (c *conversation) read(resp *http.Response) reply {
	c.t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("the body of the response: %v", err)
	}
	return reply{resp, string(body)}
}

// want fails the story unless the response is this one.
func (r reply) want(t *testing.T, status int, body string) {
	t.Helper()
	if r.StatusCode != status || r.text != body {
		t.Fatalf("response %d %q, expected %d %q", r.StatusCode, r.text, status, body)
	}
}

// get asks for a URL, as any HTTP client would, and returns the response. What
// is no response at all fails the story.
func get(t *testing.T, c *http.Client, url string) reply {
	t.Helper()
	return do(t, c, http.MethodGet, url, nil)
}

func do(t *testing.T, c *http.Client, method, url string, body io.Reader) reply {
	t.Helper()
	r, err := try(t.Context(), c, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try is do for many goroutines: it does not end the story.
func try(ctx context.Context, c *http.Client, method, url string, body io.Reader) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return reply{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, fmt.Errorf("status %d, and a broken body: %w", resp.StatusCode, err)
	}
	return reply{resp, string(text)}, nil
}

// direct is for pages of the waypoint itself. It leaves no connection behind.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// page gets one.
func page(t *testing.T, addr, path string) reply {
	t.Helper()
	return get(t, direct, "http://"+addr+path)
}

// expect200 is a GET that nothing but a 200 will do for.
func expect200(ctx context.Context, c *http.Client, url string) error {
	r, err := try(ctx, c, http.MethodGet, url, nil)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", url, r.StatusCode, r.text)
	}
	return err
}

// logged waits for n lines of the access log and returns them. Numbers are as
// they were written.
func (s *stage) logged(n int) []map[string]any {
	s.t.Helper()
	var lines []string
	s.Eventually(fmt.Sprintf("there are %d lines of access log", n), func() bool {
		lines = strings.Split(strings.TrimSuffix(s.wp.AccessLog.String(), "\n"), "\n")
		return len(lines) >= n && lines[0] != ""
	})
	if len(lines) != n {
		s.t.Fatalf("%d lines of access log, expected %d", len(lines), n)
	}
	entries := make([]map[string]any, n)
	for i, line := range lines {
		in := json.NewDecoder(strings.NewReader(line))
		in.UseNumber()
		if err := in.Decode(&entries[i]); err != nil {
			s.t.Fatalf("%v in %s", err, line)
		}
	}
	return entries
}

// logLine is what a story expects of a line of the access log; other fields may be
// anything.
type logLine map[string]any

// in fails the story if a line of the access log says something else.
func (want logLine) in(t *testing.T, line map[string]any) {
	t.Helper()
	for key, value := range want {
		if fmt.Sprint(line[key]) != fmt.Sprint(value) {
			t.Errorf("access log: %s is %v, expected %v", key, line[key], value)
		}
	}
}

// metric is the sum of the samples of a metric whose labels contain all of those
// given, each as name="value".
func (s *stage) metric(name string, labels ...string) float64 {
	s.t.Helper()
	sum := 0.0
	for line := range strings.Lines(s.wp.Metrics()) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' || !containsAll(rest, labels) {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' '):], &value); err != nil {
			s.t.Fatalf("%v in %s", err, line)
		}
		sum += value
	}
	return sum
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// grpcVia is a gRPC connection that asks for the address of the waypoint at each
// dial.
func (s *stage) grpcVia(addr func() string, target string) *grpc.ClientConn {
	s.t.Helper()
	conn := s.client.GRPC("", target, grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
		return s.client.Dial(ctx, addr(), target)
	}))
	s.t.Cleanup(func() { conn.Close() })
	return conn
}
