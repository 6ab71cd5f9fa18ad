package l7

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

const get = "GET / HTTP/1.1\r\nHost: e\r\n\r\n"

// ok is a response that scripted applications give.
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// rude reads a request head and then does what it is told instead of answering.
func rude(do func(c *pipeConn)) func(*pipeConn) {
	return func(c *pipeConn) {
		in := bufio.NewReader(c)
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				return
			}
		}
		do(c)
	}
}

func TestFailures(t *testing.T) {
	closes := rude(func(c *pipeConn) { _ = c.CloseWrite() })
	tests := []struct {
		name    string
		app     func(*pipeConn)
		request string
		status  int
		flags   flow.Flags
		details string
	}{
		{"refused", nil, get, 503, flow.UpstreamFailure | flow.RetryLimit, "upstream_connection_failure"},
		{"closed", closes, get, 503, flow.UpstreamClosed, "upstream_reset_before_response_started{connection_termination}"},
		{"reset", rude(func(c *pipeConn) { _ = c.Close() }), get, 503, flow.UpstreamClosed, "upstream_reset_before_response_started{connection_termination}"},
		{"garbage", scripted(nil, "SSH-2.0-x\r\n\r\n"), get, 502, flow.UpstreamProtocolError, "upstream_reset_before_response_started{protocol_error}"},
		{"smuggling", scripted(nil, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), get, 502, flow.UpstreamProtocolError, "upstream_reset_before_response_started{protocol_error}"},
		{"switch", scripted(nil, "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), get, 502, flow.UpstreamProtocolError, "upstream_reset_before_response_started{protocol_error}"},
		{"large", scripted(nil, "HTTP/1.1 200 OK\r\nA: "+strings.Repeat("x", 65<<10)+"\r\n\r\n"), get, 502, flow.UpstreamProtocolError | flow.ResponseTooLarge, "response_headers_too_large"},
		{"gRPC", nil, "POST /a.B/C HTTP/1.1\r\nHost: e\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n", 200, flow.UpstreamFailure | flow.RetryLimit, "upstream_connection_failure"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, task.Coroutines, tt.app)
			c := r.connect()
			in := bufio.NewReader(c)
			for range 2 { // the client's connection lives on
				res := r.roundTrip(c, in, "GET", tt.request)
				_, _ = io.Copy(io.Discard, res.Body)
				if res.StatusCode != tt.status || res.Close {
					t.Errorf("answered %v", res)
				}
				if tt.name == "gRPC" && (res.Header.Get("Grpc-Status") != "14" || res.Header.Get("Content-Type") != "application/grpc") {
					t.Errorf("answered %v", res.Header)
				}
			}
			for _, f := range r.flows(2) {
				if f.Flags != tt.flags || f.Details != tt.details {
					t.Errorf("recorded flags %v, details %q", f.Flags, f.Details)
				}
			}
			r.landed()
		})
	}
}

// TestWrongVersion: an endpoint that does not speak the declared version of HTTP
// broke the protocol, and the record says which it speaks.
func TestWrongVersion(t *testing.T) {
	for _, tt := range []struct {
		name     string
		protocol mesh.Protocol
		answer   string
		reason   string
	}{
		{"HTTP/1.1 instead of 2", mesh.HTTP2, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "the server speaks HTTP/1.1, not HTTP/2"},
		{"neither", mesh.HTTP2, "SSH-2.0-x\r\n\r\n", "FRAME_SIZE_ERROR"},
		{"HTTP/2 instead of 1.1", mesh.HTTP1, "\x00\x00\x00\x04\x00\x00\x00\x00\x00\r\n\r\n", "HTTP/1 message refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, task.Coroutines, scripted(nil, tt.answer))
			r.port.Protocol = tt.protocol
			c := r.connect()
			if res := r.roundTrip(c, bufio.NewReader(c), "GET", get); res.StatusCode != 502 {
				t.Errorf("answered %v", res)
			}
			f := r.flows(1)[0]
			if f.Flags != flow.UpstreamProtocolError || f.Details != "upstream_reset_before_response_started{protocol_error}" || !strings.Contains(f.UpstreamFailure, tt.reason) {
				t.Errorf("recorded %v %q %q", f.Flags, f.Details, f.UpstreamFailure)
			}
		})
	}
}

func TestNoEndpoint(t *testing.T) {
	r := newRig(t, task.Coroutines, nil)
	r.port.Endpoints = nil
	c := r.connect()
	if res := r.roundTrip(c, bufio.NewReader(c), "GET", get); res.StatusCode != 503 {
		t.Errorf("answered %v", res)
	}
	if f := r.flows(1)[0]; f.Flags != flow.NoHealthyUpstream || f.Details != "no_healthy_upstream" {
		t.Errorf("recorded %v %q", f.Flags, f.Details)
	}
}

