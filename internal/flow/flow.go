// Package flow is the record of one connection or request: who asked whom for
// what, what was decided, and how it ended. The data path fills it in, and an
// [Observer] turns it into metrics, an access log line and a span, once.
package flow

import (
	"net/netip"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Kind says what a Flow records.
type Kind uint8

// The kinds, which are also the values of the label request_protocol.
const (
	TCP Kind = iota
	HTTP
	GRPC
)

// String returns the label value.
func (k Kind) String() string { return [...]string{"tcp", "http", "grpc"}[k] }

// Workload is what telemetry says of one end. Empty strings are unknown.
type Workload struct {
	Name, Namespace    string // the workload's (Deployment's), not the pod's
	Pod                string
	Principal          string // SPIFFE URI
	App, Version       string
	CanonicalName      string
	CanonicalRevision  string
	Cluster            string
	Region, Zone, Node string
}

// Service is what telemetry says of the destination service.
type Service struct {
	Host      string // reviews.default.svc.cluster.local
	Name      string
	Namespace string
}

// Flow is the record of one TCP connection or one HTTP exchange. It belongs to
// the task that carries the connection or exchange; an Observer reads it only
// within Start and Done, and keeps no string of it (they may be views of buffers
// that are used again) unless it clones them.
type Flow struct {
	Kind     Kind
	Start    time.Time
	Duration time.Duration // set just before Done

	Peer     identity.ID    // the tunnel's TLS identity
	PeerAddr netip.AddrPort // the tunnel's TCP peer
	Source   *Workload      // nil: unknown
	Target   string         // the CONNECT target
	SNI      string

	Service     *Service       // nil: workload-addressed or unknown
	Destination *Workload      // of the chosen endpoint; nil: none was chosen
	Endpoint    netip.AddrPort // zero: none was chosen
	MutualTLS   bool           // the hop to us was mutual TLS

	// HTTP only.
	Method, Path, Authority, Protocol string // Path with the query, as normalised; Protocol "HTTP/1.1"
	UserAgent, ForwardedFor           string
	RequestID                         string
	RouteName                         string // the rule's Route and Name
	RouteLabel                        string // its path pattern
	Status                            int
	GRPCStatus                        string // empty: none seen
	RequestMessages                   uint64 // gRPC messages
	ResponseMessages                  uint64
	Retries                           int
	UpstreamTime                      time.Duration // until the response head
	ConnectionID                      uint64        // of the tunnel

	Received, Sent int64 // bytes from, and to, downstream

	Flags   Flags
	Details string // response code details: why, in snake case or words
	Policy  string // the AuthorizationPolicy that decided, "ns/name"
	DryRun  []DryRun

	Trace Trace

	// Handle belongs to the Observer: resolved metric handles, a span.
	Handle any
}

// DryRun is the verdict of a policy that is only tried.
type DryRun struct {
	Policy  string
	Allowed bool
}

// Trace is the trace context of the request (W3C Trace Context).
type Trace struct {
	TraceID  [16]byte
	SpanID   [8]byte // ours: parent of what the upstream makes
	ParentID [8]byte // the caller's; zero: we are the root
	Sampled  bool
	State    string // tracestate
}

// Observer learns of every connection and request, exactly twice. It must not
// block: it is called in turns of connection readers.
type Observer interface {
	// Start is called once the destination is known, before anything is sent
	// upstream. It decides sampling and fills in f.Trace.
	Start(f *Flow)
	// Progress is called from time to time on long connections, so that byte
	// and message counters move before the end.
	Progress(f *Flow)
	// Done is called once, when everything has been sent or has failed.
	Done(f *Flow)
}
