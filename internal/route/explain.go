package route

import (
	"fmt"
	"slices"
	"strings"
)

// Tried is one match of one rule that was considered for a request.
type Tried struct {
	Route string `json:"route"`
	Rule  string `json:"rule"`
	Match string `json:"match"` // as written
	// Why it does not match; empty: it does.
	Why string `json:"why,omitempty"`
}

// maxTried bounds what Explain tells: a table may have thousands of matches.
const maxTried = 20

// Explain tells which matches were considered for r, in order of precedence, up
// to the one that holds, and how many more there were. If they are many, those
// whose path fits are told first: the others have nothing to do with r.
func (t *Table) Explain(r *Request) (tried []Tried, more int) {
	var near, far []Tried
	matched, _, _ := t.Match(r)
	for _, e := range slices.SortedFunc(slices.Values(t.entries), byPrecedence) {
		why := e.why(r)
		told := Tried{Route: e.rule.Route, Rule: e.rule.Name, Match: e.match.String(), Why: why}
		if why == "" && matched == e.rule {
			near = append(near, told)
			break
		}
		if why == "" {
			told.Why = "a rule for a more specific host comes first"
		}
		if e.hasPath(r.Path) {
			near = append(near, told)
		} else {
			far = append(far, told)
		}
	}
	if all := len(near) + len(far); all <= maxTried {
		return append(far, near...), 0
	}
	if len(near) > maxTried {
		return near[len(near)-maxTried:], len(near) - maxTried + len(far)
	}
	return near, len(far)
}

// hasPath reports whether the path alone would match.
func (e *entry) hasPath(path string) bool {
	switch e.class {
	case rankExact:
		return path == e.treePath()
	case rankPrefix:
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(e.treePath(), "/"))
		return ok && (rest == "" || rest[0] == '/')
	case rankMethod:
		_, rpc, ok := splitRPC(path)
		return ok && rpc == e.match.GRPC.Method
	}
	return e.matchesPattern(path)
}

// hasHost reports whether the rule is for this host.
func (e *entry) hasHost(host string) bool {
	if len(e.rule.Hosts) == 0 {
		return true
	}
	hosts := byHost[bool]{}
	for _, h := range e.rule.Hosts {
		hosts.at(h, func() bool { return true })
	}
	return hosts.find(NormalizeHost(host), func(ok bool) bool { return ok })
}

// why says what of e does not match; empty if it does.
func (e *entry) why(r *Request) string {
	switch {
	case !e.hasHost(r.Host):
		return fmt.Sprintf("the host %q is none of %q", r.Host, e.rule.Hosts)
	case !e.hasPath(r.Path):
		return fmt.Sprintf("the path is %q", r.Path)
	case !e.matchesMethod(r):
		return "the method is " + r.Method
	}
	if t := e.failedHeader(r); t != nil {
		line, joined, ok := r.header(t.name, nil)
		return whyValue("header", t.name, line+string(joined), ok)
	}
	if t := e.failedQuery(r); t != nil {
		plain, unescaped, ok := parameter(r.Query, t.name, nil)
		return whyValue("query parameter", t.name, plain+string(unescaped), ok)
	}
	return ""
}

func whyValue(what, name, value string, present bool) string {
	if !present {
		return fmt.Sprintf("the %s %s is absent", what, name)
	}
	return fmt.Sprintf("the %s %s is %q", what, name, value)
}

// String writes the match for people: "GET /api/* x-canary: 1 ?debug=1".
func (m *Match) String() string {
	var parts []string
	if m.Method != "" {
		parts = append(parts, m.Method)
	}
	if m.GRPC != nil {
		parts = append(parts, m.GRPC.String())
	} else {
		parts = append(parts, m.Path.String())
	}
	for _, h := range m.Headers {
		parts = append(parts, h.Name+": "+h.text())
	}
	for _, q := range m.Query {
		parts = append(parts, "?"+q.Name+"="+q.text())
	}
	return strings.Join(parts, " ")
}

// String writes an exact path as it is, a prefix with "/*", an expression as
// "~expression".
func (p PathMatch) String() string {
	switch p.Kind {
	case PathExact:
		return p.Value
	case PathPrefix:
		return strings.TrimSuffix(p.Value, "/") + "/*"
	case PathRegex:
		return "~" + p.Value
	}
	return "/*"
}

// String writes "/service/method", with "*" for any.
func (g *GRPCMatch) String() string {
	sign := ""
	if g.Regex {
		sign = "~"
	}
	orAny := func(s string) string {
		if s == "" {
			return "*"
		}
		return sign + s
	}
	return "/" + orAny(g.Service) + "/" + orAny(g.Method)
}

func (v ValueMatch) text() string {
	if v.Regex {
		return "~" + v.Value
	}
	return v.Value
}