// TestTruncated: what the endpoint broke off must not look complete downstream.
func TestTruncated(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\npart",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, task.Coroutines, rude(func(c *pipeConn) {
				_, _ = c.Write([]byte(answer))
				_ = c.CloseWrite()
			}))
			c := r.connect()
			res := r.roundTrip(c, bufio.NewReader(c), "GET", get)
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("a complete body: %q", body)
			}
			if f := r.flows(1)[0]; f.Status != 200 || f.Flags != flow.UpstreamClosed {
				t.Errorf("recorded status %d, flags %v", f.Status, f.Flags)
			}
		})
	}
}

func TestClientGoes(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		aborted := make(chan error, 1)
		r := newRig(t, mode, rude(func(c *pipeConn) {
			_, err := c.Read(make([]byte, 1))
			aborted <- err
		}))
		c := r.connect()
		_, _ = c.Write([]byte(get))
		for r.dialled("10.0.0.1:8080") == 0 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // there is no event to wait for
		}
		c.sched.Turn(func(b *task.Batch) { c.Abort(b, io.ErrClosedPipe) })
		if err := <-aborted; err == nil || err == io.EOF {
			t.Errorf("the application saw %v, want a reset", err)
		}
		if f := r.flows(1)[0]; f.Flags != flow.DownstreamClosed || f.Status != 0 {
			t.Errorf("recorded flags %v, status %d", f.Flags, f.Status)
		}
	})
}

func TestDeadEndpointIsAvoided(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode task.Mode) {
		r := newRig(t, mode, scripted(nil, ok))
		r.addEndpoint("10.0.0.2:8080", nil)
		c := r.connect()
		in := bufio.NewReader(c)
		for i := range 50 {
			res := r.roundTrip(c, in, "POST", "POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 0\r\n\r\n")
			if _, _ = io.Copy(io.Discard, res.Body); res.StatusCode != 200 {
				t.Fatalf("request %d: %v", i, res)
			}
		}
		if r.dialled("10.0.0.2:8080") == 0 {
			t.Error("the dead endpoint was never tried")
		}
	})
}

// closesAfter answers n requests of a connection, then ends it when another comes.
func closesAfter(n int, seen chan<- string) func(*pipeConn) {
	return func(c *pipeConn) {
		for i := 0; ; i++ {
			rude(func(c *pipeConn) {
				if i == n {
					_ = c.CloseWrite()
					return
				}
				seen <- "request"
				_, _ = c.Write([]byte(ok))
			})(c)
			if i == n {
				return
			}
		}
	}
}

func TestStaleConnection(t *testing.T) {
	seen := make(chan string, 10)
	r := newRig(t, task.Coroutines, closesAfter(1, seen))
	c := r.connect()
	in := bufio.NewReader(c)
	for i, tt := range []struct {
		request string
		status  int
	}{
		{get, 200}, {get, 200}, {get, 200}, // the second finds the connection stale
		{"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\nhi", 503},
	} {
		res := r.roundTrip(c, in, "", tt.request)
		if _, _ = io.Copy(io.Discard, res.Body); res.StatusCode != tt.status {
			t.Errorf("request %d: %v, want %d", i, res.Status, tt.status)
		}
	}
	if f := r.flows(2)[1]; f.Retries != 1 || f.Flags != 0 {
		t.Errorf("recorded %d retries, flags %v", f.Retries, f.Flags)
	}
	if len(seen) != 3 {
		t.Errorf("%d requests were served", len(seen))
	}
}

// TestIdleConnectionThatEnds is dropped when it ends, not when it is needed.
func TestIdleConnectionThatEnds(t *testing.T) {
	ended := make(chan bool)
	r := newRig(t, task.Coroutines, func(c *pipeConn) {
		rude(func(c *pipeConn) { _, _ = c.Write([]byte(ok)) })(c)
		<-ended
		_ = c.CloseWrite()
		ended <- true
	})
	c := r.connect()
	in := bufio.NewReader(c)
	r.roundTrip(c, in, "GET", get)
	r.flows(1)
	if n := r.fw.idle.Len(); n != 1 {
		t.Fatalf("%d idle connections", n)
	}
	ended <- true
	<-ended
	if n := r.fw.idle.Len(); n != 0 {
		t.Errorf("%d idle connections", n)
	}
}

