package l7

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// oneConn is a listener of one connection.
type oneConn struct {
	mu sync.Mutex
	c  net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil {
		return nil, io.EOF
	}
	c := l.c
	l.c = nil
	return c, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestHTTP1(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		heads := make(chan string, 10)
		r := newRig(t, mode, scripted(heads, "HTTP/1.1 200 Fine\r\nX-App: 1\r\nserver: app\r\nContent-Length: 5\r\n\r\nhello"))
		c := r.connect()
		in := bufio.NewReader(c)
		for range 3 {
			res := r.roundTrip(c, in, "GET", "GET /a//b?q HTTP/1.1\r\nHost: echo\r\nX-ReQ-ID: 1\r\nX-Forwarded-Client-Cert: forged\r\nConnection: x-gone\r\nX-Gone: 1\r\n\r\n")
			body, _ := io.ReadAll(res.Body)
			if res.Status != "200 Fine" || string(body) != "hello" || res.Header.Get("X-App") != "1" || res.Header.Get("Server") != "app" {
				t.Fatalf("answered %v %q", res, body)
			}
			head := <-heads
			for _, want := range []string{
				"GET /a/b?q HTTP/1.1\r\nHost: echo\r\n", "\r\nX-ReQ-ID: 1\r\n", "\r\nx-forwarded-for: 10.0.9.9\r\n", "\r\nx-forwarded-proto: http\r\n",
				"\r\nX-Forwarded-Client-Cert: By=spiffe://cluster.local/ns/d/sa/waypoint;URI=spiffe://cluster.local/ns/c/sa/client\r\n", "\r\nx-request-id: ",
			} {
				if !strings.Contains(head, want) {
					t.Errorf("sent upstream %q without %q", head, want)
				}
			}
			if strings.Contains(head, "Gone") || strings.Contains(head, "forged") {
				t.Errorf("sent upstream %q", head)
			}
		}
		if n := r.dialled("10.0.0.1:8080"); n != 1 {
			t.Errorf("%d connections for three requests in turn", n)
		}
		for _, f := range r.flows(3) {
			if f.Status != 200 || f.Sent != 5 || f.Path != "/a/b?q" || f.Flags != 0 || f.Protocol != "HTTP/1.1" {
				t.Errorf("recorded %+v", f)
			}
		}
	})
}
