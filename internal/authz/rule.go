package authz

import "slices"

// policy is a compiled Policy.
type policy struct {
	name    string // "namespace/name"
	action  Action
	dryRun  bool
	invalid string
	rules   []*rule
	reduced bool // rules that look at HTTP were left out
}

// rule is a compiled Rule.
type rule struct {
	policy  *policy
	index   int
	from    alternatives
	to      alternatives
	when    conjunction
	details string
	reduced bool // checks of HTTP were left out
}

func (r *rule) matches(f *facts) bool {
	return r.from.hold(f) && r.to.hold(f) && r.when.fails(f) == nil
}

// ruleSet finds the first rule that matches. Rules that hold only for some
// service accounts, namespaces or paths are filed under these, so that a request
// does not pay for rules about others.
type ruleSet struct {
	rules       []*rule
	rest        []int // indexes of rules that are filed nowhere, ascending, as all others
	byAccount   map[account][]int
	byNamespace map[string][]int
	byPath      map[string][]int
}

func newRuleSet(rules []*rule) ruleSet {
	s := ruleSet{
		rules:     rules,
		byAccount: map[account][]int{}, byNamespace: map[string][]int{}, byPath: map[string][]int{},
	}
	for i := range rules {
		s.file(i)
	}
	return s
}

// file puts rule i where only the requests look that it can match.
func (s *ruleSet) file(i int) {
	r := s.rules[i]
	namespaces := func(c *check) []string { return c.stringKeys(attrNamespace) }
	paths := func(c *check) []string { return c.stringKeys(attrPath) }
	when := alternatives{r.when}
	switch {
	case fileUnder(s.byAccount, i, r.from, (*check).accountKeys):
	case fileUnder(s.byAccount, i, when, (*check).accountKeys):
	case fileUnder(s.byPath, i, r.to, paths):
	case fileUnder(s.byNamespace, i, r.from, namespaces):
	case fileUnder(s.byNamespace, i, when, namespaces):
	default:
		s.rest = append(s.rest, i)
	}
}

func fileUnder[K comparable](index map[K][]int, i int, alts alternatives, of func(*check) []K) bool {
	keys, ok := keysOf(alts, of)
	for k := range keys {
		index[k] = append(index[k], i)
	}
	return ok
}

// keysOf collects the keys of one check of each alternative. It reports false if
// an alternative has no check with keys, as then it may match any request.
func keysOf[K comparable](alts alternatives, of func(*check) []K) (map[K]struct{}, bool) {
	keys := map[K]struct{}{}
	for _, conj := range alts {
		i := slices.IndexFunc(conj, func(c check) bool { return !c.negated && len(of(&c)) > 0 })
		if i < 0 {
			return nil, false
		}
		for _, k := range of(&conj[i]) {
			keys[k] = struct{}{}
		}
	}
	return keys, len(alts) > 0
}

// accountKeys are the service accounts outside of which c cannot match, if it
// names them all.
func (c *check) accountKeys() (keys []account) {
	switch {
	case c.attr == attrAccount:
		for k := range c.accounts {
			keys = append(keys, k)
		}
	case c.attr == attrPrincipal && len(c.principals.patterns) == 0:
		for id := range c.principals.exact {
			keys = append(keys, account{id.Namespace, id.ServiceAccount})
		}
	}
	return keys
}

func (c *check) stringKeys(attr attribute) []string {
	if c.attr != attr || !c.values.exactOnly() {
		return nil
	}
	return c.values.exact.list
}

// first returns the first rule that matches, or nil.
func (s *ruleSet) first(f *facts) *rule {
	if len(s.rules) == 0 {
		return nil
	}
	best := s.firstOf(s.rest, len(s.rules), f)
	if len(s.byAccount) > 0 {
		best = s.firstOf(s.byAccount[account{f.Peer.Namespace, f.Peer.ServiceAccount}], best, f)
	}
	if len(s.byNamespace) > 0 {
		best = s.firstOf(s.byNamespace[f.Peer.Namespace], best, f)
	}
	if len(s.byPath) > 0 {
		best = s.firstOf(s.byPath[f.Path], best, f)
	}
	if best == len(s.rules) {
		return nil
	}
	return s.rules[best]
}

func (s *ruleSet) firstOf(candidates []int, best int, f *facts) int {
	for _, i := range candidates {
		if i >= best {
			break
		}
		if s.rules[i].matches(f) {
			return i
		}
	}
	return best
}
