package kubectl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// node is an API server that forwards port 15000 of every pod to an admin port, by
// SPDY alone, and has a log of every pod.
type node struct {
	admin string // address
	mu    sync.Mutex
	asked []string // for logs: pod and query
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NS/pods/POD/SUBRESOURCE
	switch pod, what := parts[6], parts[7]; {
	case what == "log":
		n.mu.Lock()
		n.asked = append(n.asked, pod+"?"+r.URL.RawQuery)
		n.mu.Unlock()
		fmt.Fprintf(w, "one of %s\ntwo", pod)
	case pod == "away":
		http.Error(w, "the pod's kubelet does not answer", http.StatusBadGateway)
	case r.Method != http.MethodPost: // a WebSocket, which this API server is too old for
		http.Error(w, "unable to upgrade", http.StatusForbidden)
	default:
		n.forward(w, r)
	}
}

func (n *node) forward(w http.ResponseWriter, r *http.Request) {
	streams := make(chan httpstream.Stream, 2)
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	for {
		select {
		case s := <-streams:
			switch {
			case s.Headers().Get("port") != "15000":
				_ = s.Reset()
			case s.Headers().Get("streamType") == "data":
				go n.pipe(s)
			default:
				_ = s.Close() // nothing to complain of
			}
		case <-conn.CloseChan():
			return
		}
	}
}

func (n *node) pipe(s httpstream.Stream) {
	defer s.Close()
	c, err := net.Dial("tcp", n.admin)
	if err != nil {
		return
	}
	defer c.Close()
	go func() { _, _ = io.Copy(c, s) }()
	_, _ = io.Copy(s, c)
}

// newNode starts one before an admin port.
func newNode(t *testing.T, admin http.Handler) (*node, *Cluster) {
	t.Helper()
	port := httptest.NewServer(admin)
	t.Cleanup(port.Close)
	n := &node{admin: port.Listener.Addr().String()}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return n, &Cluster{Namespace: "shop", config: config, core: core}
}

// TestAdmin reaches an admin port through a port-forward, and tells what it answers.
func TestAdmin(t *testing.T) {
	var levels []string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /snapshot", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("service") != "shop/cart" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error": "no such service"}`)
			return
		}
		fmt.Fprint(w, `{"hostname": "cart"}`)
	})
	mux.HandleFunc("POST /logging", func(_ http.ResponseWriter, r *http.Request) { levels = append(levels, r.URL.Query().Get("level")) })
	_, c := newNode(t, mux)
	p := podOf("w", corev1.ConditionTrue)

	a, err := c.Admin(t.Context(), p, AdminPort)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Snapshot(t.Context(), "shop/cart"); err != nil || string(got) != `{"hostname": "cart"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := a.Snapshot(t.Context(), "x"); err == nil || !strings.HasSuffix(err.Error(), "pod w answers 404 Not Found: no such service") {
		t.Errorf("a service that is not there: %v", err)
	}
	a.Close()
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(a.URL, "http://"), time.Second); err == nil {
		t.Error("the way to the pod is open after it was closed")
	}

	var said strings.Builder
	if err := c.SetLevel(t.Context(), []corev1.Pod{*p, *podOf("v", corev1.ConditionTrue)}, AdminPort, "debug", &said); err != nil {
		t.Error(err)
	}
	if got := strings.Join(levels, " "); got != "debug debug" || said.String() != "pod w logs at level debug now\npod v logs at level debug now\n" {
		t.Errorf("levels %q, said %q", got, said.String())
	}
}

func TestAdminThatCannotBeReached(t *testing.T) {
	_, c := newNode(t, http.NotFoundHandler())
	if _, err := c.Admin(t.Context(), podOf("away", corev1.ConditionTrue), AdminPort); err == nil || !strings.Contains(err.Error(), "port-forward to pod shop/away") {
		t.Errorf("a pod whose kubelet is away: %v", err)
	}
	a, err := c.Admin(t.Context(), podOf("w", corev1.ConditionTrue), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Snapshot(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--admin-port") {
		t.Errorf("another port: %v", err)
	}
}

func TestLogs(t *testing.T) {
	n, c := newNode(t, http.NotFoundHandler())
	one, two := podOf("a", corev1.ConditionTrue), podOf("b", corev1.ConditionTrue)
	var out strings.Builder
	if err := c.Logs(t.Context(), []corev1.Pod{*one}, LogOptions{Tail: -1}, &out); err != nil || out.String() != "one of a\ntwo" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	err := c.Logs(t.Context(), []corev1.Pod{*one, *two}, LogOptions{Tail: 5, Since: 1500 * time.Millisecond}, &out)
	if want := "[a] one of a\n[a] two\n[b] one of b\n[b] two\n"; err != nil || out.String() != want {
		t.Errorf("%q, want %q, %v", out.String(), want, err)
	}
	out.Reset()
	if err := c.Logs(t.Context(), []corev1.Pod{*one, *two}, LogOptions{Tail: 0, Follow: true}, &out); err != nil || strings.Count(out.String(), "one of") != 2 {
		t.Errorf("%q, %v", out.String(), err)
	}
	if got := n.asked[:3]; got[0] != "a?container=waypoint" || got[2] != "b?container=waypoint&sinceSeconds=1&tailLines=5" {
		t.Errorf("asked for %q", got)
	}
	if err := c.Logs(t.Context(), []corev1.Pod{*one}, LogOptions{Tail: -1}, broken{}); !errors.Is(err, errBroken) {
		t.Errorf("a reader that has gone: %v", err)
	}
}

var errBroken = errors.New("broken pipe")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
