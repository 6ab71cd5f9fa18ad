package route

import (
	"fmt"
	"slices"
	"strings"
)

// Table is the compiled rules of one port. It is immutable.
type Table struct {
	rules   []Rule
	entries []*entry // as given, for Explain
	places  byHost[*places]
	hosts   bool // some rules are for certain hosts
}

// places are where entries of one host stand. They are looked at in the order of
// the fields, which is that of the ranks.
type places struct {
	tree    node
	methods map[string]*candidates // of any gRPC service
	others  *candidates
}

// node is a path segment. A request's path leads down to the last node that
// there is; prefixes are tried on the way back.
type node struct {
	parent *node
	// A single child needs no map, which takes more memory than a node.
	segment  string // of only
	only     *node
	children map[string]*node // instead of only
	exact    *candidates
	prefix   *candidates
}

// NewTable compiles rules, which are given in the order that settles ties: oldest
// route first, then by "namespace/name", then as they stand in their route. The
// rules become the table's. An error names the rule; see [Rule.Validate].
func NewTable(rules []Rule) (*Table, error) {
	matches := 0
	for i := range rules {
		matches += max(1, len(rules[i].Matches))
	}
	t := &Table{rules: rules, entries: make([]*entry, 0, matches), places: byHost[*places]{any: new(places)}}
	entries := make([]entry, matches) // together: a tenth of the work of one by one
	for i := range rules {
		n, err := rules[i].compile(entries[len(t.entries):], len(t.entries))
		if err != nil {
			return nil, err
		}
		for range n {
			t.entries = append(t.entries, &entries[len(t.entries)])
		}
	}
	for _, e := range t.entries {
		t.place(e)
	}
	t.places.each((*places).finish)
	return t, nil
}

// compile makes the entries of a rule, numbered from order, and returns how many
// there are.
func (r *Rule) compile(entries []entry, order int) (int, error) {
	if len(r.Matches) == 0 {
		r.Matches = []Match{{}}
	}
	if err := r.normalize(); err != nil {
		return 0, r.wrap(err)
	}
	for i := range r.Matches {
		entries[i] = entry{rule: r, match: &r.Matches[i], order: order + i}
		if err := entries[i].compile(); err != nil {
			return 0, r.wrap(fmt.Errorf("matches[%d]: %w", i, err))
		}
	}
	return len(r.Matches), nil
}

// normalize brings paths into the form in which they are compared. Matches that
// are not in it already are copied first, as others may hold them, too.
func (r *Rule) normalize() error {
	copied := false
	for i := range r.Matches {
		p := r.Matches[i].Path
		if p.Kind != PathExact && p.Kind != PathPrefix {
			continue
		}
		value, err := NormalizePath(p.Value)
		if err != nil {
			return fmt.Errorf("matches[%d]: path: %w", i, err)
		}
		if value == p.Value {
			continue
		}
		if !copied {
			r.Matches, copied = slices.Clone(r.Matches), true
		}
		r.Matches[i].Path.Value = value
	}
	return nil
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
		add(&p.tree.descend(e.treePath()).exact, e)
	case rankPrefix:
		add(&p.tree.descend(strings.TrimSuffix(e.treePath(), "/")).prefix, e)
	case rankMethod:
		if p.methods == nil {
			p.methods = make(map[string]*candidates)
		}
		at := p.methods[e.match.GRPC.Method]
		add(&at, e)
		p.methods[e.match.GRPC.Method] = at
	default:
		add(&p.others, e)
	}
}

// descend returns the node for path, made if it is new.
func (n *node) descend(path string) *node {
	for seg := range strings.SplitSeq(path[1:], "/") {
		child := n.child(seg)
		if child == nil {
			child = &node{parent: n}
			n.adopt(seg, child)
		}
		n = child
	}
	return n
}

// child returns the node of a segment below n, nil if there is none.
func (n *node) child(seg string) *node {
	if n.only == nil {
		return n.children[seg]
	}
	if n.segment == seg {
		return n.only
	}
	return nil
}

func (n *node) adopt(seg string, child *node) {
	switch {
	case n.children != nil:
		n.children[seg] = child
	case n.only == nil:
		n.segment, n.only = seg, child
	default:
		n.children = map[string]*node{n.segment: n.only, seg: child}
		n.segment, n.only = "", nil
	}
}

func (n *node) isLeaf() bool { return n.only == nil && n.children == nil }

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
	if n.only != nil {
		n.only.finish()
	}
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
	if n.isLeaf() || !strings.HasPrefix(r.Path, "/") {
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
		child := n.child(seg)
		if child == nil {
			return n, false
		}
		n = child
	}
	return n, true
}

// Rules are the rules of the table, as compiled. They must not be changed.
func (t *Table) Rules() []Rule { return t.rules }
