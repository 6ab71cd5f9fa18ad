// Package flow is the record of one connection or request: who asked whom for
// what, what was decided, and how it ended. The data path fills it in, and an
// [Observer] turns it into metrics, an access log line and a span, once.
package flow

import (
	"net/netip"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// ID is the identity of a peer, under the name that observers know it by: they
// import this package alone.
type ID = identity.ID

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

// Workload is what telemetry says of one end. Empty strings are unknown. It does
// not change once a Flow points to it, and its address is its identity: metrics
// remember what they resolved for it.
type Workload struct {
	Name, Namespace    string // the workload's (Deployment's), not the pod's
	Type               string // deployment, job, cronjob, pod
	Pod                string
	Principal          string // SPIFFE URI
	App, Version       string
	CanonicalName      string
	CanonicalRevision  string
	Cluster            string
	Region, Zone, Node string
}

// Service is what telemetry says of the destination service. As with Workload,
// it does not change and its address is its identity.
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
	Source   *Workload      // nil: unknown, which is better than wrong
	Target   string         // the CONNECT target
	SNI      string

	Service         *Service       // nil: workload-addressed or unknown
	Port            uint16         // the service's, or the workload's if there is no Service
	Destination     *Workload      // of the chosen endpoint; nil: none was chosen
	Endpoint        netip.AddrPort // zero: none was chosen
	UpstreamLocal   netip.AddrPort // our end of the connection to it; zero: unknown
	UpstreamFailure string         // why there was no connection to it
	MutualTLS       bool           // the hop to us was mutual TLS

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

	Reported Reported
}

// Reported is what the metrics observer has counted of the Flow already, and
// where. It alone reads and writes this.
type Reported struct {
	Series                            any // a pointer, so that no store allocates
	Received, Sent                    int64
	RequestMessages, ResponseMessages uint64
}

// DryRun is the verdict of a policy that is only tried.
type DryRun struct {
	Policy  string
	Allowed bool
}

// Observer learns of every connection and request. Its methods must not block:
// they are called in turns of connection readers. For one Flow they are called
// one after the other, for different ones in parallel.
type Observer interface {
	// Start is called once, when the destination is known and f.Trace holds what
	// the caller sent, before anything is sent upstream. It decides sampling and
	// completes f.Trace.
	Start(f *Flow)
	// Progress is called from time to time on long connections, so that byte
	// and message counters move before the end.
	Progress(f *Flow)
	// Done is called once, when everything has been sent or has failed.
	Done(f *Flow)
}

// Observers is several as one, called in their order.
type Observers []Observer

// Start implements [Observer].
func (o Observers) Start(f *Flow) {
	for _, each := range o {
		each.Start(f)
	}
}

// Progress implements [Observer].
func (o Observers) Progress(f *Flow) {
	for _, each := range o {
		each.Progress(f)
	}
}

// Done implements [Observer].
func (o Observers) Done(f *Flow) {
	for _, each := range o {
		each.Done(f)
	}
}
