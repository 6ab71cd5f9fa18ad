package authz

import (
	"net/netip"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Field is one header field, its name in lower case. It is an alias, so that
// every package of the data path speaks of one type without importing another.
type Field = struct{ Name, Value string }

// Request is what is known of a connection or request. Unknown facts are zero;
// they match no value.
type Request struct {
	Peer     identity.ID // of the tunnel's certificate
	PeerAddr netip.Addr  // the tunnel's TCP peer
	Remote   netip.Addr  // the client that trusted hops vouch for, else PeerAddr
	Dest     netip.Addr  // the address that was dialled
	Port     uint16      // the port that was dialled: a service's port, not its target port
	SNI      string      // of TLS inside the stream

	// Of HTTP only.
	Host    string // as sent, with its port
	Method  string
	Path    string // normalised, without the query
	Headers []Field
}

// Reason says which rule of evaluation a Decision follows from.
type Reason uint8

// The reasons.
const (
	Unrestricted  Reason = iota // allowed: there is no Allow policy, and no other denied
	AllowedByRule               // allowed by a rule of an Allow policy
	DeniedByRule                // denied by a rule of a Deny policy
	NotAllowed                  // denied: there are Allow policies, and none matched
	NoAuthorizer                // denied: a Custom policy matched, whose authorizer cannot be asked
	InvalidPolicy               // denied: a policy was refused, so that nobody knows what it restricts
	NotCompiled                 // denied: there is no Engine
)

// String says the reason to an operator.
func (r Reason) String() string {
	return [...]string{
		"no policy restricts it", "allowed by a rule", "denied by a rule", "no ALLOW policy matches",
		"external authorization is not supported", "a policy was rejected, which denies everything", "policies are not known yet",
	}[r]
}

// Decision is the verdict on one Request.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Policy, as "namespace/name", and the index of its Rule decided. Policy is
	// empty, and Rule -1, if the verdict came from the absence of a match.
	Policy string
	Rule   int
	// Details says the same as Envoy's response code details do:
	// rbac_access_denied_matched_policy[ns[default]-policy[p]-rule[0]].
	Details string
	// Audit is the first Audit policy that matched.
	Audit string
	// DryRun has the verdicts of policies that are only tried.
	DryRun []DryRun
}

// DryRun is what a policy would have decided.
type DryRun struct {
	Policy  string
	Allowed bool
}
