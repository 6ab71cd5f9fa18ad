package authz

import (
	"errors"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Engine is the compiled policies of one destination. It is immutable, and may
// be shared by destinations with the same policies. The nil Engine denies.
type Engine struct {
	trust identity.Trust
	// phases are the enforced rules by action.
	phases [Custom + 1]ruleSet
	// restricted is set if there is an Allow policy, so that something has to match.
	restricted bool
	invalid    *policy // the first that is enforced
	tried      []*policy
	all        []*policy // in the order of evaluation, for Explain
	policies   []Policy  // as given
}

// order in which actions are evaluated (Istio's).
var order = [...]Action{Custom, Audit, Deny, Allow}

// Compile never fails as a whole: a policy that cannot be compiled denies
// everything, and the error says which and why.
func Compile(policies []Policy, o Options) (*Engine, error) {
	e := &Engine{trust: o.Trust, policies: policies}
	var errs []error
	var byAction [Custom + 1][]*policy
	for i := range policies {
		p, err := compilePolicy(&policies[i], o)
		if err != nil {
			errs = append(errs, err)
		}
		byAction[p.action] = append(byAction[p.action], p)
	}
	for _, action := range order {
		e.addPhase(action, byAction[action])
	}
	return e, errors.Join(errs...)
}

// Policies returns what the engine was compiled from. It must not be changed.
func (e *Engine) Policies() []Policy {
	if e == nil {
		return nil
	}
	return e.policies
}

func (e *Engine) addPhase(action Action, policies []*policy) {
	var rules []*rule
	for _, p := range policies {
		e.all = append(e.all, p)
		switch {
		case p.dryRun:
			e.tried = append(e.tried, p)
			continue
		case p.invalid != "" && e.invalid == nil:
			e.invalid = p
		}
		if action == Allow {
			e.restricted = true
		}
		rules = append(rules, p.rules...)
	}
	e.phases[action] = newRuleSet(rules)
}

// Check decides on one connection or request. It does not keep r, and does not
// allocate unless there are policies on trial or a header whose lines are longer
// than 512 bytes together.
func (e *Engine) Check(r *Request) Decision {
	if e == nil {
		return Decision{Reason: NotCompiled, Rule: -1, Details: "rbac_access_denied_not_compiled"}
	}
	f := facts{Request: r, own: own(r.Peer, e.trust)}
	d := e.decide(&f)
	if len(e.tried) > 0 {
		d.DryRun = e.try(&f)
	}
	return d
}

func (e *Engine) decide(f *facts) Decision {
	if e.invalid != nil {
		return Decision{Reason: InvalidPolicy, Policy: e.invalid.name, Rule: -1, Details: "rbac_access_denied_invalid_policy"}
	}
	if r := e.phases[Custom].first(f); r != nil {
		return denied(r, NoAuthorizer)
	}
	audit := ""
	if r := e.phases[Audit].first(f); r != nil {
		audit = r.policy.name
	}
	d := e.denyOrAllow(f)
	d.Audit = audit
	return d
}

func (e *Engine) denyOrAllow(f *facts) Decision {
	if r := e.phases[Deny].first(f); r != nil {
		return denied(r, DeniedByRule)
	}
	if !e.restricted {
		return Decision{Allowed: true, Reason: Unrestricted, Rule: -1}
	}
	if r := e.phases[Allow].first(f); r != nil {
		return Decision{Allowed: true, Reason: AllowedByRule, Policy: r.policy.name, Rule: r.index}
	}
	return Decision{Reason: NotAllowed, Rule: -1, Details: "rbac_access_denied_matched_policy[none]"}
}

func denied(r *rule, why Reason) Decision {
	return Decision{Reason: why, Policy: r.policy.name, Rule: r.index, Details: r.details}
}

// try evaluates the policies on trial, each alone.
func (e *Engine) try(f *facts) []DryRun {
	out := make([]DryRun, len(e.tried))
	for i, p := range e.tried {
		out[i] = DryRun{Policy: p.name, Allowed: p.allows(f)}
	}
	return out
}

func (p *policy) allows(f *facts) bool {
	if p.invalid != "" {
		return false
	}
	for _, r := range p.rules {
		if r.matches(f) {
			return p.action == Allow || p.action == Audit
		}
	}
	return p.action != Allow
}
