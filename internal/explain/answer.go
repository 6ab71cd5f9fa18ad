package explain

import (
	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Answer is what would become of the question's request or connection. Parts that
// were not reached are absent.
type Answer struct {
	Question Question `json:"question"`
	Version  uint64   `json:"snapshot"` // of the snapshot that was asked
	Outcome  Outcome  `json:"outcome"`

	Destination *Destination `json:"destination,omitempty"`
	// Protocol is what is taken to be inside, and why.
	Protocol string  `json:"protocol,omitempty"`
	Path     string  `json:"path,omitempty"` // as normalised
	Policy   *Policy `json:"policy,omitempty"`
	Route    *Route  `json:"route,omitempty"`
	// Backends are where the request may go, with their shares.
	Backends []Backend `json:"backends,omitempty"`
}

// Outcome is the end of it.
type Outcome struct {
	Forwarded bool   `json:"forwarded"`
	Status    int    `json:"status,omitempty"`     // of our own answer
	GRPC      string `json:"grpcStatus,omitempty"` // the same for gRPC
	Flags     string `json:"flags,omitempty"`      // response flags, as in the access log
	Details   string `json:"details,omitempty"`    // response code details, as in the access log
	Why       string `json:"why,omitempty"`
}

// Destination is what the CONNECT target stands for.
type Destination struct {
	Service  string `json:"service,omitempty"` // "namespace/hostname"
	Port     uint16 `json:"port"`
	Workload string `json:"workload,omitempty"` // of a target that is a workload's address
}

// Policy is the verdict of authorization.
type Policy struct {
	Allowed bool         `json:"allowed"`
	Reason  string       `json:"reason"`
	Policy  string       `json:"policy,omitempty"`
	Rule    int          `json:"rule"` // -1: no rule decided
	Audit   string       `json:"audit,omitempty"`
	Steps   []authz.Step `json:"steps,omitempty"`
}

// Route is which rule is followed.
type Route struct {
	// Routes says whose routes were asked: the service's, the client's namespace's
	// or none.
	Routes  string   `json:"routes"`
	Route   string   `json:"route,omitempty"`
	Rule    string   `json:"rule,omitempty"`
	Match   string   `json:"match,omitempty"`
	Filters []string `json:"filters,omitempty"` // in words, as they act on this request
	// Timeouts and Retry of the rule, in words.
	Timeouts string        `json:"timeouts,omitempty"`
	Retry    string        `json:"retry,omitempty"`
	Tried    []route.Tried `json:"tried,omitempty"` // matches that were considered, the last one holds
	More     int           `json:"more,omitempty"`  // considered, but not told
}

// Backend is one destination of the rule.
type Backend struct {
	Service   string     `json:"service"`
	Port      uint16     `json:"port"`
	Percent   float64    `json:"percent"`
	Filters   []string   `json:"filters,omitempty"`
	Status    int        `json:"status,omitempty"` // of our own answer to its share
	Why       string     `json:"why,omitempty"`    // why it gets nothing
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	More      int        `json:"more,omitempty"`     // endpoints that are not told
	NotReady  int        `json:"notReady,omitempty"` // workloads that would be endpoints if they were ready
}

// Endpoint is one place where a backend is served.
type Endpoint struct {
	Address  string `json:"address"`
	Workload string `json:"workload"`
	Identity string `json:"identity"`
	HBONE    bool   `json:"hbone"`
	// Eligible endpoints are drawn from at random; the others are for when those
	// fail.
	Eligible bool   `json:"eligible"`
	Why      string `json:"why,omitempty"`
}
