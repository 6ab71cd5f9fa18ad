package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// running is one replica of the controller: the program, as it is shipped.
type running struct {
	discovery       string // address
	webhook, health int    // ports
	log             *log
	process         *exec.Cmd
}

// log may be written and read at the same time.
type log struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.String()
}

func (c *cluster) controllerLog() string {
	if c.controller == nil {
		return ""
	}
	return c.controller.log.String()
}

func (c *cluster) startController(ctx context.Context) error {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	c.controller = &running{
		discovery: fmt.Sprintf("localhost:%d", ports[0]), webhook: ports[1], health: ports[2], log: &log{},
	}
	return c.resume(ctx)
}

// resume starts the controller, or starts it again, with the rights that its
// ServiceAccount has. It returns when the controller is ready.
func (c *cluster) resume(ctx context.Context) error {
	token, err := c.token(ctx, systemNamespace, "waypoint-controller", "", 3600)
	if err != nil {
		return err
	}
	kubeconfig, err := c.kubeconfig("controller", token)
	if err != nil {
		return err
	}
	r := c.controller
	r.process = exec.Command(os.Getenv("WAYPOINT_CONTROLLER"),
		"--kubeconfig="+kubeconfig, "--namespace="+systemNamespace, "--waypoint-image=example.invalid/waypoint:test",
		"--address="+r.discovery, "--discovery="+r.discovery, fmt.Sprintf("--webhook-port=%d", r.webhook),
		fmt.Sprintf("--health=127.0.0.1:%d", r.health), "--metrics=0", "--lease=4s", "--log-level=debug")
	r.process.Stdout, r.process.Stderr = r.log, r.log
	if err := r.process.Start(); err != nil {
		return err
	}
	return until(ctx, func() error {
		return get(ctx, &http.Transport{DisableKeepAlives: true}, fmt.Sprintf("http://127.0.0.1:%d/readyz", r.health))
	})
}

// get fails unless the answer is 200.
func get(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// stop ends it as a kubelet does; the error is that it did not end well.
func (r *running) stop() error {
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return r.process.Wait()
}

// story is one test's view of the world: a namespace of its own.
type story struct {
	*testing.T
	*cluster
	ns string
}

func newStory(t *testing.T) *story {
	t.Helper()
	c := needWorld(t)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	s := &story{t, c, name[:min(len(name), 60)]}
	s.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + s.ns + "}")
	return s
}

// Apply applies manifests; NS in them is the story's namespace.
func (s *story) Apply(manifests string) {
	s.Helper()
	if err := s.apply(s.Context(), strings.ReplaceAll(manifests, "NS", s.ns)); err != nil {
		s.Fatal(err)
	}
}

// Delete deletes an object of the story's namespace.
func (s *story) Delete(obj client.Object, name string) {
	s.Helper()
	obj.SetNamespace(s.ns)
	obj.SetName(name)
	if err := s.admin.Delete(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// Get reads an object of the story's namespace.
func (s *story) Get(name string, into client.Object) error {
	return s.admin.Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, into)
}

// Eventually waits until there is no error.
func (s *story) Eventually(what string, try func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := until(ctx, try); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// expect compares a condition with "Type Status Reason" and a part of its message.
func expect(conditions []metav1.Condition, want, message string) error {
	parts := strings.Fields(want)
	c := meta.FindStatusCondition(conditions, parts[0])
	if c == nil {
		return fmt.Errorf("there is no condition %s", parts[0])
	}
	if got := c.Type + " " + string(c.Status) + " " + c.Reason; got != want || !strings.Contains(c.Message, message) {
		return fmt.Errorf("got %s %q, want %s with %q", got, c.Message, want, message)
	}
	return nil
}
