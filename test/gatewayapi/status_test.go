package gatewayapi

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	meshtests "sigs.k8s.io/gateway-api/conformance/tests/mesh"
)

// TestReasons: what a route at a Service says of itself, right and wrong, as the
// Gateway API words it.
func TestReasons(t *testing.T) {
	c := newCluster(t)
	r := &runner{Mesh: Mesh{API: c, Dial: c.dial}, t: t}
	r.newSuite().Setup(t, meshtests.MeshConformanceTests)
	const (
		accepted = gatewayv1.RouteReasonAccepted
		resolved = gatewayv1.RouteReasonResolvedRefs
		noParent = gatewayv1.RouteReasonNoMatchingParent
		notFound = gatewayv1.RouteReasonBackendNotFound
		strange  = gatewayv1.RouteReasonInvalidKind

		echo = `{group: "", kind: Service, name: echo}`
		v1   = "backendRefs: [{name: echo-v1, port: 80}]"
	)
	for _, tt := range []struct {
		name, parents, rule string
		accepted            []gatewayv1.RouteConditionReason // by parent
		resolved            gatewayv1.RouteConditionReason
	}{
		{"right", echo, v1, of(accepted), resolved},
		{"several-parents", echo + `, {group: "", kind: Service, name: echo-v1, port: 80}`, v1, of(accepted, accepted), resolved},
		{"port-by-name", `{group: "", kind: Service, name: echo, sectionName: http}`, v1, of(accepted), resolved},
		{"no-such-port", `{group: "", kind: Service, name: echo, port: 81}`, v1, of(noParent), ""},
		{"no-such-port-of-two", echo + `, {group: "", kind: Service, name: echo-v1, port: 81}`, v1, of(accepted, noParent), resolved},
		{"no-such-section", `{group: "", kind: Service, name: echo, sectionName: web}`, v1, of(noParent), ""},
		{"no-such-backend", echo, "backendRefs: [{name: echo-v3, port: 80}]", of(accepted), notFound},
		{"no-such-backend-of-two", echo, "backendRefs: [{name: echo-v1, port: 80}, {name: echo-v3, port: 80}]", of(accepted), notFound},
		{"no-such-backend-port", echo, "backendRefs: [{name: echo-v1, port: 81}]", of(accepted), notFound},
		{"no-such-mirror", echo, "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: echo-v3, port: 80}}}]", of(accepted), notFound},
		{"strange-backend", echo, "backendRefs: [{group: example.com, kind: Bucket, name: echo-v1, port: 80}]", of(accepted), strange},
		{"strange-filter", echo, "filters: [{type: ExtensionRef, extensionRef: {group: example.com, kind: Wasm, name: x}}]", of(accepted), strange},
		{
			"of-another-namespace", `{group: "", kind: Service, name: echo, namespace: ` + Namespace + "}",
			"backendRefs: [{name: echo-v1, namespace: " + Namespace + ", port: 80}]", of(accepted), resolved,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			namespace := Namespace
			if tt.name == "of-another-namespace" {
				namespace = ConsumerNamespace // without a ReferenceGrant
			}
			var obj gatewayv1.HTTPRoute
			c.must(yaml.UnmarshalStrict([]byte("metadata: {name: "+tt.name+", namespace: "+namespace+"}\nspec: {parentRefs: ["+tt.parents+"], rules: [{"+tt.rule+"}]}"), &obj))
			c.mustCreate(&obj)
			awaitStatus(t, func(ctx context.Context) error {
				routes, err := listRoutes(ctx, c)
				for _, route := range routes {
					for parent, reason := range tt.accepted {
						err = errors.Join(err, route.check(parent, reason, tt.resolved))
					}
				}
				return err
			})
			c.must(c.Delete(t.Context(), &obj))
		})
	}
}

func of(reasons ...gatewayv1.RouteConditionReason) []gatewayv1.RouteConditionReason { return reasons }
