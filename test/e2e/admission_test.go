package e2e

import (
	"errors"
	"strings"
	"testing"
)

func TestAdmission(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.gatewaySays("Accepted True Accepted", "")
	// Right by its schema, and nonsense.
	bad := strings.ReplaceAll(strings.Replace(shop[strings.Index(shop, "apiVersion: security"):], "methods: [GET]", `ports: ["http"]`, 1), "NS", s.ns)
	var refused error
	s.Eventually("a policy that cannot work is refused", func() error {
		if refused = s.server.Apply(s.Context(), bad); refused == nil {
			return errors.New("it is stored")
		}
		return nil
	})
	for _, want := range []string{"objects.waypoint-mesh.dev", "ports[0]"} {
		if !strings.Contains(refused.Error(), want) {
			t.Errorf("refused with %q, want %q in it", refused, want)
		}
	}
	s.Apply(shop) // and what is right is not
}
