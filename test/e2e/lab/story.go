package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// Patience is how long anything may take that a story waits for.
const Patience = 40 * time.Second

// Story is one test's view of the lab: a namespace of its own, whose name is made
// of the test's, others whose names begin with that and a dash, and a mesh of node proxies that istiod's CA vouches for.
type Story struct {
	*testing.T
	*Lab
	NS   string
	Mesh *meshtest.Mesh

	captured map[string]*meshtest.NodeProxy // by pod IP
}

// NewStory makes the namespace. They all go with the test; should that fail, the logs
// that may tell why are printed.
func NewStory(t *testing.T) *Story {
	t.Helper()
	l := Need(t)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	s := &Story{T: t, Lab: l, NS: name[:min(len(name), 50)], captured: make(map[string]*meshtest.NodeProxy)}
	s.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: NS}")
	t.Cleanup(s.end)
	s.Mesh = meshtest.New(t)
	ca, err := l.istioCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Mesh.CA = ca
	s.Mesh.Trust(ca)
	return s
}

func (s *Story) end() {
	if s.Failed() {
		s.Logf("logs\n%s%s%s", s.Logs(ControllerNamespace), s.Logs(s.NS), s.ComponentLogs("istiod", "minikubelet"))
	}
	ctx := context.Background() // the test's own has ended
	var namespaces corev1.NamespaceList
	if err := s.Client.List(ctx, &namespaces); err != nil {
		s.Error(err)
	}
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		if name != s.NS && !strings.HasPrefix(name, s.NS+"-") {
			continue
		}
		if err := s.Client.Delete(ctx, &namespaces.Items[i]); err != nil {
			s.Error(err)
		}
	}
}

// istioCA is the CA of istiod, which keeps it in a Secret.
func (l *Lab) istioCA(ctx context.Context) (*certs.CA, error) {
	var secret corev1.Secret
	if err := l.Client.Get(ctx, client.ObjectKey{Namespace: "istio-system", Name: "istio-ca-secret"}, &secret); err != nil {
		return nil, err
	}
	return certs.LoadCA(secret.Data["ca-cert.pem"], secret.Data["ca-key.pem"])
}

// Apply applies manifests; NS in them is the story's namespace.
func (s *Story) Apply(manifests string) {
	s.Helper()
	if err := s.Lab.Apply(s.Context(), s.Own(manifests)); err != nil {
		s.Fatal(err)
	}
}

// Own puts the story's namespace in.
func (s *Story) Own(manifests string) string { return strings.ReplaceAll(manifests, "NS", s.NS) }

// Get reads an object of the story's namespace.
func (s *Story) Get(name string, into client.Object) error {
	return s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.NS, Name: name}, into)
}

// Patch merges a patch, as JSON, into an object, as kubectl label and others do; obj
// says of what kind it is.
func (s *Story) Patch(obj client.Object, namespace, name, patch string) {
	s.Helper()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if err := s.Client.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

// Delete deletes an object of the story's namespace.
func (s *Story) Delete(obj client.Object, name string) {
	s.Helper()
	obj.SetNamespace(s.NS)
	obj.SetName(name)
	if err := s.Client.Delete(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// Eventually waits until there is no error.
func (s *Story) Eventually(what string, try func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), Patience)
	defer cancel()
	if err := apiserver.Until(ctx, try); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// Available waits until Deployments of the story's namespace are.
func (s *Story) Available(names ...string) {
	s.Helper()
	for _, name := range names {
		s.Eventually("the pods are ready", func() error { return s.Lab.Available(s.Context(), s.NS, name) })
	}
}

// PodsOf are those of the story's namespace that a selector as kubectl's chooses, none
// that is ending.
func (s *Story) PodsOf(selector string) []corev1.Pod {
	s.Helper()
	return s.podsIn(s.NS, selector)
}

// WaypointPods are those of a Gateway of the story's namespace.
func (s *Story) WaypointPods(gateway string) []corev1.Pod {
	s.Helper()
	return s.PodsOf("gateway.networking.k8s.io/gateway-name=" + gateway)
}

func (s *Story) podsIn(namespace, selector string) []corev1.Pod {
	s.Helper()
	pods, err := s.Pods(s.Context(), namespace, selector)
	if err != nil {
		s.Fatal(err)
	}
	return pods
}

// Programmed waits until a Gateway of the story's namespace is, and istiod tells of
// its pods.
func (s *Story) Programmed(name string) *gatewayv1.Gateway {
	s.Helper()
	g := s.GatewaySays(name, "Programmed True Programmed", "")
	s.Eventually("istiod tells of the waypoint's pods", func() error {
		_, err := s.Directory.endpoint(s.NS+"/"+FullName(name, s.NS), hbonePort)
		return err
	})
	return g
}

// GatewaySays waits until a Gateway of the story's namespace has a condition of its
// present generation: "Type Status Reason", and a part of the message.
func (s *Story) GatewaySays(name, condition, message string) *gatewayv1.Gateway {
	s.Helper()
	g := &gatewayv1.Gateway{}
	s.Eventually(fmt.Sprintf("Gateway %s says %s", name, condition), func() error {
		if err := s.Get(name, g); err != nil {
			return err
		}
		return HasCondition(g.Status.Conditions, g.Generation, condition, message)
	})
	return g
}

// HasCondition compares a condition of a generation with "Type Status Reason" and a
// part of its message.
func HasCondition(conditions []metav1.Condition, generation int64, want, message string) error {
	fields := strings.Fields(want)
	c := meta.FindStatusCondition(conditions, fields[0])
	switch {
	case c == nil:
		return fmt.Errorf("no condition %s: %v", fields[0], conditions)
	case c.ObservedGeneration != generation:
		return errors.New("the condition is of an earlier generation")
	case string(c.Status) != fields[1] || c.Reason != fields[2] || !strings.Contains(c.Message, message):
		return fmt.Errorf("condition %s is %s %s %q, want %s and %q", c.Type, c.Status, c.Reason, c.Message, want, message)
	}
	return nil
}
