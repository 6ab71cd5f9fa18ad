package gateway_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func settings() gateway.Settings {
	return gateway.Settings{
		Image: "example.invalid/waypoint:test", Controller: "waypoint-controller.waypoint-system.svc:15012",
		CA: "istiod.istio-system.svc:15012", CARoots: "istio-ca-root-cert", ClusterID: "Kubernetes",
		TrustDomain: "cluster.local", TrustDomainAliases: []string{"old.local", "older.local"}, ClusterDomain: "cluster.local", Roots: "ROOTS\n",
	}
}

// TestGolden renders the Gateway of each input with the ConfigMaps "class" and
// "own" beside it, if they are there.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".yaml"), func(t *testing.T) {
			objects, err := gateway.Render(readInput(t, input))
			if err != nil {
				t.Fatal(err)
			}
			var docs []string
			for _, obj := range objects {
				doc, err := yaml.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				docs = append(docs, string(doc))
			}
			compare(t, strings.TrimSuffix(input, ".yaml")+".golden", strings.Join(docs, "---\n"))
		})
	}
}

func readInput(t *testing.T, path string) gateway.Input {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := gateway.Input{Settings: settings()}
	for doc := range strings.SplitSeq(string(content), "\n---\n") {
		var kind metav1.PartialObjectMetadata
		into := any(&kind)
		unmarshal(t, doc, into)
		if kind.Kind == "Gateway" {
			in.Gateway = &gatewayv1.Gateway{}
			unmarshal(t, doc, in.Gateway)
			continue
		}
		var c corev1.ConfigMap
		unmarshal(t, doc, &c)
		if c.Name == "class" {
			in.Class = c.Data
		} else {
			in.Own = c.Data
		}
	}
	return in
}

func unmarshal(t *testing.T, doc string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", path, got)
	}
}

func TestWhatCannotBeRendered(t *testing.T) {
	named := func(name string) *gatewayv1.Gateway {
		return &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	for name, c := range map[string]struct {
		in   gateway.Input
		want string
	}{
		"a name no Service can have": {
			gateway.Input{Gateway: named("way.point")}, `"way.point" cannot be the name of a Service`,
		},
		"an unknown key": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deploymnet": ""}}, `the key "deploymnet" means nothing here`,
		},
		"no YAML": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deployment": "a: b: c"}}, "deployment: not YAML",
		},
		"a field that is not there": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deployment": "spec: {replica: 3}"}}, `unknown field "spec.replica"`,
		},
		"a wrong type": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"service": "spec: {type: [1]}"}}, "service: ",
		},
		"another name": {
			gateway.Input{Gateway: named("w"), Class: gateway.Overlays{"service": "metadata: {name: other}"}}, "metadata.name is not to be changed",
		},
		"no owner": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"service": "metadata: {ownerReferences: null}"}},
			"metadata.ownerReferences is not to be changed",
		},
		"another selector": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deployment": "spec: {selector: {matchLabels: {a: b}}}"}},
			"spec.selector is not to be changed",
		},
		"the account of another": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deployment": "spec: {template: {spec: {serviceAccountName: admin}}}"}},
			"spec.template.spec.serviceAccountName is not to be changed",
		},
		"the account of another, by its old name": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deployment": "spec: {template: {spec: {serviceAccount: admin}}}"}},
			"spec.template.spec.serviceAccount is not to be changed",
		},
		"a hold on the node": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"deployment": "spec: {template: {spec: {hostNetwork: true, volumes: [{name: v, hostPath: {path: /}}]}}}"}},
			`deployment: host namespaces (hostNetwork=true), hostPath volumes (volume "v")`,
		},
		"a privileged container": {
			gateway.Input{
				Gateway: named("w"), Settings: settings(),
				Own: gateway.Overlays{"deployment": "spec: {template: {spec: {containers: [{name: waypoint, securityContext: {privileged: true}}]}}}"},
			},
			"must not set securityContext.privileged=true",
		},
		"addresses of others": {
			gateway.Input{Gateway: named("w"), Own: gateway.Overlays{"service": "spec: {externalIPs: [192.0.2.1]}"}},
			"spec.externalIPs is not to be changed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := gateway.Render(c.in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// What the administrator says for a class is not held against a Gateway's own
// overlay.
func TestClassMayLeaveBaseline(t *testing.T) {
	_, err := gateway.Render(gateway.Input{
		Gateway:  &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "w"}},
		Settings: settings(),
		Class:    gateway.Overlays{"deployment": "spec: {template: {spec: {hostNetwork: true}}}"},
		Own:      gateway.Overlays{"deployment": "spec: {replicas: 2}"},
	})
	if err != nil {
		t.Error(err)
	}
}

func TestClassOfALongName(t *testing.T) {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "w"}}
	g.Spec.GatewayClassName = gatewayv1.ObjectName(strings.Repeat("c", 64))
	objects, err := gateway.Render(gateway.Input{Gateway: g, Settings: settings()})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		for key, value := range obj.GetLabels() {
			if len(value) > 63 {
				t.Errorf("%s: the label %s=%s is longer than the API allows", obj.GetKind(), key, value)
			}
		}
	}
}
