package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

const patience = 30 * time.Second

// story is one test's view of the world: a namespace of its own.
type story struct {
	*testing.T
	*world
	ns string
}

func newStory(t *testing.T) *story {
	t.Helper()
	w := needWorld(t)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	s := &story{t, w, name[:min(len(name), 60)]}
	s.Apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + s.ns + "}")
	return s
}

// Apply applies manifests; NS in them is the story's namespace.
func (s *story) Apply(manifests string) {
	s.Helper()
	if err := s.server.Apply(s.Context(), strings.ReplaceAll(manifests, "NS", s.ns)); err != nil {
		s.Fatal(err)
	}
}

// Delete deletes an object of the story's namespace.
func (s *story) Delete(obj client.Object, name string) {
	s.Helper()
	obj.SetNamespace(s.ns)
	obj.SetName(name)
	if err := s.server.Client.Delete(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// Get reads an object of the story's namespace.
func (s *story) Get(name string, into client.Object) error {
	return s.server.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, into)
}

// Eventually waits until there is no error.
func (s *story) Eventually(what string, try func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := apiserver.Until(ctx, try); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// expect compares a condition with "Type Status Reason" and a part of its message.
func expect(conditions []metav1.Condition, want, message string) error {
	parts := strings.Fields(want)
	c := meta.FindStatusCondition(conditions, parts[0])
	if c == nil {
		return fmt.Errorf("there is no condition %s", parts[0])
	}
	if got := c.Type + " " + string(c.Status) + " " + c.Reason; got != want || !strings.Contains(c.Message, message) {
		return fmt.Errorf("got %s %q, want %s with %q", got, c.Message, want, message)
	}
	return nil
}
