package authz

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// The model evaluates definitions as the documentation tells it, without
// indexes, sets or prepared patterns.

func modelString(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		switch {
		case p == "*":
			return s != ""
		case strings.HasPrefix(p, "*"):
			return strings.HasSuffix(s, p[1:])
		case strings.HasSuffix(p, "*"):
			return strings.HasPrefix(s, p[:len(p)-1])
		}
		return p == s
	})
}

func modelPrincipal(patterns []string, id identity.ID) bool {
	if id.IsZero() {
		return false
	}
	return modelString(patterns, strings.TrimPrefix(id.String(), "spiffe://"))
}

func modelAddr(blocks []string, a netip.Addr) bool {
	return slices.ContainsFunc(blocks, func(s string) bool {
		if p, err := netip.ParsePrefix(s); err == nil {
			return p.Contains(a)
		}
		return netip.MustParseAddr(s) == a
	})
}

func modelAccount(list []string, namespace string, id identity.ID) bool {
	return slices.ContainsFunc(list, func(s string) bool {
		if !strings.Contains(s, "/") {
			s = namespace + "/" + s
		}
		return s == id.Namespace+"/"+id.ServiceAccount
	})
}

// modelHeader: readings are the ways to read a header; a wide field holds if any
// matches, a strict one if the first does.
func modelHeader(patterns []string, name string, r *Request, wide bool) bool {
	var lines []string
	for _, h := range r.Headers {
		if h.Name == name {
			lines = append(lines, h.Value)
		}
	}
	if lines == nil {
		return false
	}
	readings := []string{strings.Join(lines, ",")}
	if wide {
		for _, l := range lines {
			readings = append(readings, l)
			for _, elem := range strings.Split(l, ",") {
				readings = append(readings, strings.TrimSpace(elem))
			}
		}
	}
	return slices.ContainsFunc(readings, func(s string) bool { return modelString(patterns, s) })
}

func field(is, isNot []string, match func([]string) bool) bool {
	return (len(is) == 0 || match(is)) && (len(isNot) == 0 || !match(isNot))
}

func modelRule(p *Policy, r *Rule, q *Request) bool {
	from := len(r.From) == 0 || slices.ContainsFunc(r.From, func(s Source) bool {
		return field(s.Principals, s.NotPrincipals, func(l []string) bool { return modelPrincipal(l, q.Peer) }) &&
			field(s.Namespaces, s.NotNamespaces, func(l []string) bool { return modelString(l, q.Peer.Namespace) }) &&
			field(s.ServiceAccounts, s.NotServiceAccounts, func(l []string) bool { return modelAccount(l, p.Namespace, q.Peer) }) &&
			field(s.IPBlocks, s.NotIPBlocks, func(l []string) bool { return modelAddr(l, q.PeerAddr) })
	})
	to := len(r.To) == 0 || slices.ContainsFunc(r.To, func(o Operation) bool {
		return field(o.Methods, o.NotMethods, func(l []string) bool { return modelString(l, q.Method) }) &&
			field(o.Paths, o.NotPaths, func(l []string) bool { return modelString(l, q.Path) }) &&
			field(decimals(o.Ports), decimals(o.NotPorts), func(l []string) bool { return slices.Contains(l, strconv.Itoa(int(q.Port))) })
	})
	when := true
	for _, c := range r.When {
		name := strings.TrimSuffix(strings.TrimPrefix(c.Key, "request.headers["), "]")
		restricts := p.Action != Allow
		when = when && (len(c.Values) == 0 || modelHeader(c.Values, name, q, restricts)) &&
			(len(c.NotValues) == 0 || !modelHeader(c.NotValues, name, q, !restricts))
	}
	return from && to && when
}

func modelAllowed(policies []Policy, q *Request) bool {
	matches := func(a Action) bool {
		return slices.ContainsFunc(policies, func(p Policy) bool {
			return p.Action == a && slices.ContainsFunc(p.Rules, func(r Rule) bool { return modelRule(&p, &r, q) })
		})
	}
	restricted := slices.ContainsFunc(policies, func(p Policy) bool { return p.Action == Allow })
	return !matches(Custom) && !matches(Deny) && (!restricted || matches(Allow))
}

// dice draws small definitions from small vocabularies, so that they meet.
type dice struct{ *rand.Rand }

func (d dice) some(from ...string) []string {
	if d.IntN(3) > 0 {
		return nil
	}
	var out []string
	for range 1 + d.IntN(3) {
		out = append(out, from[d.IntN(len(from))])
	}
	return out
}

func (d dice) ports() []uint16 {
	if d.IntN(3) > 0 {
		return nil
	}
	return []uint16{uint16(1 + d.IntN(3))}
}

func (d dice) source() Source {
	principals := []string{"td/ns/a/sa/x", "td/ns/b/sa/x", "td/ns/a/*", "*/sa/x", "*", "td/n*", "*a/x"}
	spaces := []string{"a", "b", "a*", "*b", "*"}
	sas := []string{"x", "a/x", "b/y"}
	blocks := []string{"10.0.0.0/8", "10.0.0.1", "10.0.0.0/30", "::/0"}
	return Source{
		Principals: d.some(principals...), NotPrincipals: d.some(principals...),
		Namespaces: d.some(spaces...), NotNamespaces: d.some(spaces...),
		ServiceAccounts: d.some(sas...), NotServiceAccounts: d.some(sas...),
		IPBlocks: d.some(blocks...), NotIPBlocks: d.some(blocks...),
	}
}

