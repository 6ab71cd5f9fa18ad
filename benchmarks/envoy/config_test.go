package envoy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

func config(t *testing.T) (Config, string) {
	t.Helper()
	c := Config{
		Certs: t.TempDir(), Bind: "127.0.0.1", Port: 1, Admin: 2, Pod: "127.0.0.2",
		Client: "spiffe://cluster.local/ns/default/sa/client", Policies: 3, Routes: 5, Services: 20,
	}
	var out strings.Builder
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	return c, out.String()
}

func TestConfigHasWhatWasAskedFor(t *testing.T) {
	_, text := config(t)
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]int{
		"x-tenant": 5, `address_prefix: "10.1.`: 20, `alt_stat_name: "inbound-vip|8080|http|svc`: 20,
		`exact: "spiffe://cluster.local/ns/team0/sa/app"`: 21, // the service that is called, and each further one
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%d of %q, want %d", got, part, want)
		}
	}
}

// TestEnvoyTakesIt asks Envoy itself, where it is installed.
func TestEnvoyTakesIt(t *testing.T) {
	path, err := find(filepath.Join("../../.cache", "envoy-"+Version))
	if err != nil {
		t.Skipf("Envoy is not installed (`make bench` does it): %v", err)
	}
	c, text := config(t)
	if err := certs.WriteDir(c.Certs, identity.ID{TrustDomain: "cluster.local", Namespace: "a", ServiceAccount: "b"}, 1e12); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--mode", "validate", "-c", file, "--disable-hot-restart", "-l", "error")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
