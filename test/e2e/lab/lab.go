package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// ControllerNamespace is that of deployments/manifests.
const ControllerNamespace = "waypoint-system"

// Lab is the cluster.
type Lab struct {
	// Config reaches the API server as cluster-admin, and so does Client, which
	// keeps no cache. Kubeconfig is the file of it, for kubectl.
	Config     *rest.Config
	Client     client.Client
	Kubeconfig string
	// Directory is what istiod tells ztunnels.
	Directory *Directory

	dir string
}

var theLab = sync.OnceValues(start)

// Need returns the lab of this program, which all its tests share. Where there
// can be none the test is skipped.
func Need(t *testing.T) *Lab {
	t.Helper()
	if reason := missing(); reason != "" {
		t.Skip(reason)
	}
	if os.Getenv(nameVariable) == "" {
		t.Fatal("TestMain of the package does not call lab.Main")
	}
	l, err := theLab()
	if err != nil {
		t.Fatalf("the lab does not come up: %v", err)
	}
	return l
}

// start brings up everything. A minute is ten times what it takes.
func start() (*Lab, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	l := &Lab{dir: os.Getenv(dirVariable)}
	l.Kubeconfig = filepath.Join(l.dir, "admin.kubeconfig")
	if err := l.script(ctx, "up"); err != nil {
		return nil, err
	}
	if err := l.connect(); err != nil {
		return nil, err
	}
	manifests, err := os.ReadFile(filepath.Join(repository(), "deployments/manifests/waypoint-controller.yaml"))
	if err != nil {
		return nil, err
	}
	if err := l.Apply(ctx, string(manifests)); err != nil {
		return nil, err
	}
	if l.Directory, err = newDirectory(filepath.Join(os.Getenv("WAYPOINT_E2E_BIN"), "wds")); err != nil {
		return nil, err
	}
	err = apiserver.Until(ctx, func() error { return l.Available(ctx, ControllerNamespace, "waypoint-controller") })
	if err != nil {
		return nil, fmt.Errorf("the controller: %w\n%s", err, l.Logs(ControllerNamespace))
	}
	return l, nil
}

// script runs a command of test/meshlab/lab.sh.
func (l *Lab) script(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "bash", append([]string{script()}, args...)...)
	cmd.Env = scriptEnvironment(os.Environ())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("lab.sh %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Suite runs the Gateway API's conformance suite for meshes as a program of its own,
// and returns its log. The error is that a test failed.
func (l *Lab) Suite(ctx context.Context) (log string, err error) {
	err = l.script(ctx, "suite")
	content, failed := os.ReadFile(filepath.Join(l.dir, "suite.log"))
	return string(content), errors.Join(err, failed)
}

// Stop ends a component as its node would: etcd, apiserver, kcm, minikubelet, istiod.
func (l *Lab) Stop(ctx context.Context, component string) error {
	return l.script(ctx, "stop", component)
}

// Start starts it again, and returns when it is ready.
func (l *Lab) Start(ctx context.Context, component string) error {
	return l.script(ctx, "start", component)
}

func (l *Lab) connect() (err error) {
	log.SetLogger(logr.Discard()) // else it complains of having none
	if l.Config, err = clientcmd.BuildConfigFromFlags("", l.Kubeconfig); err != nil {
		return err
	}
	l.Config.QPS = -1
	scheme, err := feed.NewScheme()
	if err != nil {
		return err
	}
	l.Client, err = client.New(l.Config, client.Options{Scheme: scheme})
	return err
}

// Apply applies manifests as kubectl apply --server-side does.
func (l *Lab) Apply(ctx context.Context, manifests string) error {
	reader := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := reader.Decode(obj); err != nil {
			if strings.Contains(err.Error(), "EOF") {
				return nil
			}
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		err := l.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("kubectl"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// Available fails unless a Deployment is as its specification wants it, with the
// pods of this specification alone.
func (l *Lab) Available(ctx context.Context, namespace, name string) error {
	var d appsv1.Deployment
	if err := l.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
		return err
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration != d.Generation || s.AvailableReplicas != want || s.UpdatedReplicas != want || s.Replicas != want {
		return fmt.Errorf("deployment %s/%s: %d of %d pods are available, %d are old", namespace, name, s.AvailableReplicas, want, s.Replicas-s.UpdatedReplicas)
	}
	return nil
}

// Pods are those of a namespace that a selector as kubectl's chooses, none that is
// ending.
func (l *Lab) Pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := l.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: parsed}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// Logs are the last lines of each pod that a namespace has or had.
func (l *Lab) Logs(namespace string) string {
	files, err := filepath.Glob(filepath.Join(l.dir, "node/pods", namespace+"_*", "*.log"))
	if err != nil {
		return err.Error()
	}
	return tails(files)
}

// ComponentLogs are the last lines of etcd, istiod and the others.
func (l *Lab) ComponentLogs(names ...string) string {
	var files []string
	for _, name := range names {
		files = append(files, filepath.Join(l.dir, "logs", name+".log"))
	}
	return tails(files)
}

func tails(files []string) string {
	const lines = 40
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			content = []byte(err.Error())
		}
		list := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&all, "--- %s\n%s\n", file, strings.Join(list[max(0, len(list)-lines):], "\n"))
	}
	return all.String()
}
