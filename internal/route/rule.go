package route

import "time"

// Field is one header field, its name in lower case. It is an alias, so that
// every package of the data path speaks of one type without importing another.
type Field = struct{ Name, Value string }

// Rule is one rule of an HTTPRoute or GRPCRoute, as plain data.
type Rule struct {
	// Route is the object that the rule stands in, as "HTTPRoute ns/name".
	Route string
	// Name is the rule's own name, or its index in the object.
	Name string
	// Label is the path pattern for metrics and span names, such as "/api/*".
	Label string
	// Hosts that the request has to be for: exact, or "*." and the last labels.
	// None: any. Rules of routes whose parent is a Service have none, as such
	// routes ignore the host (GEP-1294); those of a TLSRoute are server names.
	Hosts []string
	// Matches are alternatives; none means every request.
	Matches []Match
	Filters []Filter
	// Backends share the requests by weight. Empty, or all weights zero, without
	// a redirect among the filters: 500.
	Backends []Backend
	Timeouts Timeouts
	Retry    *Retry
	// Invalid, if not empty, is why the rule answers 500 to whatever matches it.
	Invalid string
}

// Backend is one destination of a rule.
type Backend struct {
	// Service names the destination as "namespace/hostname".
	Service string
	Port    uint16
	Weight  uint32
	Filters []Filter
	// Invalid, if not empty, is why this backend's share is answered with 500.
	Invalid string
}

// Timeouts of a rule (GEP-1742). Zero: none.
type Timeouts struct {
	Request        time.Duration // the whole exchange, retries included
	BackendRequest time.Duration // one attempt
}

// Retry of a rule (GEP-1731), beside what is always safe to send again.
type Retry struct {
	Attempts int           // retries after the first try
	Backoff  time.Duration // minimum between tries
	Codes    []int         // response statuses to retry
}

// Match is a conjunction. Zero fields match everything.
type Match struct {
	Path    PathMatch
	Method  string // HTTP method, exact
	Headers []ValueMatch
	Query   []ValueMatch
	GRPC    *GRPCMatch // for rules of a GRPCRoute, instead of Path
}

// PathKind says how PathMatch.Value is compared.
type PathKind uint8

// The kinds of path matches (Gateway API HTTPPathMatch). PathAny is the zero
// value and the weakest.
const (
	PathAny PathKind = iota
	PathExact
	PathPrefix // whole segments: /v2 does not match /v2example
	PathRegex  // the whole path must match
)

// PathMatch compares the normalised path, without the query.
type PathMatch struct {
	Kind  PathKind
	Value string
}

// ValueMatch compares a header (name in lower case) or a query parameter.
type ValueMatch struct {
	Name  string
	Value string
	Regex bool // Value is a regular expression for the whole value
}

// GRPCMatch compares /Service/Method. An empty part matches any.
type GRPCMatch struct {
	Service, Method string
	Regex           bool
}

// Filter is one of HeaderModifier, Redirect, Rewrite, Mirror and CORS.
type Filter interface{ filter() }

// HeaderModifier changes request or response headers: set, then add, then remove
// (HTTPHeaderFilter). Names are in lower case.
type HeaderModifier struct {
	Response bool // response headers, else request headers
	Set, Add []Field
	Remove   []string
}

// PathRewrite replaces the whole path, or the prefix that the request matched.
type PathRewrite struct {
	Full  bool // Value replaces the whole path, else the matched prefix
	Value string
}

// Redirect answers without a backend. Empty fields keep what the request has.
type Redirect struct {
	Scheme, Hostname string
	Port             uint16 // 0: derived from scheme, or the port that was called
	Path             *PathRewrite
	Status           int // 301, 302, 303, 307 or 308
}

// Rewrite changes host and path of the request sent upstream.
type Rewrite struct {
	Hostname string
	Path     *PathRewrite
}

// Mirror sends a copy of the request whose answer is dropped.
type Mirror struct {
	Backend Backend
	// Of Denominator requests, Numerator are mirrored.
	Numerator, Denominator uint32
}

// CORS answers preflights and marks responses (GEP-1767).
type CORS struct {
	AllowOrigins     []string // exact, "*", or with a "*" for leading labels: https://*.example.com
	AllowCredentials bool
	AllowMethods     []string // "*" for any
	AllowHeaders     []string // "*" for any
	ExposeHeaders    []string
	MaxAge           time.Duration
}

func (*HeaderModifier) filter() {}
func (*Redirect) filter()       {}
func (*Rewrite) filter()        {}
func (*Mirror) filter()         {}
func (*CORS) filter()           {}
