package docs

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

var (
	yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```")
	heredoc   = regexp.MustCompile(`(?ms)^ *kubectl apply [^\n]*<<Y\n( *)(.*?)^ *Y$`)
)

// TestManifests: manifests in pages are of kinds and fields that there are, and
// overlays in them make a waypoint.
func TestManifests(t *testing.T) {
	scheme, err := feed.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	n := 0
	for _, name := range pages {
		for _, manifest := range manifests(t, read(t, root+"/"+name)) {
			n++
			obj, _, err := strict.Decode(manifest, nil, nil)
			if err != nil {
				t.Errorf("%s: %v in\n%s", name, err, manifest)
			} else if overlay, ok := obj.(*corev1.ConfigMap); ok {
				checkOverlay(t, name, overlay)
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d manifests found: has the form of the pages changed?", n)
	}
}

// manifests are the documents in the blocks of a page that are whole objects.
func manifests(t *testing.T, page string) (all [][]byte) {
	t.Helper()
	var texts []string
	for _, form := range []*regexp.Regexp{yamlBlock, heredoc} {
		for _, block := range form.FindAllStringSubmatch(page, -1) {
			texts = append(texts, strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n"))
		}
	}
	for _, text := range texts {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(document), "kind:") {
				all = append(all, document)
			}
		}
	}
	return all
}

// checkOverlay has a Gateway rendered with it.
func checkOverlay(t *testing.T, page string, overlay *corev1.ConfigMap) {
	t.Helper()
	g := &gatewayv1.Gateway{}
	g.Name, g.Namespace, g.Spec.GatewayClassName = overlay.Name, overlay.Namespace, "waypoint"
	objects, err := gateway.Render(gateway.Input{Gateway: g, Own: overlay.Data})
	if err != nil {
		t.Errorf("%s: ConfigMap %s: %v", page, overlay.Name, err)
		return
	}
	for _, obj := range objects {
		if obj.GetKind() == "Deployment" {
			checkContainers(t, page, obj.Object)
		}
	}
}

// checkContainers: an overlay that names the container otherwise adds one.
func checkContainers(t *testing.T, page string, object map[string]any) {
	t.Helper()
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &d); err != nil {
		t.Fatal(err)
	}
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		t.Errorf("%s: the overlay makes %d containers", page, n)
	}
}
