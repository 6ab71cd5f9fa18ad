package l7

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// echoApp answers with what it was asked.
func echoApp(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	w.Header().Set("Trailer", "X-Sum, X-Trailer")
	fmt.Fprintf(w, "%s %s host=%s len=%d te=%v err=%v ", q.Method, q.URL, q.Host, q.ContentLength, q.TransferEncoding, err)
	_, _ = w.Write(body)
	w.Header().Set("X-Sum", fmt.Sprint(len(body)))
	w.Header().Set("X-Trailer", q.Trailer.Get("X-T"))
}

func TestBodies(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	tests := []struct{ name, request, want string }{
		{"length", "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 5\r\n\r\nhello", "POST / host=e len=5 te=[] err=<nil> hello"},
		{"empty", "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 0\r\n\r\n", "POST / host=e len=0 te=[] err=<nil> "},
		{"none", "DELETE / HTTP/1.1\r\nHost: e\r\n\r\n", "DELETE / host=e len=0 te=[] err=<nil> "},
		{
			"chunked", "POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x\r\nlo\r\n0\r\nX-T: yes\r\n\r\n",
			"POST / host=e len=-1 te=[chunked] err=<nil> hello",
		},
		{
			"big", fmt.Sprintf("PUT / HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n%s", len(big), big),
			fmt.Sprintf("PUT / host=e len=%d te=[] err=<nil> %s", len(big), big),
		},
		{
			"big chunk", fmt.Sprintf("PUT / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(big), big),
			"PUT / host=e len=-1 te=[chunked] err=<nil> " + big,
		},
	}
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		for _, limit := range []int{5000, 1 << 20} { // the bodies do not fit, or they do
			r := newRig(t, mode, httpApp(echoApp))
			r.limit = limit
			c := r.connect()
			in := bufio.NewReader(c)
			for _, tt := range tests {
				go func() { _, _ = c.Write([]byte(tt.request)) }()
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
				body, err := io.ReadAll(res.Body)
				if string(body) != tt.want || err != nil {
					t.Errorf("%s: %d bytes %.80q, %v", tt.name, len(body), body, err)
				}
				if tt.name == "chunked" && (res.Trailer.Get("X-Sum") != "5" || res.Trailer.Get("X-Trailer") != "yes") {
					t.Errorf("trailers %v", res.Trailer)
				}
			}
			if n := r.dialled("10.0.0.1:8080"); n != 1 {
				t.Errorf("%d connections", n)
			}
		}
	})
}

func TestHTTP10(t *testing.T) {
	r := newRig(t, task.Coroutines, httpApp(echoApp))
	c := r.connect()
	if _, err := c.Write([]byte("GET /x HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200 OK\r\n") || strings.Contains(string(all), "chunked") ||
		!strings.Contains(string(all), "Connection: close\r\n") || !strings.HasSuffix(string(all), "\r\n\r\nGET /x host=10.96.0.10:80 len=0 te=[] err=<nil> ") {
		t.Errorf("answered %q, %v", all, err)
	}
}

func TestPipelined(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		r := newRig(t, mode, httpApp(echoApp))
		c := r.connect()
		if _, err := c.Write([]byte(strings.Repeat("POST /p HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\nhi\r\n", 5))); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		for i := range 5 {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("response %d: %v", i, err)
			}
			if body, _ := io.ReadAll(res.Body); !strings.HasSuffix(string(body), " hi") {
				t.Errorf("response %d: %q", i, body)
			}
		}
	})
}

// TestHalfClosed: the client ends its side with the request, and still gets its
// answer.
func TestHalfClosed(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		r := newRig(t, mode, httpApp(echoApp))
		c := r.connect()
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: e\r\n\r\n"))
		_ = c.CloseWrite()
		all, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(string(all), "0\r\nx-sum: 0\r\nx-trailer: \r\n\r\n") {
			t.Errorf("answered %q, %v", all, err)
		}
		if !r.fw.Idle() {
			t.Error("the connection is still known")
		}
	})
}

