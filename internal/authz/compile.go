package authz

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Options say for what policies are compiled.
type Options struct {
	// HTTP is unset for connections whose inside is opaque. On them Allow rules
	// that look at HTTP never match, and all others do without their HTTP fields,
	// which is stricter both times (Istio's rule for TCP ports).
	HTTP bool
	// Trust is the mesh's trust domain and its aliases, which are one and the
	// same in policies.
	Trust identity.Trust
}

// Validate reports what keeps p from being compiled, naming the field. It is nil
// for a policy that is marked Invalid already.
func (p *Policy) Validate() error {
	_, err := compilePolicy(p, Options{HTTP: true})
	return err
}

// policyCompiler compiles one policy.
type policyCompiler struct {
	Options
	*Policy
	errs []error
}

// compilePolicy returns a usable policy in any case: one with an error is
// invalid, and denies.
func compilePolicy(p *Policy, o Options) (*policy, error) {
	c := policyCompiler{Options: o, Policy: p}
	out := &policy{name: p.Namespace + "/" + p.Name, action: p.Action, dryRun: p.DryRun, invalid: p.Invalid}
	if p.Invalid != "" {
		return out, nil
	}
	for i := range p.Rules {
		if r := c.rule(i, out); r != nil {
			out.rules = append(out.rules, r)
		} else {
			out.reduced = true
		}
	}
	if err := errors.Join(c.errs...); err != nil {
		out.invalid, out.rules = err.Error(), nil
		return out, fmt.Errorf("AuthorizationPolicy %s: %w", out.name, err)
	}
	return out, nil
}

// rule returns nil for a rule that cannot match.
func (c *policyCompiler) rule(i int, p *policy) *rule {
	def := &c.Policy.Rules[i]
	r := &rule{policy: p, index: i, details: details(c.Policy, i)}
	from := make(alternatives, len(def.From))
	for k := range def.From {
		from[k] = c.source(fmt.Sprintf("rules[%d].from[%d].source", i, k), &def.From[k])
	}
	to := make(alternatives, len(def.To))
	for k := range def.To {
		to[k] = c.operation(fmt.Sprintf("rules[%d].to[%d].operation", i, k), &def.To[k])
	}
	var when conjunction
	for k := range def.When {
		when = append(when, c.condition(fmt.Sprintf("rules[%d].when[%d]", i, k), &def.When[k])...)
	}
	if c.HTTP {
		r.from, r.to, r.when = from, to, when
		return r
	}
	return c.withoutHTTP(r, from, to, when)
}

// withoutHTTP fits a rule to connections whose inside is opaque.
func (c *policyCompiler) withoutHTTP(r *rule, from, to alternatives, when conjunction) *rule {
	parts := append(append(alternatives{when}, from...), to...)
	for i, conj := range parts {
		kept := make(conjunction, 0, len(conj))
		for _, check := range conj {
			if !check.attr.httpOnly() {
				kept = append(kept, check)
				continue
			}
			if c.Action == Allow {
				return nil
			}
			r.reduced = true
		}
		parts[i] = kept
	}
	r.when, r.from, r.to = parts[0], parts[1:1+len(from)], parts[1+len(from):]
	return r
}

func details(p *Policy, rule int) string {
	return "rbac_access_denied_matched_policy[ns[" + p.Namespace + "]-policy[" + p.Name + "]-rule[" + strconv.Itoa(rule) + "]]"
}

func (c *policyCompiler) source(at string, s *Source) conjunction {
	b := conjunctionBuilder{policyCompiler: c, at: at + "."}
	b.both("principals", attrPrincipal, s.Principals, s.NotPrincipals)
	b.both("requestPrincipals", attrToken, s.RequestPrincipals, s.NotRequestPrincipals)
	b.both("namespaces", attrNamespace, s.Namespaces, s.NotNamespaces)
	b.both("serviceAccounts", attrAccount, s.ServiceAccounts, s.NotServiceAccounts)
	b.both("ipBlocks", attrPeerAddr, s.IPBlocks, s.NotIPBlocks)
	b.both("remoteIpBlocks", attrRemote, s.RemoteIPBlocks, s.NotRemoteIPBlocks)
	b.both("trustDomains", attrTrustDomain, s.TrustDomains, s.NotTrustDomains)
	return b.done()
}

func (c *policyCompiler) operation(at string, o *Operation) conjunction {
	b := conjunctionBuilder{policyCompiler: c, at: at + "."}
	b.both("hosts", attrHost, o.Hosts, o.NotHosts)
	b.both("ports", attrPort, decimals(o.Ports), decimals(o.NotPorts))
	b.both("methods", attrMethod, o.Methods, o.NotMethods)
	b.both("paths", attrPath, o.Paths, o.NotPaths)
	return b.done()
}

