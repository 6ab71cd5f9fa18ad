package authz

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// clusterLocal is the trust domain that policies may name whatever the mesh's
// own is called (Istio's default).
const clusterLocal = "cluster.local"

// principals is a set of identities: exact ones, and patterns.
type principals struct {
	exact    map[identity.ID]struct{} // with the mesh's own trust domain for its aliases
	patterns []principal
}

// principal is a pattern for an identity. Parts of an identity have no slash, so
// a prefix or suffix of "td/ns/NS/sa/SA" is exact in all parts but one. Taken
// apart at compile time, it is compared without putting the string together.
type principal struct {
	domain, namespace, account part
}

// part compares one part of an identity. The zero part matches anything.
type part struct {
	form form
	text string
}

type form uint8

const (
	formAny form = iota
	formExact
	formPrefix
	formSuffix
)

func (p part) match(s string) bool {
	switch p.form {
	case formExact:
		return s == p.text
	case formPrefix:
		return strings.HasPrefix(s, p.text)
	case formSuffix:
		return strings.HasSuffix(s, p.text)
	default:
		return true
	}
}

func (p *principal) match(id identity.ID) bool {
	return p.namespace.match(id.Namespace) && p.account.match(id.ServiceAccount) && p.domain.match(id.TrustDomain)
}

// has reports whether the set contains id, whose trust domain is as the peer
// showed it, or own, the same in the mesh's own trust domain.
func (ps *principals) has(id, own identity.ID) bool {
	if id.IsZero() {
		return false
	}
	if _, ok := ps.exact[own]; ok {
		return true
	}
	for i := range ps.patterns {
		if p := &ps.patterns[i]; p.match(id) || p.match(own) && p.domain.form == formExact {
			return true
		}
	}
	return false
}

// own returns id with the mesh's own trust domain, if its is an alias.
func own(id identity.ID, trust identity.Trust) identity.ID {
	if id.TrustDomain != trust.Domain && slices.Contains(trust.Aliases, id.TrustDomain) {
		id.TrustDomain = trust.Domain
	}
	return id
}

// ownDomain is the same for a trust domain that a policy names.
func ownDomain(domain string, trust identity.Trust) string {
	if trust.Has(domain) || domain == clusterLocal && trust.Domain != "" {
		return trust.Domain
	}
	return domain
}

var errPrincipal = errors.New(`a principal has the form TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT, or is a prefix of it with "*" after or a suffix with "*" before`)

func newPrincipals(list []string, trust identity.Trust) (principals, error) {
	var ps principals
	for _, s := range list {
		if err := ps.add(strings.TrimPrefix(s, "spiffe://"), trust); err != nil {
			return ps, fmt.Errorf("%q: %w", s, err)
		}
	}
	return ps, nil
}

func (ps *principals) add(s string, trust identity.Trust) error {
	var pattern principal
	var ok bool
	switch {
	case s == "*":
		ok = true
	case strings.HasPrefix(s, "*"):
		pattern, ok = suffixPrincipal(s[1:])
	case strings.HasSuffix(s, "*"):
		pattern, ok = prefixPrincipal(s[:len(s)-1])
	default:
		id, err := identity.Parse("spiffe://" + s)
		if err != nil {
			return err
		}
		id.TrustDomain = ownDomain(id.TrustDomain, trust)
		if ps.exact == nil {
			ps.exact = make(map[identity.ID]struct{})
		}
		ps.exact[id] = struct{}{}
		return nil
	}
	if !ok {
		return errPrincipal
	}
	if pattern.domain.form == formExact {
		pattern.domain.text = ownDomain(pattern.domain.text, trust)
	}
	ps.patterns = append(ps.patterns, pattern)
	return nil
}

// shape is the form of a principal: literals, and "" where a part stands.
var shape = [5]string{"", "ns", "", "sa", ""}

func (p *principal) part(i int) *part {
	return [...]*part{&p.domain, nil, &p.namespace, nil, &p.account}[i]
}

func prefixPrincipal(s string) (p principal, ok bool) {
	segs := strings.Split(s, "/")
	if len(segs) > len(shape) {
		return p, false
	}
	for i, seg := range segs {
		last := i == len(segs)-1
		switch to := p.part(i); {
		case to == nil && (seg == shape[i] || last && strings.HasPrefix(shape[i], seg)):
		case to == nil:
			return p, false
		case last:
			*to = part{formPrefix, seg}
		default:
			*to = part{formExact, seg}
		}
	}
	return p, true
}

func suffixPrincipal(s string) (p principal, ok bool) {
	segs := strings.Split(s, "/")
	if len(segs) > len(shape) {
		return p, false
	}
	skip := len(shape) - len(segs)
	for i, seg := range segs {
		first := i == 0
		switch to := p.part(skip + i); {
		case to == nil && (seg == shape[skip+i] || first && strings.HasSuffix(shape[skip+i], seg)):
		case to == nil:
			return p, false
		case first:
			*to = part{formSuffix, seg}
		default:
			*to = part{formExact, seg}
		}
	}
	return p, true
}
