package l7

import (
	"regexp"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
)

func TestInternalHeader(t *testing.T) {
	for name, want := range map[string]bool{
		"x-envoy-internal": true, "x-envoy-original-path": true, "x-envoy-external-address": false, "x-envoy-attempt-count": false,
		"x_envoy_internal": true, "x-envoy_retry-on": true, "x_forwarded-for": true, "x_request_id": true, "content_length": true, "transfer_encoding": true,
		"x_envoy_upstream_rq_per_try_timeout_ms_and_more": true,
		"x-forwarded-for": false, "x-request-id": false, "x_app": false, "grpc_x": false, "envoy": false,
	} {
		if got := internalHeader(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRequestID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	var e exchange
	seen := map[string]bool{}
	for range 100 {
		id := e.newRequestID()
		if !form.MatchString(id) || seen[id] {
			t.Errorf("%q", id)
		}
		seen[id] = true
	}
}

func TestCookieCrumbs(t *testing.T) {
	var h h1.Header
	var a arena
	fromH2(&h, []h2.Field{{Name: "cookie", Value: "a=b"}, {Name: "x", Value: "1"}, {Name: "cookie", Value: "c=d"}, {Name: "te", Value: "trailers"}}, &a,
		func(f h2.Field) bool { return f.Name == "te" })
	if got := string(h1.AppendHeader(nil, &h)); got != "cookie: a=b; c=d\r\nx: 1\r\n" {
		t.Errorf("%q", got)
	}
}

func TestGRPCTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1S": time.Second, "20m": 20 * time.Millisecond, "3u": 3 * time.Microsecond, "4n": 4, "2M": 2 * time.Minute, "1H": time.Hour,
		"99999999H": 1<<63 - 1, "0S": 0,
	} {
		if got, ok := grpcTimeout(value); !ok || got != want {
			t.Errorf("%q: %v, %v", value, got, ok)
		}
	}
	for _, value := range []string{"", "1", "S", "1s", "-1S", "+1S", "1.5S", "123456789S", "1 S"} {
		if got, ok := grpcTimeout(value); ok {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestGRPCCounter(t *testing.T) {
	body := []byte{0, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 1, 0, 0, 1, 0}
	body = append(body, make([]byte, 256)...)
	for size := 1; size <= len(body); size++ {
		var c grpcCounter
		for p := body; len(p) > 0; {
			n := min(size, len(p))
			c.count(p[:n])
			p = p[n:]
		}
		if c.messages != 3 || c.left != 0 || c.have != 0 {
			t.Errorf("in pieces of %d: %+v", size, c)
		}
	}
}