func TestRetryOfGRPCThatWasNotTaken(t *testing.T) {
	tests := []struct {
		name    string
		status  string // grpc-status of the first answers
		trailer bool   // behind a message, not instead of one
		fails   int
		want    string
		retries int
	}{
		{"UNAVAILABLE", "14", false, 2, "0", 2},
		{"CANCELLED", "1", false, 1, "0", 1},
		{"UNAVAILABLE for long", "14", false, 9, "14", 2},
		{"UNAVAILABLE behind a message", "14", true, 9, "14", 0},
		{"INTERNAL", "13", false, 9, "13", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			r := newRig(t, task.Coroutines, httpApp(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				code := "0"
				if calls++; calls <= tt.fails {
					code = tt.status
				}
				if !tt.trailer {
					w.Header().Set("Grpc-Status", code)
					return
				}
				w.Header().Set("Trailer", "Grpc-Status")
				_, _ = w.Write([]byte{0, 0, 0, 0, 0})
				w.Header().Set("Grpc-Status", code)
			}))
			r.route(forward())
			c := r.connect()
			r.roundTrip(c, bufio.NewReader(c), "POST",
				"POST /a.B/C HTTP/1.1\r\nHost: e\r\nTE: trailers\r\nContent-Type: application/grpc\r\nContent-Length: 5\r\n\r\n\x00\x00\x00\x00\x00")
			f := r.flows(1)[0]
			if f.GRPCStatus != tt.want || f.Retries != tt.retries || calls != tt.retries+1 {
				t.Errorf("status %s after %d calls, %d retries recorded", f.GRPCStatus, calls, f.Retries)
			}
		})
	}
}

func TestRetryByRoute(t *testing.T) {
	body := strings.Repeat("x", 3000)
	tests := []struct {
		name     string
		length   int
		failures int
		attempts int
		status   int
		retries  int
	}{
		{"until it works", 0, 2, 3, 200, 2},
		{"with its body", len(body), 2, 3, 200, 2},
		{"until it is enough", 10, 9, 2, 503, 2},
		{"not when the body is too long", 100_000, 1, 2, 503, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			r := newRig(t, task.Coroutines, httpApp(func(w http.ResponseWriter, q *http.Request) {
				got, err := io.ReadAll(q.Body)
				if err != nil || len(got) != tt.length {
					t.Errorf("attempt %d has %d bytes, %v", calls, len(got), err)
				}
				if calls++; calls <= tt.failures {
					w.WriteHeader(503)
				}
			}))
			rule := forward()
			rule.Retry = &route.Retry{Attempts: tt.attempts, Backoff: time.Millisecond, Codes: []int{503}}
			r.route(rule)
			c := r.connect()
			res := r.roundTrip(c, bufio.NewReader(c), "POST",
				fmt.Sprintf("POST / HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n%s", tt.length, strings.Repeat("x", tt.length)))
			if res.StatusCode != tt.status {
				t.Errorf("answered %v", res)
			}
			if f := r.flows(1)[0]; f.Retries != tt.retries {
				t.Errorf("%d retries", f.Retries)
			}
			if n := r.dialled("10.0.0.1:8080"); n != 1 {
				t.Errorf("%d connections: one that has answered can be used again", n)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	never := rude(func(*pipeConn) {})
	tests := []struct {
		name     string
		timeouts route.Timeouts
		retry    *route.Retry
		header   string
		details  string
		retries  int
	}{
		{"request", route.Timeouts{Request: 20 * time.Millisecond}, nil, "", "response_timeout", 0},
		{"attempt", route.Timeouts{BackendRequest: 20 * time.Millisecond}, nil, "", "upstream_per_try_timeout", 0},
		{"attempts", route.Timeouts{BackendRequest: 10 * time.Millisecond}, &route.Retry{Attempts: 2, Backoff: time.Millisecond}, "", "upstream_per_try_timeout", 2},
		{"gRPC's", route.Timeouts{Request: time.Hour}, nil, "Grpc-Timeout: 20m\r\n", "response_timeout", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, task.Coroutines, never)
			rule := forward()
			rule.Timeouts, rule.Retry = tt.timeouts, tt.retry
			r.route(rule)
			c := r.connect()
			res := r.roundTrip(c, bufio.NewReader(c), "GET", "GET / HTTP/1.1\r\nHost: e\r\n"+tt.header+"\r\n")
			if res.StatusCode != 504 {
				t.Errorf("answered %v", res)
			}
			if f := r.flows(1)[0]; f.Details != tt.details || f.Flags&flow.UpstreamTimeout == 0 || f.Retries != tt.retries {
				t.Errorf("recorded %q, %v, %d retries", f.Details, f.Flags, f.Retries)
			}
		})
	}
}

func TestTimeoutInMidResponse(t *testing.T) {
	r := newRig(t, task.Coroutines, rude(func(c *pipeConn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) }))
	rule := forward()
	rule.Timeouts.Request = 20 * time.Millisecond
	r.route(rule)
	c := r.connect()
	res := r.roundTrip(c, bufio.NewReader(c), "GET", get)
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("a complete body: %q", body)
	}
	if f := r.flows(1)[0]; f.Flags != flow.UpstreamTimeout || f.Status != 200 {
		t.Errorf("recorded %v, %d", f.Flags, f.Status)
	}
}