func (d dice) operation() Operation {
	methods := []string{"GET", "POST", "P*", "*"}
	paths := []string{"/", "/a", "/a/b", "/a/*", "*/b", "*"}
	return Operation{
		Methods: d.some(methods...), NotMethods: d.some(methods...), Paths: d.some(paths...), NotPaths: d.some(paths...),
		Ports: d.ports(), NotPorts: d.ports(),
	}
}

func (d dice) rule() Rule {
	var r Rule
	for range d.IntN(3) {
		r.From = append(r.From, d.source())
	}
	for range d.IntN(3) {
		r.To = append(r.To, d.operation())
	}
	for range d.IntN(2) {
		vals := []string{"1", "2", "1,2", "1*", "*2", "*"}
		r.When = append(r.When, Condition{Key: "request.headers[h" + strconv.Itoa(d.IntN(2)) + "]", Values: d.some(vals...), NotValues: d.some(vals...)})
	}
	return r
}

func (d dice) policies() []Policy {
	var out []Policy
	for i := range d.IntN(5) {
		p := Policy{Namespace: []string{"a", "b"}[d.IntN(2)], Name: fmt.Sprint("p", i), Action: Action(d.IntN(4))}
		for range d.IntN(4) {
			p.Rules = append(p.Rules, d.rule())
		}
		if p.Validate() == nil {
			out = append(out, p)
		}
	}
	return out
}

func (d dice) request() *Request {
	pick := func(s ...string) string { return s[d.IntN(len(s))] }
	r := &Request{
		PeerAddr: netip.MustParseAddr(pick("10.0.0.1", "10.0.0.9", "192.0.2.1", "::1")), Port: uint16(1 + d.IntN(3)),
		Method: pick("GET", "POST", "PUT"), Path: pick("/", "/a", "/a/b", "/b"),
	}
	if d.IntN(8) > 0 {
		r.Peer = identity.ID{TrustDomain: "td", Namespace: pick("a", "b"), ServiceAccount: pick("x", "y")}
	}
	for range d.IntN(4) {
		r.Headers = append(r.Headers, Field{"h" + strconv.Itoa(d.IntN(2)), pick("1", "2", "1,2", "1, 2", "", "\xff1")})
	}
	return r
}

func checkModel(t *testing.T, d dice) {
	policies := d.policies()
	e, err := Compile(policies, Options{HTTP: true, Trust: identity.Trust{Domain: "td"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		q := d.request()
		got := e.Check(q)
		if want := modelAllowed(policies, q); got.Allowed != want {
			t.Fatalf("got %+v, want allowed=%v\nrequest %+v\npolicies %+v", got, want, *q, policies)
		}
		checkFirst(t, policies, q, got)
		if again, steps := e.Explain(q); !equal(again, got) || got.Policy != "" && !steps[len(steps)-1].Matched {
			t.Fatalf("Explain differs: %+v %+v, Check %+v", again, steps, got)
		}
	}
}

// checkFirst: the policy that is named is the first of its action that matches.
func checkFirst(t *testing.T, policies []Policy, q *Request, d Decision) {
	if d.Policy == "" {
		return
	}
	byName := func(p Policy) bool { return p.Namespace+"/"+p.Name == d.Policy }
	action := policies[slices.IndexFunc(policies, byName)].Action
	for _, p := range policies {
		for i := range p.Rules {
			if p.Action == action && modelRule(&p, &p.Rules[i], q) {
				if !byName(p) || i != d.Rule {
					t.Fatalf("decided by %s rule %d, the first that matches is %s/%s rule %d", d.Policy, d.Rule, p.Namespace, p.Name, i)
				}
				return
			}
		}
	}
	t.Fatalf("%+v names a rule that does not match", d)
}

func TestModel(t *testing.T) {
	for seed := range uint64(3000) {
		checkModel(t, dice{rand.New(rand.NewPCG(seed, 1))})
	}
}

// FuzzCheck feeds strings into every field of a policy and request: nothing
// panics, a policy that is refused denies, and wide readings of DENY deny
// whatever the strict readings of ALLOW allow.
func FuzzCheck(f *testing.F) {
	f.Add("td/ns/a/*", "10.0.0.0/8", "/a/{*}", "h", "v*", "v1", "v2", "/a/b", "host:80")
	f.Add("*", "::1", "*", "host", "\xff", "\xff", "", "/", "[::1]:1")
	f.Fuzz(func(t *testing.T, principal, block, pattern, header, value, line1, line2, path, host string) {
		rule := Rule{
			From: []Source{{NotPrincipals: []string{principal}}, {IPBlocks: []string{block}}},
			To:   []Operation{{Paths: []string{pattern}}, {Hosts: []string{host}}},
			When: []Condition{{Key: "request.headers[" + header + "]", Values: []string{value}}},
		}
		q := &Request{Path: path, Host: host, PeerAddr: netip.MustParseAddr("10.0.0.1"), Headers: []Field{{strings.ToLower(header), line1}, {strings.ToLower(header), line2}}}
		allow, err := Compile([]Policy{policyOf(Allow, rule)}, Options{HTTP: true})
		deny, _ := Compile([]Policy{policyOf(Deny, rule)}, Options{HTTP: true})
		allowed, denied := allow.Check(q), deny.Check(q)
		allow.Explain(q)
		if err != nil && (allowed.Allowed || denied.Allowed) {
			t.Fatal("a refused policy allows")
		}
		if allowed.Allowed && denied.Allowed {
			t.Fatal("ALLOW matches what DENY does not")
		}
	})
}
