package conformance

import (
	"encoding/xml"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// exempt are the cases of h2spec that the waypoint does not pass by design, each
// with the reason.
var exempt = map[string]string{
	"http2/3.5: Sends invalid connection preface": "a port of the mesh takes HTTP/1.1 as well, in which these bytes are a bad request: " +
		"they are answered with 400 in HTTP/1.1, which h2spec cannot read, and the connection is closed as it expects",
}

// TestH2spec runs every case of h2spec against an h2c service in the mesh: client,
// tunnel, waypoint, the tunnel to the node proxy, application. What it talks to is
// the waypoint's HTTP/2 server inside of the client's stream. (internal/h2 runs the
// same against that server alone, without exemptions.)
func TestH2spec(t *testing.T) {
	h2spec := os.Getenv("H2SPEC")
	if h2spec == "" {
		t.Skip("`make conformance` runs this: H2SPEC names the h2spec program")
	}
	m := newMesh(t, gateway+service("echo", 21, 8080, "kubernetes.io/h2c"))
	m.H2C("echo", m.Addr(21, 8080))
	m.node("echo", 21)
	host, port, err := net.SplitHostPort(m.tunnel(101, 8080, vip(21, 8080)))
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	out, err := exec.CommandContext(t.Context(), h2spec, "-h", host, "-p", port, "--strict", "-j", report).CombinedOutput()
	cases := readReport(t, report)
	if len(cases) < 140 {
		t.Fatalf("h2spec ran %d cases only: %v\n%s", len(cases), err, out)
	}
	failed := 0
	for name, failure := range cases {
		if failure != "" {
			failed++
		}
		switch reason := exempt[name]; {
		case failure == "" && reason != "":
			t.Errorf("%s passes: it needs no exemption any more", name)
		case failure != "" && reason != "":
			t.Logf("%s is exempt: %s", name, reason)
		case failure != "":
			t.Errorf("%s\n%s", name, failure)
		}
	}
	if (failed == 0) != (err == nil) {
		t.Errorf("the report has %d failures, but h2spec ended with: %v\n%s", failed, err, out)
	}
	t.Logf("%d cases", len(cases))
}

// readReport returns what h2spec says of each case, empty for a passed one.
func readReport(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Cases []struct {
			Package string `xml:"package,attr"`
			Title   string `xml:"classname,attr"`
			Failure string `xml:"failure"`
			Error   string `xml:"error"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	cases := make(map[string]string)
	for _, c := range report.Cases {
		cases[c.Package+": "+c.Title] = c.Failure + c.Error
	}
	return cases
}
