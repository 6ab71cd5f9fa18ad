package authz

import (
	"fmt"
	"strings"
)

// Step is the evaluation of one rule, or of a policy without rules.
type Step struct {
	Policy  string `json:"policy"`
	Action  string `json:"action"`
	DryRun  bool   `json:"dryRun,omitempty"`
	Rule    int    `json:"rule"` // -1: the policy has none
	Matched bool   `json:"matched"`
	// Why says which fields did not match, or what is special about a match.
	Why string `json:"why,omitempty"`
}

// Explain evaluates r as Check does, and tells every rule that was looked at, in
// order, up to the one that decided.
func (e *Engine) Explain(r *Request) (Decision, []Step) {
	d := e.Check(r)
	if e == nil {
		return d, nil
	}
	f := facts{Request: r, own: own(r.Peer, e.trust)}
	var steps []Step
	for _, p := range e.all {
		for _, s := range p.explain(&f) {
			steps = append(steps, s)
			if d.Policy == s.Policy && d.Rule == s.Rule && !s.DryRun && (d.Rule < 0 || s.Matched) {
				return d, steps
			}
		}
	}
	return d, steps
}

func (p *policy) explain(f *facts) []Step {
	step := Step{Policy: p.name, Action: p.action.String(), DryRun: p.dryRun, Rule: -1}
	switch {
	case p.invalid != "":
		step.Matched, step.Why = true, "rejected, which denies everything: "+p.invalid
		return []Step{step}
	case len(p.rules) == 0:
		step.Why = "it has no rules that could match here, and so matches nothing"
		if p.reduced {
			step.Why = "all of its rules look at HTTP, of which nothing can be seen here, and so it matches nothing"
		}
		return []Step{step}
	}
	steps := make([]Step, len(p.rules))
	for i, r := range p.rules {
		step.Rule, step.Why = r.index, r.why(f)
		step.Matched = step.Why == ""
		if step.Matched && r.reduced {
			step.Why = "as what it says of HTTP is left out: nothing of HTTP can be seen here"
		}
		steps[i] = step
	}
	return steps
}

// why says why the rule does not match; empty if it does.
func (r *rule) why(f *facts) string {
	var why []string
	for _, alts := range []alternatives{r.from, r.to} {
		if !alts.hold(f) {
			for _, conj := range alts {
				why = append(why, conj.fails(f).why(f))
			}
		}
	}
	if c := r.when.fails(f); c != nil {
		why = append(why, c.why(f))
	}
	return strings.Join(why, "; ")
}

// shownValues is how many values of a field are told.
const shownValues = 5

func (c *check) why(f *facts) string {
	given := c.given
	more := ""
	if len(given) > shownValues {
		more = fmt.Sprintf(" and %d more", len(given)-shownValues)
		given = given[:shownValues]
	}
	verb := "is none of"
	if c.negated {
		verb = "is among"
	}
	return fmt.Sprintf("%s: %s %s %q%s", c.field, c.actual(f), verb, given, more)
}

// actual says what the request has where c looks.
func (c *check) actual(f *facts) string {
	switch c.attr {
	case attrPrincipal, attrNamespace, attrAccount, attrTrustDomain:
		if f.Peer.IsZero() {
			return "a peer without identity"
		}
		return "the peer " + strings.TrimPrefix(f.Peer.String(), "spiffe://")
	case attrPeerAddr:
		return "the peer's address " + f.PeerAddr.String()
	case attrRemote:
		return "the client's address " + f.Remote.String()
	case attrDest:
		return "the dialled address " + f.Dest.String()
	case attrPort:
		return fmt.Sprintf("the port %d", f.Port)
	case attrSNI:
		return fmt.Sprintf("the server name %q", f.SNI)
	case attrHost:
		return fmt.Sprintf("the host %q", f.Host)
	case attrMethod:
		return fmt.Sprintf("the method %q", f.Method)
	case attrPath:
		return fmt.Sprintf("the path %q", f.Path)
	case attrHeader:
		return c.actualHeader(f)
	default:
		return "a token (none is verified here)"
	}
}

func (c *check) actualHeader(f *facts) string {
	if c.header == "host" {
		return fmt.Sprintf("the host %q", f.Host)
	}
	joined := join(nil, f.Headers, c.header)
	if joined == nil {
		return fmt.Sprintf("the absent header %q", c.header)
	}
	return fmt.Sprintf("the header %q, %q,", c.header, joined)
}
