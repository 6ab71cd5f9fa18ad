package gatewayapi

import (
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	meshtests "sigs.k8s.io/gateway-api/conformance/tests/mesh"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// Names of the suite, and of the waypoint that its namespaces are to use.
const (
	Namespace         = suite.MeshNamespace
	ConsumerNamespace = suite.MeshConsumerNamespace
	Waypoint          = "waypoint"
)

const labelUseWaypoint = "istio.io/use-waypoint"

// NumberOfTests is that of version 1.6.3. Another version is to be read before it
// is trusted.
const NumberOfTests = 22

// Mesh is what the suite runs against. There has to be a Gateway [Waypoint] in
// [Namespace].
type Mesh struct {
	// API has every object. Its scheme is that of [NewScheme].
	API client.Client
	// Dial connects from a pod to host:port. The host is that of a Service, as a pod
	// of its namespace would have it looked up, or the address of a pod.
	Dial func(ctx context.Context, from *corev1.Pod, target string) (net.Conn, error)
	// Ready, if not nil, is called once, when the suite's pods are ready.
	Ready func()
}

// runner is one run of the suite.
type runner struct {
	Mesh
	t *testing.T

	mu   sync.Mutex // guards seen
	seen []exchange
}

// Run runs each test of the suite as a subtest.
func Run(t *testing.T, m Mesh) {
	t.Helper()
	tests := meshtests.MeshConformanceTests
	if len(tests) != NumberOfTests {
		t.Fatalf("the suite has %d tests, not %d", len(tests), NumberOfTests)
	}
	r := &runner{Mesh: m, t: t}
	s := r.newSuite()
	s.Setup(t, tests)
	if m.Ready != nil {
		m.Ready()
	}
	for _, test := range tests {
		t.Run(test.ShortName, func(t *testing.T) {
			if missing := unsupported(s, test); len(missing) > 0 {
				t.Fatalf("would be skipped for want of %v", missing)
			}
			r.forget()
			t.Cleanup(func() { r.checkUnasked(t, test.ShortName) }) // most of a test's requests are made when its Run has returned
			test.Run(t, s)
			r.checkStatuses(t, test.ShortName)
		})
	}
}

// newSuite sets the suite up as test/meshlab does.
func (r *runner) newSuite() *suite.ConformanceTestSuite {
	r.t.Helper()
	rest := r.serveExec()
	clientset, err := kubernetes.NewForConfig(rest)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := suite.NewConformanceTestSuite(suite.ConformanceOptions{
		Client: r.API, Clientset: clientset, RestConfig: rest,
		ManifestFS: []fs.FS{manifests(r.t)},
		ConfigurableOptions: suite.ConfigurableOptions{
			ConformanceProfiles:        []suite.ConformanceProfileName{suite.MeshHTTPConformanceProfileName, suite.MeshGRPCConformanceProfileName},
			EnableAllSupportedFeatures: true,
			ExemptFeatures:             []features.FeatureName{features.SupportGateway, features.SupportReferenceGrant},
			NamespaceLabels:            map[string]string{labelUseWaypoint: Waypoint},
			CleanupTestResources:       true,
			AllowCRDsMismatch:          true, // the suite is built with the version of the API that we are built with
		},
	})
	if err != nil {
		r.t.Fatal(err)
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
