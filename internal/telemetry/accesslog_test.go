package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

func textLine(f *flow.Flow) string {
	var s scratch
	s.writeText(f)
	return string(s.line)
}

func jsonLine(f *flow.Flow) string {
	var s scratch
	s.writeJSON(f)
	return string(s.line)
}

func TestTextLine(t *testing.T) {
	refused := request()
	refused.Status, refused.Flags, refused.Details, refused.Policy = 403, flow.Unauthorized, "rbac_access_denied_matched_policy[ns bookinfo]", "bookinfo/viewers"
	refused.Destination, refused.Endpoint, refused.UpstreamLocal, refused.UpstreamTime = nil, netip.AddrPort{}, netip.AddrPort{}, 0
	failed := request()
	failed.Status, failed.Flags, failed.UpstreamFailure = 503, flow.UpstreamFailure|flow.RetryLimit, `tls: "bad certificate"`
	passed := connection()
	passed.SNI, passed.Received, passed.Sent, passed.Details = "reviews.example.com", 517, 1<<33, "closed by the client"
	for _, c := range []struct {
		name string
		flow *flow.Flow
		want string
	}{
		{
			"request", request(),
			`[2026-08-22T12:34:56.789Z] "GET /reviews/7?full=1 HTTP/1.1" 200 - via_upstream - "-" 431 2048 12 9 "10.1.0.7" "curl/8.9.1" "3f2a-1" "reviews:9080" "10.1.0.9:9080" inbound-vip|9080|http|reviews.bookinfo.svc.cluster.local 10.1.0.5:50000 10.96.0.20:9080 10.1.0.7:45678 - bookinfo/reviews/0 spiffe://cluster.local/ns/clients/sa/curl 0af7651916cd43dd8448eb211c80319c -`,
		},
		{
			"refused", refused,
			`[2026-08-22T12:34:56.789Z] "GET /reviews/7?full=1 HTTP/1.1" 403 - rbac_access_denied_matched_policy[ns_bookinfo] - "-" 431 2048 12 - "10.1.0.7" "curl/8.9.1" "3f2a-1" "reviews:9080" "-" inbound-vip|9080|http|reviews.bookinfo.svc.cluster.local - 10.96.0.20:9080 10.1.0.7:45678 - bookinfo/reviews/0 spiffe://cluster.local/ns/clients/sa/curl 0af7651916cd43dd8448eb211c80319c bookinfo/viewers`,
		},
		{
			"failed", failed,
			`[2026-08-22T12:34:56.789Z] "GET /reviews/7?full=1 HTTP/1.1" 503 UF,URX via_upstream - "tls: \"bad certificate\"" 431 2048 12 9 "10.1.0.7" "curl/8.9.1" "3f2a-1" "reviews:9080" "10.1.0.9:9080" inbound-vip|9080|http|reviews.bookinfo.svc.cluster.local 10.1.0.5:50000 10.96.0.20:9080 10.1.0.7:45678 - bookinfo/reviews/0 spiffe://cluster.local/ns/clients/sa/curl 0af7651916cd43dd8448eb211c80319c -`,
		},
		{
			"connection", passed,
			`[2026-08-22T12:34:56.789Z] "- - -" 0 - - closed_by_the_client "-" 517 8589934592 12 - "-" "-" "-" "-" "10.1.0.9:9080" inbound-vip|9080|tcp|reviews.bookinfo.svc.cluster.local 10.1.0.5:50000 10.96.0.20:9080 10.1.0.7:45678 reviews.example.com - spiffe://cluster.local/ns/clients/sa/curl - -`,
		},
		{
			"nothing", &flow.Flow{},
			`[0001-01-01T00:00:00.000Z] "- - -" 0 - - - "-" 0 0 0 - "-" "-" "-" "-" "-" - - - - - - - - -`,
		},
	} {
		if diff := cmp.Diff(c.want+"\n", textLine(c.flow)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestJSONLine(t *testing.T) {
	f := request()
	f.Flags, f.UserAgent, f.Retries = flow.UpstreamReset, "a\"b\\c\nd\x00é\u202e\xff", 2
	f.DryRun = []flow.DryRun{{Policy: "bookinfo/stricter"}, {Policy: "bookinfo/other", Allowed: true}}
	want := map[string]any{
		"start_time": "2026-08-22T12:34:56.789Z", "method": "GET", "path": "/reviews/7?full=1", "protocol": "HTTP/1.1",
		"response_code": 200., "response_flags": "UR", "response_code_details": "via_upstream", "connection_termination_details": nil,
		"upstream_transport_failure_reason": nil, "bytes_received": 431., "bytes_sent": 2048., "duration": 12., "upstream_service_time": "9",
		"x_forwarded_for": "10.1.0.7", "user_agent": "a\"b\\c\nd\x00é\u202e\ufffd", "request_id": "3f2a-1", "authority": "reviews:9080",
		"upstream_host": "10.1.0.9:9080", "upstream_cluster": "inbound-vip|9080|http|reviews.bookinfo.svc.cluster.local",
		"upstream_local_address": "10.1.0.5:50000", "downstream_local_address": "10.96.0.20:9080", "downstream_remote_address": "10.1.0.7:45678",
		"requested_server_name": nil, "route_name": "bookinfo/reviews/0",
		"source_principal": "spiffe://cluster.local/ns/clients/sa/curl", "trace_id": "0af7651916cd43dd8448eb211c80319c", "policy": nil,
		"destination_service": "reviews.bookinfo.svc.cluster.local", "source_workload": "curl", "destination_workload": "reviews-v2",
		"grpc_status": nil, "retries": 2., "dry_run": "bookinfo/stricter=denied,bookinfo/other=allowed",
	}
	line := jsonLine(f)
	var got map[string]any
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.ContainsRune(line, '\u202e') {
		t.Errorf("the line turns the direction of text: %q", line)
	}
}

// Whatever a client sends, a line stays a line, with as many fields as it should
// have and nothing in it that acts on a terminal.
func FuzzAccessLog(f *testing.F) {
	f.Add("/a b", "Mozilla\n[2026-01-01] \"GET", "x\" 200", "\x1b[2J")
	f.Add("\xff\xfe", "\u2028\u0085", "\\", "a\u202eb")
	f.Fuzz(func(t *testing.T, path, agent, authority, sni string) {
		r := request()
		r.Path, r.UserAgent, r.Authority, r.SNI, r.RouteName, r.Details, r.UpstreamFailure = path, agent, authority, sni, sni, agent, authority
		r.Policy, r.Target, r.GRPCStatus = path, sni, agent

		text := textLine(r)
		checkLine(t, text)
		if got, want := len(splitFields(t, text)), len(fields)-2; got != want { // method, path and protocol are one
			t.Fatalf("%d fields, want %d: %s", got, want, text)
		}

		line := jsonLine(r)
		checkLine(t, line)
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if want := strings.ToValidUTF8(agent, ""); utf8.ValidString(agent) && want != "" && got["user_agent"] != want {
			t.Fatalf("user_agent %q, want %q", got["user_agent"], want)
		}
	})
}

func checkLine(t *testing.T, line string) {
	body, ok := strings.CutSuffix(line, "\n")
	if !ok || !utf8.ValidString(line) {
		t.Fatalf("not a line of UTF-8: %q", line)
	}
	for _, r := range body {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			t.Fatalf("%U in %q", r, line)
		}
	}
}

// splitFields splits at blanks outside of quotes, as log shippers do.
func splitFields(t *testing.T, line string) (fields []string) {
	rest := strings.TrimSuffix(line, "\n")
	for rest != "" {
		end := strings.IndexByte(rest, ' ')
		if rest[0] == '"' {
			end = 1
			for end < len(rest) && rest[end] != '"' {
				if rest[end] == '\\' {
					end++
				}
				end++
			}
			if end++; end > len(rest) {
				t.Fatalf("a quote does not end in %q", line)
			}
		}
		if end < 0 || end == len(rest) {
			return append(fields, rest)
		}
		if rest[end] != ' ' {
			t.Fatalf("no blank after a quote in %q", line)
		}
		fields, rest = append(fields, rest[:end]), rest[end+1:]
	}
	return fields
}

func newLog(t *testing.T, out io.Writer) *AccessLog {
	t.Helper()
	l, err := NewAccessLog(out, "text")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAccessLog(t *testing.T) {
	var out bytes.Buffer
	l := newLog(t, &out)
	l.Start(request())
	l.Progress(request())
	for range 1000 {
		l.Done(request())
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 1000 {
		t.Errorf("%d lines, want 1000", got)
	}
	if got := l.Stats(); got != (LogStats{Written: 1000}) {
		t.Errorf("%+v, want 1000 written", got)
	}
}

func TestAccessLogWritesByItself(t *testing.T) {
	r, w := io.Pipe()
	l := newLog(t, w)
	l.Done(request())
	line := make([]byte, 4096)
	n, err := r.Read(line)
	if err != nil || !bytes.HasSuffix(line[:n], []byte("\n")) {
		t.Errorf("read %q, %v", line[:n], err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A reader that stands still costs lines and nothing else.
func TestAccessLogDoesNotBlock(t *testing.T) {
	r, w := io.Pipe()
	l := newLog(t, w)
	const n = 20_000 // some 9 MB
	for range n {
		l.Done(request())
	}
	if l.Stats().Dropped == 0 {
		t.Error("nothing was dropped")
	}
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(expired); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v, want that the context ended", err)
	}
	go io.Copy(io.Discard, r)
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if s := l.Stats(); s.Written+s.Dropped != n {
		t.Errorf("%+v: the sum is not %d", s, n)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAccessLogCountsFailedWrites(t *testing.T) {
	l := newLog(t, broken{})
	l.Done(request())
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats(); got != (LogStats{Dropped: 1}) {
		t.Errorf("%+v, want one dropped", got)
	}
}

func TestAccessLogFormats(t *testing.T) {
	if _, err := NewAccessLog(io.Discard, "xml"); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("error %v, want one that names the formats", err)
	}
}

func TestAccessLogDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, format := range []string{"text", "json"} {
		l, err := NewAccessLog(io.Discard, format)
		if err != nil {
			t.Fatal(err)
		}
		f := request()
		f.Flags = flow.UpstreamFailure | flow.RetryLimit
		l.waiting = make([]byte, 0, logBuffer)
		if n := testing.AllocsPerRun(100, func() { l.Done(f) }); n != 0 {
			t.Errorf("%s: %v allocations a line, want 0", format, n)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkAccessLog(b *testing.B) {
	for _, format := range []string{"text", "json"} {
		b.Run("format="+format, func(b *testing.B) {
			l, err := NewAccessLog(io.Discard, format)
			if err != nil {
				b.Fatal(err)
			}
			f := request()
			b.ReportAllocs()
			for b.Loop() {
				l.Done(f)
			}
			if err := l.Close(b.Context()); err != nil {
				b.Log(err)
			}
		})
	}
}
