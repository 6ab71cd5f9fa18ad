package charts

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestLint holds the chart to helm's own rules, with each of the values that there
// are golden files for.
func TestLint(t *testing.T) {
	for _, values := range valueFiles(t) {
		if out, err := helm(t, "lint", "--strict", chart, "--values="+values); err != nil {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

func TestGolden(t *testing.T) {
	for _, values := range valueFiles(t) {
		golden := strings.TrimSuffix(values, ".values.yaml") + ".golden.yaml"
		compare(t, golden, render(t, "--values="+values), "make charts CHARTFLAGS=-update")
	}
}

func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata: %v", err)
	}
	return files
}

const manifestsHead = `# The controller, for ` + "`kubectl apply --server-side -f`" + `. Put your images in: the one of the controller, and the one that
# waypoints run (--waypoint-image). It needs the CRDs of the Gateway API, and istiod beside it.
# Made from deployments/chart by ` + "`make manifests`" + `; change that.
`

// TestManifests: who has no Helm gets the same.
func TestManifests(t *testing.T) {
	rendered := render(t, "--set=image.registry=example.invalid,createNamespace=true")
	compare(t, "../../deployments/manifests/waypoint-controller.yaml", manifestsHead+rendered, "make manifests")
}

func TestWrongValues(t *testing.T) {
	const registry = "image.registry=example.invalid"
	for name, c := range map[string]struct{ set, want string }{
		"no registry":        {"controller.replicas=2", "image.registry is needed"},
		"a tag in it":        {"image.registry=example.invalid/waypoint:dev", "/image/registry"},
		"unknown":            {registry + ",controler.replicas=2", "controler"},
		"unknown below":      {registry + ",controller.replica=2", "replica"},
		"no replica":         {registry + ",controller.replicas=0", "/controller/replicas"},
		"no log level":       {registry + ",controller.logLevel=verbose", "/controller/logLevel"},
		"a CA without port":  {registry + ",mesh.ca.address=istiod.istio-system.svc", "/mesh/ca/address"},
		"an overlay of none": {registry + ",gatewayClass.overlays.daemonSet.spec=x", "daemonSet"},
		"a short digest":     {registry + ",image.digests.waypoint=sha256:1234", "/image/digests/waypoint"},
		"a long timeout":     {registry + ",webhook.timeoutSeconds=60", "/webhook/timeoutSeconds"},
	} {
		out, err := helm(t, "template", "waypoint", chart, "--set="+c.set)
		if err == nil || !strings.Contains(strings.ReplaceAll(out, ".", "/"), strings.ReplaceAll(c.want, ".", "/")) {
			t.Errorf("%s: want a refusal that names %s, got %v\n%s", name, c.want, err, out)
		}
	}
}
