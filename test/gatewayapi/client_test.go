package gatewayapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// command is what the client of the suite's image is called with.
type command struct {
	url     *url.URL
	method  string
	headers []string // "name:value"
	count   int
}

func parseCommand(args []string) (cmd command, err error) {
	flags := pflag.NewFlagSet("client", pflag.ContinueOnError)
	flags.StringVar(&cmd.method, "method", http.MethodGet, "")
	flags.StringArrayVarP(&cmd.headers, "header", "H", nil, "")
	flags.IntVar(&cmd.count, "count", 1, "")
	if err := flags.Parse(args); err != nil {
		return cmd, err
	}
	if flags.NArg() != 2 || flags.Arg(0) != "client" {
		return cmd, fmt.Errorf("not a command of these pods: %q", args)
	}
	cmd.url, err = url.Parse(flags.Arg(1))
	return cmd, err
}

// exchange is one HTTP request that was made, and what became of it.
type exchange struct {
	host, target string // as they were sent
	status       int
	location     string
	app          meshtest.Request // as it reached an application; zero: none
}

// concurrency is that of the suite's client.
const concurrency = 20

// call makes the requests of a command and prints them as the client does: each
// in lines of "[number] Key=value", and an empty line behind it.
func (c *cluster) call(ctx context.Context, pod *corev1.Pod, cmd command) (string, error) {
	one, done, err := c.caller(ctx, pod, cmd)
	if err != nil {
		return "", err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	outputs, errs := make([]string, cmd.count), make([]error, cmd.count)
	numbers := make(chan int)
	var callers sync.WaitGroup
	for range min(concurrency, cmd.count) {
		callers.Go(func() {
			for i := range numbers {
				outputs[i], errs[i] = one(ctx, i)
			}
		})
	}
	for i := range cmd.count {
		numbers <- i
	}
	close(numbers)
	callers.Wait()
	return strings.Join(outputs, "\n"), errors.Join(errs...)
}

// caller makes one request of a command at a time.
type caller func(ctx context.Context, number int) (output string, err error)

func (c *cluster) caller(ctx context.Context, pod *corev1.Pod, cmd command) (one caller, done func(), err error) {
	port := cmd.url.Port()
	if port == "" {
		port = "80"
	}
	hop, target, err := c.hop(ctx, pod, cmd.url.Hostname(), port)
	if err != nil {
		return nil, nil, err
	}
	workload := c.workload(pod)
	switch cmd.url.Scheme {
	case "http":
		// A connection for each request, as the client has it.
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return workload.Dial(ctx, hop, target)
		}}
		return c.httpCaller(cmd, transport), transport.CloseIdleConnections, nil
	case "grpc":
		conn := workload.GRPC(hop, target, grpc.WithAuthority(cmd.url.Host))
		return grpcCaller(conn), func() { conn.Close() }, nil
	}
	return nil, nil, fmt.Errorf("scheme of %s", cmd.url)
}

// hop is where the node proxy of a pod opens the tunnel for an address, and the
// target that it names there: the waypoint of the Service that has the address, or
// the node proxy of the pod.
func (c *cluster) hop(ctx context.Context, from *corev1.Pod, host, port string) (hop, target string, err error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(host, "15008"), net.JoinHostPort(host, port), nil
	}
	name, in, qualified := strings.Cut(host, ".")
	if !qualified {
		in = from.Namespace
	}
	var service corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, &service); err != nil {
		return "", "", err
	}
	var owner corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: in}, &owner); err != nil {
		return "", "", err
	}
	if owner.Labels[labelUseWaypoint] != gatewayName {
		return "", "", fmt.Errorf("namespace %s does not use the waypoint", in)
	}
	return c.waypoint.Addr, net.JoinHostPort(service.Spec.ClusterIP, port), nil
}

// workload is the client of a pod, whose tunnels are kept.
func (c *cluster) workload(pod *corev1.Pod) *meshtest.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.clients[pod.Status.PodIP]
	if w == nil {
		w = c.mesh.Client(identityOf(pod))
		w.From = pod.Status.PodIP
		c.clients[pod.Status.PodIP] = w
	}
	return w
}

func (c *cluster) httpCaller(cmd command, transport *http.Transport) caller {
	return func(ctx context.Context, number int) (string, error) {
		req, err := http.NewRequestWithContext(ctx, cmd.method, cmd.url.String(), nil)
		if err != nil {
			return "", err
		}
		for _, h := range cmd.headers {
			name, value, _ := strings.Cut(h, ":")
			if strings.EqualFold(name, "host") {
				req.Host = value
			} else {
				req.Header.Add(name, value)
			}
		}
		resp, err := transport.RoundTrip(req) // which follows no redirects
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", err
		}
		x := exchange{host: req.Host, target: req.URL.RequestURI(), status: resp.StatusCode, location: resp.Header.Get("Location")}
		if resp.Header.Get("X-App") != "" {
			if err := json.Unmarshal(body, &x.app); err != nil {
				return "", err
			}
		}
		c.note(x)
		return printed(number, x, resp.Header), nil
	}
}

func (c *cluster) note(x exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, x)
}

// printed is what the suite reads. Lines with "body" are the application's.
func printed(number int, x exchange, header http.Header) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%d] StatusCode=%d\n", number, x.status)
	for name, values := range header {
		for _, value := range values {
			fmt.Fprintf(&b, "[%d] ResponseHeader=%s:%s\n", number, name, value)
		}
	}
	if x.app.App == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "[%d body] Host=%s\n[%[1]d body] URL=%s\n[%[1]d body] Method=%s\n[%[1]d body] Proto=%s\n", number, x.app.Host, x.app.Target, x.app.Method, x.app.Proto)
	for _, f := range x.app.Header {
		fmt.Fprintf(&b, "[%d body] RequestHeader=%s:%s\n", number, f.Name, f.Value)
	}
	fmt.Fprintf(&b, "[%d body] Hostname=%s\n", number, x.app.App)
	return b.String()
}

func grpcCaller(conn *grpc.ClientConn) caller {
	return func(ctx context.Context, number int) (string, error) {
		var in, out []byte
		var trailer metadata.MD
		if err := conn.Invoke(ctx, "/proto.EchoTestService/Echo", &in, &out, meshtest.Raw(), grpc.Trailer(&trailer)); err != nil {
			return "", err
		}
		return fmt.Sprintf("[%d body] StatusCode=200\n[%[1]d body] Hostname=%s\n", number, strings.Join(trailer.Get("x-app"), ",")), nil
	}
}
