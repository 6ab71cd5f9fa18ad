package conformance

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// TestMemoryOfTunnels measures what --max-connections counts on under a memory
// limit (internal/app): tunnels with a hundred idle HTTP connections each, every
// one of which has had a request.
func TestMemoryOfTunnels(t *testing.T) {
	const tunnels, streams, bound = 100, 100, 256 << 10
	m := newMesh(t, gateway+service("old", 21, 8080, "http"))
	m.HTTP("old", m.Addr(21, 8080)).Handle(func(x *meshtest.Exchange) { x.Reply(200, "hello") })
	m.node("old", 21)
	before := m.run.resident()
	client := m.Client(clientID)
	for range tunnels {
		tunnel, err := client.Tunnel(t.Context(), m.waypoint())
		if err != nil {
			t.Fatal(err)
		}
		for range streams {
			stream, err := tunnel.Connect(t.Context(), vip(21, 8080))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(stream, "GET / HTTP/1.1\r\nHost: old\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(stream), nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", resp, err)
			}
		}
	}
	each := (m.run.resident() - before) / tunnels
	t.Logf("%d KiB a tunnel", each>>10)
	if each > bound {
		t.Errorf("a tunnel with %d idle HTTP connections costs %d bytes, expected at most %d", streams, each, bound)
	}
}

// resident is the memory of the process in bytes.
func (p *process) resident() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skipf("no /proc to measure memory by: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				p.t.Fatal(err)
			}
			return kib << 10
		}
	}
	p.t.Fatal("/proc does not say how much memory the process has")
	return 0
}
