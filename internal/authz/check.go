package authz

import (
	"slices"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// attribute is what a check looks at.
type attribute uint8

const (
	attrPrincipal attribute = iota
	attrNamespace
	attrAccount
	attrTrustDomain
	attrPeerAddr
	attrRemote
	attrDest
	attrPort
	attrSNI
	// HTTP only from here.
	attrHost
	attrMethod
	attrPath
	attrHeader
	attrToken // of a verified token: there is none, as no token is verified here
)

func (a attribute) httpOnly() bool { return a >= attrHost }

// check compares one attribute with the values of one field.
type check struct {
	attr    attribute
	field   string   // as written, for Explain: "from[0].principals"
	given   []string // as written, for Explain
	negated bool
	// wide is set if an uncertain reading counts as a match: see the package
	// comment.
	wide   bool
	header string // name, of attrHeader

	values     values // of attributes that are strings
	principals principals
	accounts   accounts
	addrs      addrs
	ports      []uint16
}

// facts is a Request with what several checks want to know of it.
type facts struct {
	*Request
	own identity.ID // Peer with the mesh's own trust domain
}

func (c *check) holds(f *facts) bool { return c.matches(f) != c.negated }

func (c *check) matches(f *facts) bool {
	switch c.attr {
	case attrPrincipal:
		return c.principals.has(f.Peer, f.own)
	case attrNamespace:
		return c.values.has(f.Peer.Namespace)
	case attrAccount:
		_, ok := c.accounts[account{f.Peer.Namespace, f.Peer.ServiceAccount}]
		return ok
	case attrTrustDomain:
		return c.values.has(f.own.TrustDomain) || c.values.has(f.Peer.TrustDomain)
	case attrPeerAddr:
		return c.addrs.has(f.PeerAddr)
	case attrRemote:
		return c.addrs.has(f.Remote)
	case attrDest:
		return c.addrs.has(f.Dest)
	case attrPort:
		return slices.Contains(c.ports, f.Port)
	case attrSNI:
		return c.values.has(f.SNI)
	case attrHost:
		return matchHost(&c.values, f.Host, c.wide)
	case attrMethod:
		return c.values.has(f.Method)
	case attrPath:
		return c.values.has(f.Path)
	case attrHeader:
		return c.matchHeader(f.Request)
	default:
		return false
	}
}

// conjunction holds if all of its checks do.
type conjunction []check

// fails returns the first check that does not hold, or nil.
func (c conjunction) fails(f *facts) *check {
	for i := range c {
		if !c[i].holds(f) {
			return &c[i]
		}
	}
	return nil
}

// alternatives hold if one of them does, or there is none.
type alternatives []conjunction

func (a alternatives) hold(f *facts) bool {
	for _, c := range a {
		if c.fails(f) == nil {
			return true
		}
	}
	return len(a) == 0
}
