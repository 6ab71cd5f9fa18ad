package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"
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

const (
	concurrency = 20               // of the requests of one command, as the suite's client has it
	patience    = 10 * time.Second // with all of them
)

// caller makes one request of a command and prints it as the client does: in lines
// "[number] Key=value", or "[number body] Key=value" where the application says so.
type caller func(ctx context.Context, number int) (output string, err error)

// call makes the requests of a command. Between what is printed of two there is an
// empty line.
func (r *runner) call(ctx context.Context, pod *corev1.Pod, cmd command) (string, error) {
	one, done, err := r.caller(pod, cmd)
	if err != nil {
		return "", err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, patience)
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

func (r *runner) caller(pod *corev1.Pod, cmd command) (one caller, done func(), err error) {
	switch cmd.url.Scheme {
	case "http":
		// A connection for each request, as the client has it.
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, target string) (net.Conn, error) {
			return r.Dial(ctx, pod, target)
		}}
		return r.httpCaller(cmd, transport), transport.CloseIdleConnections, nil
	case "grpc":
		// One connection for all.
		conn, err := grpc.NewClient("passthrough:///"+cmd.url.Host, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) { return r.Dial(ctx, pod, target) }))
		if err != nil {
			return nil, nil, err
		}
		return grpcCaller(conn), func() { conn.Close() }, nil
	}
	return nil, nil, fmt.Errorf("scheme of %s", cmd.url)
}

func (r *runner) httpCaller(cmd command, transport *http.Transport) caller {
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
		r.note(exchange{
			host: req.Host, target: req.URL.RequestURI(),
			status: resp.StatusCode, location: resp.Header.Get("Location"), echo: string(body),
		})
		lines := []string{fmt.Sprintf("StatusCode=%d", resp.StatusCode)}
		for name, values := range resp.Header {
			for _, value := range values {
				lines = append(lines, "ResponseHeader="+name+":"+value)
			}
		}
		return numbered(number, "", lines) + numbered(number, " body", strings.Split(string(body), "\n")), nil
	}
}

// numbered writes the lines that are not empty.
func numbered(number int, of string, lines []string) string {
	var b strings.Builder
	for _, line := range slices.DeleteFunc(lines, func(line string) bool { return line == "" }) {
		fmt.Fprintf(&b, "[%d%s] %s\n", number, of, line)
	}
	return b.String()
}

// grpcCaller calls the one method of the suite's application. Its request may be
// empty, and its answer is a text in field 1, which a StringValue has too.
func grpcCaller(conn *grpc.ClientConn) caller {
	return func(ctx context.Context, number int) (string, error) {
		var answer wrapperspb.StringValue
		if err := conn.Invoke(ctx, "/proto.EchoTestService/Echo", &emptypb.Empty{}, &answer); err != nil {
			return "", err
		}
		return numbered(number, " body", strings.Split(answer.GetValue(), "\n")), nil
	}
}