func TestResponsesWithoutBody(t *testing.T) {
	tests := []struct{ method, answer, want string }{
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"},
		{"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"GET", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\nContent-Length: 7\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\nContent-Length: 7\r\n\r\n"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{
			"GET", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		},
	}
	for _, tt := range tests {
		r := newRig(t, task.Coroutines, scripted(nil, tt.answer))
		c := r.connect()
		for range 2 { // the second shows that the first was understood to its end
			_, _ = c.Write([]byte(tt.method + " / HTTP/1.1\r\nHost: e\r\n\r\n"))
			got := make([]byte, len(tt.want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != tt.want {
				t.Errorf("%s %q: %q, %v", tt.method, tt.answer, got, err)
			}
		}
		if n := r.dialled("10.0.0.1:8080"); n != 1 {
			t.Errorf("%s %q: %d connections", tt.method, tt.answer, n)
		}
	}
}

func TestUntilCloseBecomesChunked(t *testing.T) {
	r := newRig(t, task.Coroutines, func(c *pipeConn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\nall of it"))
		_ = c.CloseWrite()
	})
	c := r.connect()
	res := r.roundTrip(c, bufio.NewReader(c), "GET", "GET / HTTP/1.1\r\nHost: e\r\n\r\n")
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "all of it" || len(res.TransferEncoding) != 1 || res.Close {
		t.Errorf("%q, %v, %v, close %v", body, err, res.TransferEncoding, res.Close)
	}
}

func TestBadRequests(t *testing.T) {
	tests := []struct {
		name, request string
		status        int
		details       string
	}{
		{"garbage", "\x16\x03\x01\x00\r\n\r\n", 400, "http1_malformed_start_line"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, "http1_no_host"},
		{"smuggling", "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "http1_content_length_with_transfer_encoding"},
		{"coding", "POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "http1_unknown_transfer_coding"},
		{"bad path", "GET /%zz HTTP/1.1\r\nHost: e\r\n\r\n", 400, "malformed_path"},
		{"fragment", "GET /#x HTTP/1.1\r\nHost: e\r\n\r\n", 400, "malformed_path"},
		{"connect", "CONNECT e:80 HTTP/1.1\r\nHost: e:80\r\n\r\n", 405, "http1_connect_refused"},
		{"large", "GET / HTTP/1.1\r\nHost: e\r\nA: " + strings.Repeat("x", 61<<10) + "\r\n\r\n", 431, "request_headers_too_large"},
		{"many", "GET / HTTP/1.1\r\nHost: e\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n", 431, "too_many_request_headers"},
		{"bad chunk", "POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n", 400, "malformed_request_body"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, task.Coroutines, httpApp(echoApp))
			r.limit = 256 << 10
			c := r.connect()
			_, _ = c.Write([]byte(tt.request))
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != tt.status || len(body) > 40 || res.Header.Get("Server") != "waypoint" || res.Header.Get("Date") == "" {
				t.Errorf("answered %v %q, want %d", res, body, tt.status)
			}
			if f := r.flows(1)[0]; f.Details != tt.details || f.Status != tt.status || f.Flags == 0 {
				t.Errorf("recorded details %q, status %d, flags %v", f.Details, f.Status, f.Flags)
			}
			if tt.name == "bad path" || tt.name == "fragment" {
				return // the message was understood, the connection lives on
			}
			if !res.Close {
				t.Error("the connection was not said to close")
			}
			if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
				t.Errorf("after it: %q, %v", rest, err)
			}
		})
	}
}

// TestUnreadableIsNotTheLast: a head that is not even parsed has nothing in the
// record of the request before it.
func TestUnreadableIsNotTheLast(t *testing.T) {
	r := newRig(t, task.Coroutines, httpApp(echoApp))
	c := r.connect()
	in := bufio.NewReader(c)
	r.roundTrip(c, in, "HEAD", "HEAD /secret HTTP/1.1\r\nHost: private\r\n\r\n")
	res := r.roundTrip(c, in, "GET", "GET / HTTP/1.1\r\nHost: e\r\nA: "+strings.Repeat("x", 61<<10)+"\r\n\r\n")
	if body, err := io.ReadAll(res.Body); res.StatusCode != 431 || len(body) == 0 || err != nil {
		t.Errorf("answered %v, body %q, %v", res, body, err)
	}
	if f := r.flows(2)[1]; f.Method != "" || f.Path != "" || f.Authority != "10.96.0.10:80" {
		t.Errorf("recorded %q %q of %q", f.Method, f.Path, f.Authority)
	}
}

func TestExpectContinue(t *testing.T) {
	t.Run("passed on", func(t *testing.T) {
		r := newRig(t, task.Coroutines, httpApp(echoApp)) // net/http sends 100 when the body is read
		c := r.connect()
		in := bufio.NewReader(c)
		_, _ = c.Write([]byte("PUT / HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"))
		if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = in.ReadString('\n')
		res := r.roundTrip(c, in, "PUT", "hi")
		if body, _ := io.ReadAll(res.Body); !strings.HasSuffix(string(body), " hi") {
			t.Errorf("answered %q", body)
		}
	})
	t.Run("refused", func(t *testing.T) {
		r := newRig(t, task.Coroutines, scripted(nil, "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"))
		c := r.connect()
		_, _ = c.Write([]byte("PUT / HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"))
		all, err := io.ReadAll(c) // what follows would be ambiguous: the connection ends
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 401 No\r\n") {
			t.Errorf("%q, %v", all, err)
		}
	})
}
