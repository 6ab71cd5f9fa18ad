package telemetry

import (
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

// label is one of Istio's labels, in the order in which Istio documents them.
type label int

const (
	reporter label = iota
	sourceWorkload
	sourceCanonicalService
	sourceCanonicalRevision
	sourceWorkloadNamespace
	sourcePrincipal
	sourceApp
	sourceVersion
	sourceCluster
	destinationWorkload
	destinationWorkloadNamespace
	destinationPrincipal
	destinationApp
	destinationVersion
	destinationService
	destinationCanonicalService
	destinationCanonicalRevision
	destinationServiceName
	destinationServiceNamespace
	destinationCluster
	requestProtocol
	responseFlags
	connectionSecurityPolicy
	responseCode
	grpcResponseStatus
	labelCount
)

// The labels of each family are the first so many: gRPC messages are counted
// while the answer is unknown, and TCP has no response code.
const (
	messageLabels = int(destinationCluster) + 1
	tcpLabels     = int(connectionSecurityPolicy) + 1
	httpLabels    = int(labelCount)
)

var labelNames = [labelCount]string{
	reporter:                     "reporter",
	sourceWorkload:               "source_workload",
	sourceCanonicalService:       "source_canonical_service",
	sourceCanonicalRevision:      "source_canonical_revision",
	sourceWorkloadNamespace:      "source_workload_namespace",
	sourcePrincipal:              "source_principal",
	sourceApp:                    "source_app",
	sourceVersion:                "source_version",
	sourceCluster:                "source_cluster",
	destinationWorkload:          "destination_workload",
	destinationWorkloadNamespace: "destination_workload_namespace",
	destinationPrincipal:         "destination_principal",
	destinationApp:               "destination_app",
	destinationVersion:           "destination_version",
	destinationService:           "destination_service",
	destinationCanonicalService:  "destination_canonical_service",
	destinationCanonicalRevision: "destination_canonical_revision",
	destinationServiceName:       "destination_service_name",
	destinationServiceNamespace:  "destination_service_namespace",
	destinationCluster:           "destination_cluster",
	requestProtocol:              "request_protocol",
	responseFlags:                "response_flags",
	connectionSecurityPolicy:     "connection_security_policy",
	responseCode:                 "response_code",
	grpcResponseStatus:           "grpc_response_status",
}

const unknown = "unknown"

// labels are the values of one series.
type labels [labelCount]string

// pairs returns the first n labels for exposition. It points into l.
func (l *labels) pairs(n int) []*dto.LabelPair {
	pairs := make([]dto.LabelPair, n)
	refs := make([]*dto.LabelPair, n)
	for i := range n {
		pairs[i].Name, pairs[i].Value = &labelNames[i], &l[i]
		refs[i] = &pairs[i]
	}
	return refs
}

// key says which series a flow counts in. It is made for each request, so it
// holds pointers instead of the two dozen strings that they stand for.
type key struct {
	peer                flow.ID
	source, destination *flow.Workload
	service             *flow.Service
	flags               flow.Flags
	status              uint16
	kind                flow.Kind
	grpc                uint8 // noGRPCStatus, or a status
	mutualTLS           bool
}

const (
	noGRPCStatus      = 0xff
	unknownGRPCStatus = 2
	lastGRPCStatus    = 16
)

// httpKey is the key of a finished exchange.
func httpKey(f *flow.Flow) key {
	k := tcpKey(f)
	k.status = uint16(min(max(f.Status, 0), 999))
	if f.Kind == flow.GRPC {
		k.grpc = grpcStatus(f.GRPCStatus)
	}
	return k
}

// tcpKey is the key of a connection.
func tcpKey(f *flow.Flow) key {
	k := messageKey(f)
	k.kind, k.flags, k.mutualTLS = f.Kind, f.Flags, f.MutualTLS
	return k
}

// messageKey leaves out what is known at the end only.
func messageKey(f *flow.Flow) key {
	return key{peer: f.Peer, source: f.Source, destination: f.Destination, service: f.Service, grpc: noGRPCStatus}
}

// grpcStatus bounds what an upstream can make us remember: whatever is not a
// status of gRPC means UNKNOWN, as it does to gRPC's own libraries.
func grpcStatus(s string) uint8 {
	if s == "" {
		return noGRPCStatus
	}
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || n > lastGRPCStatus {
		return unknownGRPCStatus
	}
	return uint8(n)
}

// own makes a key that may be kept: the peer may be a view of a buffer.
func (k key) own() key {
	k.peer.TrustDomain = strings.Clone(k.peer.TrustDomain)
	k.peer.Namespace = strings.Clone(k.peer.Namespace)
	k.peer.ServiceAccount = strings.Clone(k.peer.ServiceAccount)
	return k
}

// noWorkload stands for an end of which nothing is known.
var noWorkload flow.Workload

// labels spells the key out. The rules are those of Istio's stats filter with a
// waypoint as reporter: what is not known is "unknown", a revision "latest", and
// the source's namespace is that of its certificate before that of its address.
// Unlike there, destination_service_namespace is the service's, not the proxy's.
func (k key) labels() (l labels) {
	src, dst := k.source, k.destination
	if src == nil {
		src = &noWorkload
	}
	if dst == nil {
		dst = &noWorkload
	}
	l = labels{
		reporter:                     "waypoint",
		sourceWorkload:               src.Name,
		sourceCanonicalService:       src.CanonicalName,
		sourceCanonicalRevision:      orLatest(src.CanonicalRevision),
		sourceWorkloadNamespace:      firstOf(k.peer.Namespace, src.Namespace),
		sourcePrincipal:              k.peer.String(),
		sourceApp:                    src.App,
		sourceVersion:                src.Version,
		sourceCluster:                src.Cluster,
		destinationWorkload:          dst.Name,
		destinationWorkloadNamespace: dst.Namespace,
		destinationPrincipal:         dst.Principal,
		destinationApp:               dst.App,
		destinationVersion:           dst.Version,
		destinationCanonicalService:  dst.CanonicalName,
		destinationCanonicalRevision: orLatest(dst.CanonicalRevision),
		destinationCluster:           dst.Cluster,
		requestProtocol:              k.kind.String(),
		responseFlags:                k.flags.String(),
		connectionSecurityPolicy:     "none",
		responseCode:                 strconv.Itoa(int(k.status)),
	}
	if k.mutualTLS {
		l[connectionSecurityPolicy] = "mutual_tls"
	}
	l.setService(k.service, dst)
	l.fill()
	if k.grpc != noGRPCStatus {
		l[grpcResponseStatus] = strconv.Itoa(int(k.grpc))
	}
	return l
}

// setService names the destination: a workload that was called by its own
// address goes by its canonical service.
func (l *labels) setService(s *flow.Service, dst *flow.Workload) {
	if s == nil {
		l[destinationService] = dst.CanonicalName
		l[destinationServiceName] = dst.CanonicalName
		l[destinationServiceNamespace] = dst.Namespace
		return
	}
	l[destinationService] = s.Host
	l[destinationServiceName] = s.Name
	l[destinationServiceNamespace] = s.Namespace
}

// fill puts "unknown" for what is empty, except where empty has a meaning.
func (l *labels) fill() {
	for i := range l {
		if l[i] == "" && label(i) != grpcResponseStatus {
			l[i] = unknown
		}
	}
}

func orLatest(revision string) string { return firstOf(revision, "latest") }

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
