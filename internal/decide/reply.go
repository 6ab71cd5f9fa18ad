package decide

import (
	"net/http"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// Reply is an answer of our own: the one place where a verdict becomes a status.
type Reply struct {
	Status int // HTTP
	GRPC   int // grpc-status, for gRPC requests
	Flags  flow.Flags
	// Details says why, for log, trace and explain (response code details).
	Details string
	// Body is what the client is told: nothing that it did not know.
	Body string
}

// The codes of gRPC that decisions are answered with. A rule that cannot be
// followed is UNAVAILABLE (GRPCRouteRule.backendRefs), an unknown method
// UNIMPLEMENTED.
const (
	grpcPermissionDenied = 7
	grpcUnimplemented    = 12
	grpcUnavailable      = 14
)

// The replies that a decision may end in.
var (
	denied        = Reply{http.StatusForbidden, grpcPermissionDenied, 0, "rbac_access_denied", "access denied"}
	noRoute       = Reply{http.StatusNotFound, grpcUnimplemented, flow.NoRoute, "route_not_found", "not found"}
	invalidRoute  = Reply{http.StatusInternalServerError, grpcUnavailable, flow.NoRoute, "route_rejected", "route is not valid"}
	noBackend     = Reply{http.StatusInternalServerError, grpcUnavailable, flow.NoRoute, "route_without_backend", "no backend"}
	badBackend    = Reply{http.StatusInternalServerError, grpcUnavailable, flow.NoCluster, "backend_not_valid", "no backend"}
	unknownTarget = Reply{http.StatusInternalServerError, grpcUnavailable, flow.NoCluster, "backend_not_found", "no backend"}
)

// denial is the reply to a request that policy refused.
func denial(d authz.Decision) *Reply {
	r := denied
	if d.Details != "" {
		r.Details = d.Details
	}
	return &r
}
