package route

import (
	"fmt"
	"slices"
	"strings"
)

// Table is the compiled rules of one port. It is immutable.
type Table struct {
	rules   []Rule
	entries []*entry // by precedence, for Explain
	places  byHost[*places]
	hosts   bool // some rules are for certain hosts
}

// places are where entries of one host stand. They are looked at in the order of
// the fields, which is that of the ranks.
type places struct {
	tree    node
	methods map[string]*candidates // of any gRPC service
	others  candidates
}

// node is a path segment. A request's path leads down to the last node that
// there is; prefixes are tried on the way back.
type node struct {
	parent   *node
	children map[string]*node
	exact    candidates
	prefix   candidates
}

// NewTable compiles rules, which are given in the order that settles ties: oldest
// route first, then by "namespace/name", then as they stand in their route. An
// error names the rule; see [Rule.Validate].
func NewTable(rules []Rule) (*Table, error) {
	t := &Table{rules: slices.Clone(rules), places: byHost[*places]{any: new(places)}}
	for i := range t.rules {
		entries, err := t.rules[i].compile(len(t.entries))
		if err != nil {
			return nil, err
		}
		t.entries = append(t.entries, entries...)
	}
	slices.SortFunc(t.entries, byPrecedence)
	for _, e := range t.entries {
		t.place(e)
	}
	t.places.each((*places).finish)
	return t, nil
}

// compile makes the entries of a rule, numbered from order. It gives the rule
// matches of its own, as they are brought into another form.
func (r *Rule) compile(order int) ([]*entry, error) {
	r.Matches = slices.Clone(r.Matches)
	if len(r.Matches) == 0 {
		r.Matches = []Match{{}}
	}
	entries := make([]*entry, len(r.Matches))
	for i := range r.Matches {
		e := &entry{rule: r, match: &r.Matches[i], order: order + i}
		if err := e.compile(); err != nil {
			return nil, fmt.Errorf("%s rule %s: matches[%d]: %w", r.Route, r.Name, i, err)
		}
		entries[i] = e
	}
	return entries, nil
}

func (t *Table) place(e *entry) {
	hosts := e.rule.Hosts
	if len(hosts) == 0 {
		t.places.any.add(e)
		return
	}
	t.hosts = true
	for _, h := range hosts {
		t.places.at(h, func() *places { return new(places) }).add(e)
	}
}

func (p *places) add(e *entry) {
	switch e.class {
	case rankExact:
		p.tree.descend(e.treePath()).exact.add(e)
	case rankPrefix:
		p.tree.descend(strings.TrimSuffix(e.treePath(), "/")).prefix.add(e)
	case rankMethod:
		if p.methods == nil {
			p.methods = make(map[string]*candidates)
		}
		at := p.methods[e.match.GRPC.Method]
		if at == nil {
			at = new(candidates)
			p.methods[e.match.GRPC.Method] = at
		}
		at.add(e)
	default:
		p.others.add(e)
	}
}

// descend returns the node for path, made if it is new.
func (n *node) descend(path string) *node {
	for seg := range strings.SplitSeq(path[1:], "/") {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		child := n.children[seg]
		if child == nil {
			child = &node{parent: n}
			n.children[seg] = child
		}
		n = child
	}
	return n
}

func (p *places) finish() {
	p.tree.finish()
	for _, c := range p.methods {
		c.finish()
	}
	p.others.finish()
}

func (n *node) finish() {
	n.exact.finish()
	n.prefix.finish()
	for _, child := range n.children {
		child.finish()
	}
}

// Match returns the rule that r follows, and the match that holds, or false: the
// answer is 404, as requests are never sent where no rule says (Gateway API,
// HTTPRouteRule). It does not allocate but for headers of several lines and
// escaped parameters that are longer than 256 bytes or meet a regular expression.
func (t *Table) Match(r *Request) (*Rule, *Match, bool) {
	var e *entry
	if !t.hosts {
		e = t.places.any.find(r)
	} else {
		t.places.find(NormalizeHost(r.Host), func(p *places) bool {
			e = p.find(r)
			return e != nil
		})
	}
	if e == nil {
		return nil, nil, false
	}
	return e.rule, e.match, true
}

func (p *places) find(r *Request) *entry {
	if e := p.tree.find(r); e != nil {
		return e
	}
	if p.methods != nil {
		if _, rpc, ok := splitRPC(r.Path); ok {
			if e := p.methods[rpc].first(r); e != nil {
				return e
			}
		}
	}
	return p.others.first(r)
}

func (n *node) find(r *Request) *entry {
	if len(n.children) == 0 || !strings.HasPrefix(r.Path, "/") {
		return nil
	}
	n, whole := n.deepest(r.Path)
	if whole {
		if e := n.exact.first(r); e != nil {
			return e
		}
	}
	for ; n != nil; n = n.parent {
		if e := n.prefix.first(r); e != nil {
			return e
		}
	}
	return nil
}

// deepest follows path as far as there are nodes.
func (n *node) deepest(path string) (last *node, whole bool) {
	for rest, more := path[1:], true; more; {
		var seg string
		seg, rest, more = strings.Cut(rest, "/")
		child := n.children[seg]
		if child == nil {
			return n, false
		}
		n = child
	}
	return n, true
}

// Rules are the rules of the table, as compiled. They must not be changed.
func (t *Table) Rules() []Rule { return t.rules }
