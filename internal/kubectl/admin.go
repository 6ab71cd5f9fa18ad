package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// AdminPort is where a waypoint listens for whoever may see everything, on its
// loopback address.
const AdminPort = 15000

// adminTimeout bounds a question to a running waypoint.
const adminTimeout = 30 * time.Second

// Admin is the admin port of a pod, as docs/admin.md describes it.
type Admin struct {
	URL  string
	Pod  string
	http http.Client
	end  func()
}

// Admin reaches the admin port of a pod. The caller closes it.
func (c *Cluster) Admin(ctx context.Context, p *corev1.Pod, port int) (*Admin, error) {
	address, end, err := c.forward(ctx, p, port)
	if err != nil {
		return nil, err
	}
	return &Admin{
		URL: "http://" + address, Pod: p.Name, end: end,
		http: http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: adminTimeout},
	}, nil
}

// Close gives up the way to the pod.
func (a *Admin) Close() { a.end() }

// Snapshot is the configuration in force, as JSON; of one service if it is named:
// "namespace/name" or "namespace/hostname".
func (a *Admin) Snapshot(ctx context.Context, service string) ([]byte, error) {
	target := "/snapshot"
	if service != "" {
		target += "?service=" + url.QueryEscape(service)
	}
	return a.do(ctx, http.MethodGet, target)
}

// do returns the body of an answer; one that is not 200 is an error.
func (a *Admin) do(ctx context.Context, method, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.URL+target, nil)
	if err != nil {
		return nil, err
	}
	res, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("pod %s does not answer at its admin port (other than %d by --admin? then give --admin-port): %w", a.Pod, AdminPort, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer of pod %s: %w", a.Pod, err)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("pod %s answers %s: %s", a.Pod, res.Status, reason(body))
	}
	return body, nil
}

// reason is the text of an answer that is an error, as JSON or plain.
func reason(body []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		return said.Error
	}
	return string(bytes.TrimSpace(body))
}

// SetLevel has the waypoints in pods log at a level: debug, info, warn or error. It
// tells of each.
func (c *Cluster) SetLevel(ctx context.Context, pods []corev1.Pod, port int, level string, out io.Writer) error {
	for i := range pods {
		admin, err := c.Admin(ctx, &pods[i], port)
		if err != nil {
			return err
		}
		_, err = admin.do(ctx, http.MethodPost, "/logging?level="+url.QueryEscape(level))
		admin.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "pod %s logs at level %s now\n", pods[i].Name, level)
	}
	return nil
}
