package authz

// Action is what a policy does with the requests that it matches.
type Action uint8

// The actions of AuthorizationPolicy.spec.action.
const (
	Allow  Action = iota // at least one Allow policy has to match, if there are any
	Deny                 // what matches is denied
	Audit                // what matches is marked
	Custom               // what matches is for an external authorizer; without one it is denied
)

// String returns the action as Istio spells it.
func (a Action) String() string { return [...]string{"ALLOW", "DENY", "AUDIT", "CUSTOM"}[a] }

// Policy is one AuthorizationPolicy as plain data.
type Policy struct {
	Namespace, Name string
	Action          Action
	// DryRun policies are evaluated and reported, never enforced.
	DryRun bool
	// Rules are alternatives. A policy without rules matches nothing, by which an
	// Allow policy denies what no other allows.
	Rules []Rule
	// Provider is the external authorizer of a Custom policy.
	Provider string
	// Invalid, if not empty, is why the policy was refused: it denies everything.
	Invalid string
}

// Rule matches if one of From (or there is none), one of To (or there is none)
// and all of When match. The zero Rule matches everything.
type Rule struct {
	From []Source
	To   []Operation
	When []Condition
}

// Source says who asks. All fields that are not empty have to match; a field
// matches if one of its values does, a Not field if none does.
//
// Strings are exact, "prefix*", "*suffix" or "*" (anything but empty), except
// service accounts, which are exact.
type Source struct {
	// Principals are SPIFFE IDs without their scheme:
	// "cluster.local/ns/default/sa/client".
	Principals, NotPrincipals []string
	// RequestPrincipals are "issuer/subject" of a verified token.
	RequestPrincipals, NotRequestPrincipals []string
	Namespaces, NotNamespaces               []string
	// ServiceAccounts are "namespace/name", or "name" in the policy's namespace.
	ServiceAccounts, NotServiceAccounts []string
	// IPBlocks are addresses or CIDR blocks of the tunnel's peer.
	IPBlocks, NotIPBlocks []string
	// RemoteIPBlocks are those of the client that trusted hops vouch for.
	RemoteIPBlocks, NotRemoteIPBlocks []string
	TrustDomains, NotTrustDomains     []string
}

// Operation says what is asked for. All fields that are not empty have to match.
type Operation struct {
	// Hosts are compared without regard to case, with the port that the request
	// has in its host.
	Hosts, NotHosts []string
	// Ports are the destination's: of the service for traffic to a service.
	Ports, NotPorts     []uint16
	Methods, NotMethods []string
	// Paths are compared with the normalised path without the query. Besides the
	// common forms: templates with "{*}" for one segment and a last "{**}" for
	// any number of them.
	Paths, NotPaths []string
}

// Condition compares one attribute, named by Istio's key such as
// "request.headers[x-role]" or "source.ip".
type Condition struct {
	Key               string
	Values, NotValues []string
}