func decimals(ports []uint16) []string {
	var out []string
	for _, p := range ports {
		out = append(out, strconv.Itoa(int(p)))
	}
	return out
}

func (c *policyCompiler) condition(at string, cond *Condition) conjunction {
	b := conjunctionBuilder{policyCompiler: c, at: at + "."}
	attr, header, ok := parseKey(cond.Key)
	if !ok {
		b.errorf("key: %q is not an attribute that can be compared here", cond.Key)
		return nil
	}
	b.header = header
	b.both("values", attr, cond.Values, cond.NotValues)
	return b.done()
}

// keys are Istio's names of attributes, besides those with a name in brackets.
var keys = map[string]attribute{
	"source.ip":              attrPeerAddr,
	"remote.ip":              attrRemote,
	"source.namespace":       attrNamespace,
	"source.serviceAccount":  attrAccount,
	"source.trustDomain":     attrTrustDomain,
	"source.principal":       attrPrincipal,
	"destination.ip":         attrDest,
	"destination.port":       attrPort,
	"connection.sni":         attrSNI,
	"request.auth.principal": attrToken,
	"request.auth.audiences": attrToken,
	"request.auth.presenter": attrToken,
}

func parseKey(key string) (attr attribute, header string, ok bool) {
	if attr, ok := keys[key]; ok {
		return attr, "", true
	}
	open := strings.IndexByte(key, '[')
	if open < 0 || !strings.HasSuffix(key, "]") || open+2 >= len(key) {
		return 0, "", false
	}
	switch name := key[open+1 : len(key)-1]; key[:open] {
	case "request.auth.claims":
		return attrToken, "", true
	case "request.headers":
		name = strings.ToLower(name)
		if name == ":authority" {
			name = "host"
		}
		return attrHeader, name, !strings.ContainsAny(name, ":[]")
	}
	return 0, "", false
}

// conjunctionBuilder makes the checks of one source, operation or condition.
type conjunctionBuilder struct {
	*policyCompiler
	at     string
	header string
	out    conjunction
}

func (b *conjunctionBuilder) errorf(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(b.at+format, args...))
}

// done refuses what is empty: it would match everything, which nobody means.
func (b *conjunctionBuilder) done() conjunction {
	if len(b.out) == 0 {
		b.at = strings.TrimSuffix(b.at, ".")
		b.errorf(": has no values; leave it out to match everything")
	}
	return b.out
}

// both adds the checks of a field and of its negation.
func (b *conjunctionBuilder) both(field string, attr attribute, is, isNot []string) {
	b.add(field, attr, is, false)
	b.add("not"+strings.ToUpper(field[:1])+field[1:], attr, isNot, true)
}

func (b *conjunctionBuilder) add(field string, attr attribute, list []string, negated bool) {
	if len(list) == 0 {
		return
	}
	c := check{
		attr: attr, field: b.at + field, given: list, negated: negated,
		wide: (b.Action != Allow) != negated, header: b.header,
	}
	if err := c.compile(list, b.policyCompiler); err != nil {
		b.errorf("%s: %w", field, err)
	}
	b.out = append(b.out, c)
}

// compile fills in the set that fits the attribute.
func (c *check) compile(list []string, p *policyCompiler) (err error) {
	switch c.attr {
	case attrPrincipal:
		c.principals, err = newPrincipals(list, p.Trust)
	case attrAccount:
		c.accounts, err = newAccounts(list, p.Namespace)
	case attrPeerAddr, attrRemote, attrDest:
		c.addrs, err = newAddrs(list)
	case attrPort:
		c.ports, err = newPorts(list)
	case attrPath:
		c.values, err = newPaths(list)
	case attrTrustDomain:
		c.values, err = newTrustDomains(list, p.Trust)
	default:
		c.values, err = newValues(list)
	}
	// Names of hosts have no case.
	c.values.fold = c.attr == attrHost || c.attr == attrSNI || c.attr == attrHeader && c.header == "host"
	return err
}

func newTrustDomains(list []string, trust identity.Trust) (values, error) {
	same := make([]string, len(list))
	for i, d := range list {
		same[i] = ownDomain(d, trust)
	}
	return newValues(same)
}

func newPorts(list []string) (ports []uint16, err error) {
	for _, s := range list {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q is not a port from 1 to 65535", s)
		}
		ports = append(ports, uint16(n))
	}
	return ports, nil
}

func newPaths(list []string) (v values, err error) {
	for _, s := range list {
		if !isTemplate(s) {
			err = v.add(s)
		} else if t, e := parseTemplate(s); e == nil {
			v.paths = append(v.paths, t)
		} else {
			err = fmt.Errorf("%q: %w", s, e)
		}
		if err != nil {
			return v, err
		}
	}
	return v, nil
}
