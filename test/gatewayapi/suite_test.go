// Package gatewayapi runs the mesh tests of the Gateway API's conformance suite
// against a waypoint in this process: the suite's own tests, as its module has
// them, with their manifests, requests and judgement.
//
//  1. The suite talks to a [cluster], which is the API alone: objects, a few of
//     what a cluster's controllers make of them, and exec.
//  2. Its objects go the way of those of a real API server: through the feed, the
//     translators, discovery and the status writer of the controller, and by delta
//     xDS into a whole waypoint.
//  3. Pods are addresses of the loopback network with applications and a node
//     proxy of package meshtest. To exec "client" in one is to make the requests
//     of a workload of its identity, in tunnels as its ztunnel would open them.
//
// What cannot be seen here is what the real node proxy decides: that a request to
// a Service goes to its waypoint, and one to a pod's address does not (MeshFrontend,
// "Send to pod IP"), is written down in [cluster.hop] and not found out. With a
// real ztunnel and a real istiod the same suite runs in test/meshlab.
//
// The suite looks at little of a request: not at its path or host at the
// application, not at the Location of a redirect, and not at the status of routes.
// That is asserted here beside it.
package gatewayapi

import (
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	meshtests "sigs.k8s.io/gateway-api/conformance/tests/mesh"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// numberOfTests is that of version 1.6.3. Another version is to be read before it
// is trusted.
const numberOfTests = 22

func TestMeshConformance(t *testing.T) {
	tests := meshtests.MeshConformanceTests
	if len(tests) != numberOfTests {
		t.Fatalf("the suite has %d tests, not %d", len(tests), numberOfTests)
	}
	c := newCluster(t)
	s := newSuite(t, c)
	s.Setup(t, tests)
	for _, test := range tests {
		t.Run(test.ShortName, func(t *testing.T) {
			if missing := unsupported(s, test); len(missing) > 0 {
				t.Fatalf("would be skipped for want of %v", missing)
			}
			c.forget()
			t.Cleanup(func() { c.checkUnasked(t, test.ShortName) }) // most of a test's requests are made when Run has returned
			test.Run(t, s)
			c.checkStatuses(t, test.ShortName)
		})
	}
}

// newSuite sets the suite up as test/meshlab does.
func newSuite(t *testing.T, c *cluster) *suite.ConformanceTestSuite {
	t.Helper()
	s, err := suite.NewConformanceTestSuite(suite.ConformanceOptions{
		Client: c, Clientset: c.clientset, RestConfig: c.rest,
		ManifestFS: []fs.FS{manifests(t)},
		ConfigurableOptions: suite.ConfigurableOptions{
			ConformanceProfiles:        []suite.ConformanceProfileName{suite.MeshHTTPConformanceProfileName, suite.MeshGRPCConformanceProfileName},
			EnableAllSupportedFeatures: true,
			ExemptFeatures:             []features.FeatureName{features.SupportGateway, features.SupportReferenceGrant},
			NamespaceLabels:            map[string]string{labelUseWaypoint: gatewayName},
			CleanupTestResources:       true,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// manifests is the folder of the suite in the module cache.
func manifests(t *testing.T) fs.FS {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api/conformance")
	dir, err := cmd.Output()
	if err != nil {
		t.Fatalf("where the suite is: %s: %v", cmd, err)
	}
	return os.DirFS(strings.TrimSpace(string(dir)))
}

func unsupported(s *suite.ConformanceTestSuite, test suite.ConformanceTest) (missing []features.FeatureName) {
	for _, f := range test.Features {
		if !s.SupportedFeatures.Has(f) {
			missing = append(missing, f)
		}
	}
	return missing
}
