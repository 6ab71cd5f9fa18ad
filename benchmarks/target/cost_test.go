package target

import (
	"strings"
	"testing"
)

func TestParseMemStat(t *testing.T) {
	profile := "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 5\n# Mallocs = 12345\n# HeapObjects = 99\n"
	if got, err := parseMemStat(strings.NewReader(profile), "Mallocs"); err != nil || got != 12345 {
		t.Errorf("Mallocs = %v, %v", got, err)
	}
	if _, err := parseMemStat(strings.NewReader(profile), "Frees"); err == nil {
		t.Error("a field that is not there was found")
	}
}

func TestSumRequests(t *testing.T) {
	metrics := `# TYPE istio_requests_total counter
istio_requests_total{response_code="200",path="a b"} 7
istio_requests_total{response_code="403"} 2
envoy_istio_requests_total{x="y"} 1
istio_request_bytes_count{x="y"} 100
`
	if got, err := sumRequests(strings.NewReader(metrics)); err != nil || got != 10 {
		t.Errorf("sum = %v, %v, want 10", got, err)
	}
}

func TestParseVersion(t *testing.T) {
	if got := parseVersion("waypoint v1.2-3\ncommit abc\n"); got != "v1.2-3" {
		t.Errorf("version %q", got)
	}
}
