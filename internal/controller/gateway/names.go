package gateway

import gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

// ControllerName is what a GatewayClass names to have its Gateways served by us,
// and what our entries in the status of routes are known by.
const ControllerName gatewayv1.GatewayController = "waypoint-mesh.dev/waypoint-controller"

// FieldManager owns what we apply. It is the same for all replicas and versions:
// another one would leave fields behind that nobody removes.
const FieldManager = "waypoint-mesh.dev/waypoint-controller"

// TokenAudience is that of the tokens by which waypoints prove to the controller
// who they are. Tokens for the API server or for istiod are not good for it.
const TokenAudience = "waypoint-mesh.dev" //nolint:gosec // G101: whom a token is for, no token

// ManagedBy, as value of LabelManagedBy, marks what we made, so that only that
// is watched. Whether an object is ours is decided by its owner alone.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "waypoint-controller"
)

// Labels and annotations of others that our objects carry.
const (
	labelGatewayName  = gatewayv1.GatewayNameLabelKey
	labelGatewayClass = gatewayv1.GatewayClassNameLabelKey
	labelAppName      = "app.kubernetes.io/name"
	// A waypoint is not captured by ztunnel, and gets no sidecar.
	labelDataplaneMode = "istio.io/dataplane-mode"
	labelInject        = "sidecar.istio.io/inject"
	// A namespace's waypoint would otherwise front its own Service.
	labelUseWaypoint   = "istio.io/use-waypoint"
	labelCanonicalName = "service.istio.io/canonical-name"
	// Waypoints near the client are tried first.
	annotationDistribution = "networking.istio.io/traffic-distribution"
)

// Ports of a waypoint, as docs/architecture.md lists them.
const (
	portTunnels = 15008
	portMetrics = 15020
	portStatus  = 15021
)
