package gateway

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// labelRevision says, as with Istio, which revision of a control plane is to serve
// an object, or everything of a namespace.
const labelRevision = "istio.io/rev"

// defaultRevision is that of what has no label.
const defaultRevision = "default"

// Serves reports whether a Gateway is this controller's, by its label istio.io/rev,
// else by that of its namespace. Without Revisions every Gateway is.
func (s Settings) Serves(g *gatewayv1.Gateway, namespace map[string]string) bool {
	if len(s.Revisions) == 0 {
		return true
	}
	revision := defaultRevision
	for _, labels := range []map[string]string{namespace, g.Labels} {
		if r := labels[labelRevision]; r != "" {
			revision = r
		}
	}
	return slices.Contains(s.Revisions, revision)
}
