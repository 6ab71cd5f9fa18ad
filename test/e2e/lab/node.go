package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// hbonePort is where waypoints and node proxies take tunnels.
const hbonePort = 15008

// redirection is what istio-cni writes on a pod that ztunnel has captured, and what
// istiod and we read.
const redirection = "ambient.istio.io/redirection"

// Capture gives the running pods of the story's namespace a node proxy, as istio-cni
// does where a namespace is labelled ambient: it listens inside the pod, and the pod
// says so. Waypoints are left out, as there.
func (s *Story) Capture() {
	s.Helper()
	s.CaptureIn(s.NS)
}

// CaptureIn is Capture for another namespace. Pods that are captured already stay so.
func (s *Story) CaptureIn(namespace string) {
	s.Helper()
	var pods corev1.PodList
	if err := s.Client.List(s.Context(), &pods, client.InNamespace(namespace)); err != nil {
		s.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Labels["istio.io/dataplane-mode"] == "none" || p.DeletionTimestamp != nil || p.Status.PodIP == "" || s.captured[p.Status.PodIP] != nil {
			continue
		}
		s.capture(p)
		s.Eventually("istiod tells that the pod takes tunnels", func() error {
			if w, ok := s.Directory.Workload(p.Status.PodIP); !ok || !w.HBONE() {
				return fmt.Errorf("pod %s: %+v", p.Name, w)
			}
			return nil
		})
	}
}

func (s *Story) capture(p *corev1.Pod) {
	s.Helper()
	id := Workload{Namespace: p.Namespace, ServiceAccount: p.Spec.ServiceAccountName}.ID()
	netns := filepath.Join(s.dir, "node/pods", p.Namespace+"_"+p.Name, "netns")
	err := within(netns, func() { s.captured[p.Status.PodIP] = s.Mesh.NodeProxy(p.Status.PodIP, id) })
	if err != nil {
		s.Fatalf("pod %s: %v", p.Name, err)
	}
	before := p.DeepCopy()
	if p.Annotations == nil {
		p.Annotations = make(map[string]string)
	}
	p.Annotations[redirection] = "enabled"
	if err := s.Client.Patch(s.Context(), p, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// NodeProxy returns that of a captured pod.
func (s *Story) NodeProxy(ip string) *meshtest.NodeProxy { return s.captured[ip] }

// within runs fn with this thread in another network namespace: sockets that fn opens
// belong there.
func within(netns string, fn func()) (err error) {
	other, err := os.Open(netns)
	if err != nil {
		return err
	}
	defer other.Close()
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	// On a thread that does not get back nothing else may run: it stays locked, and
	// goes with its goroutine.
	defer func() {
		failed := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET)
		if failed == nil {
			runtime.UnlockOSThread()
		}
		err = errors.Join(err, failed)
	}()
	fn()
	return nil
}

// Client is an application of the story's namespace with
// a node proxy that does as istiod says.
type Client struct {
	story *Story
	node  *meshtest.Client
}

// Close cuts its tunnels.
func (c *Client) Close() error { return c.node.Close() }

// NewClient makes one that is known by a service account of the story's namespace.
func (s *Story) NewClient(account string) *Client {
	s.Helper()
	return &Client{s, s.Mesh.Client(Workload{Namespace: s.NS, ServiceAccount: account}.ID())}
}

// Dial connects to host:port, the host being a Service's as it would be looked up in
// the story's namespace or its address, or the address of a pod: through its waypoint
// if it has one, else to a pod.
func (c *Client) Dial(ctx context.Context, target string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	d := c.story.Directory
	if w, ok := d.Workload(host); ok {
		return c.dialPod(ctx, w.Waypoint, endpoint{w, target}, target)
	}
	service, ok := d.ServiceAt(host)
	if !ok {
		service, ok = d.Service(FullName(host, c.story.NS))
	}
	if !ok {
		return nil, fmt.Errorf("istiod tells of no Service %s", FullName(host, c.story.NS))
	}
	var e endpoint
	if service.Waypoint == nil {
		if e, err = d.endpoint(service.Namespace+"/"+service.Hostname, uint16(number)); err != nil {
			return nil, err
		}
	}
	return c.dialPod(ctx, service.Waypoint, e, net.JoinHostPort(service.VIP(), portText))
}

// dialPod has a waypoint choose the pod, if there is one.
func (c *Client) dialPod(ctx context.Context, waypoint *gatewayAddress, e endpoint, target string) (net.Conn, error) {
	switch {
	case waypoint != nil && waypoint.Hostname == nil:
		return nil, fmt.Errorf("the waypoint of %s has no host name", target)
	case waypoint != nil:
		at, err := c.story.Directory.endpoint(waypoint.Hostname.Namespace+"/"+waypoint.Hostname.Hostname, hbonePort)
		if err != nil {
			return nil, err
		}
		return c.tunnelTo(ctx, at, at.addr, target)
	case e.HBONE():
		return c.tunnelTo(ctx, e, net.JoinHostPort(e.IP(), strconv.Itoa(hbonePort)), e.addr)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", e.addr)
}

// tunnelTo dials through the proxy at addr, which has to be who istiod says.
func (c *Client) tunnelTo(ctx context.Context, e endpoint, addr, target string) (net.Conn, error) {
	s, err := c.node.Dial(ctx, addr, target)
	if err != nil {
		return nil, err
	}
	peer, err := s.Peer()
	if err == nil && peer.String() != e.ID() {
		err = fmt.Errorf("%s is %s, and istiod says %s", addr, peer, e.ID())
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// HTTP is a client that sends HTTP/1.1 to the Services that its URLs name. It
// follows no redirects.
func (s *Story) HTTP(account string) *http.Client {
	s.Helper()
	return s.NewClient(account).HTTP()
}

// HTTP is the application's client.
func (c *Client) HTTP() *http.Client {
	transport := &http.Transport{
		DisableCompression: true,
		DialContext:        func(ctx context.Context, _, target string) (net.Conn, error) { return c.Dial(ctx, target) },
	}
	c.story.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
