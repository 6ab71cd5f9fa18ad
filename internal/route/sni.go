package route

import "fmt"

// SNITable finds the rule of a TLSRoute by server name. It is immutable.
type SNITable struct {
	rules byHost[*Rule]
	all   []Rule
}

// NewSNITable compiles rules, which are given in the order that settles ties, as
// for [NewTable]. The most specific host name wins; a rule without hosts takes
// every server name, and connections without one.
func NewSNITable(rules []Rule) (*SNITable, error) {
	t := &SNITable{all: rules}
	for i := range rules {
		r := rules[i]
		if len(r.Hosts) == 0 && t.rules.any == nil {
			t.rules.any = &r
		}
		for _, h := range r.Hosts {
			if err := checkHost(h); err != nil {
				return nil, fmt.Errorf("%s: hostnames: %w", r.Route, err)
			}
			t.rules.at(h, func() *Rule { return &r })
		}
	}
	return t, nil
}

// Rules are the rules of the table, as compiled. They must not be changed.
func (t *SNITable) Rules() []Rule { return t.all }

// Match returns the rule for a server name, as the client sent it; "" is a
// connection without one.
func (t *SNITable) Match(sni string) (*Rule, bool) {
	var found *Rule
	t.rules.find(NormalizeHost(sni), func(r *Rule) bool {
		found = r
		return r != nil
	})
	return found, found != nil
}
