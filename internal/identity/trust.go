package identity

import (
	"fmt"
	"slices"
	"strings"
)

// Trust is the trust domain of the mesh and the further names it goes by, such
// as the former one during a migration (Istio's meshConfig.trustDomainAliases).
type Trust struct {
	Domain  string
	Aliases []string
}

// Has reports whether domain is ours or an alias. The comparison is exact.
func (t Trust) Has(domain string) bool {
	return domain == t.Domain || slices.Contains(t.Aliases, domain)
}

// Same reports whether a and b are one workload: equal, or equal but for trust
// domains that are both ours.
func (t Trust) Same(a, b ID) bool {
	return a.Namespace == b.Namespace && a.ServiceAccount == b.ServiceAccount &&
		(a.TrustDomain == b.TrustDomain || t.Has(a.TrustDomain) && t.Has(b.TrustDomain))
}

// Check returns a *[MismatchError] unless got is one of want.
func (t Trust) Check(got ID, want []ID) error {
	for _, id := range want {
		if !got.IsZero() && t.Same(got, id) {
			return nil
		}
	}
	return &MismatchError{Got: got, Want: want}
}

// MismatchError is a peer that proved to be somebody else than who was called.
type MismatchError struct {
	Got  ID
	Want []ID
}

func (e *MismatchError) Error() string {
	want := make([]string, len(e.Want))
	for i, id := range e.Want {
		want[i] = id.String()
	}
	return fmt.Sprintf("the peer is another workload than expected (a stale endpoint whose address was reused?): it is %s, expected %s",
		e.Got, strings.Join(want, " or "))
}
