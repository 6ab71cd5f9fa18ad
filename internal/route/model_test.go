package route

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// modelMatch tries every match of every rule, with nothing compiled.
func modelMatch(m *Match, r *Request) bool {
	path := true
	switch m.Path.Kind {
	case PathExact:
		path = r.Path == m.Path.Value
	case PathPrefix:
		p := strings.TrimRight(m.Path.Value, "/")
		path = p == "" || r.Path == p || strings.HasPrefix(r.Path, p+"/")
	case PathRegex:
		path = regexp.MustCompile("^(?:" + m.Path.Value + ")$").MatchString(r.Path)
	}
	if !path || m.Method != "" && m.Method != r.Method {
		return false
	}
	for _, h := range m.Headers {
		var lines []string
		for _, f := range r.Headers {
			if f.Name == h.Name {
				lines = append(lines, f.Value)
			}
		}
		if lines == nil || !modelValue(h, strings.Join(lines, ",")) {
			return false
		}
	}
	for _, q := range m.Query {
		v, ok := "", false
		for _, pair := range strings.Split(r.Query, "&") {
			if name, value, _ := strings.Cut(pair, "="); name == q.Name && !ok {
				v, ok = value, true
			}
		}
		if !ok || !modelValue(q, v) {
			return false
		}
	}
	return true
}

func modelValue(m ValueMatch, v string) bool {
	if m.Regex {
		return regexp.MustCompile("^(?:" + m.Value + ")$").MatchString(v)
	}
	return m.Value == v
}

// modelBetter says in the words of the Gateway API whether a comes before b.
func modelBetter(a, b *Match) bool {
	kind := func(m *Match) int {
		all := m.Method == "" && len(m.Headers)+len(m.Query) == 0
		switch {
		case m.Path.Kind == PathExact:
			return 0
		case m.Path.Kind == PathRegex:
			return 2
		case all && (m.Path.Kind == PathAny || m.Path.Value == "/"):
			return 3
		}
		return 1
	}
	length := func(m *Match) int { return len(strings.TrimRight(m.Path.Value, "/")) }
	method := func(m *Match) int { return min(len(m.Method), 1) }
	for _, c := range [][2]int{
		{kind(b), kind(a)}, {length(a), length(b)}, {method(a), method(b)}, {len(a.Headers), len(b.Headers)}, {len(a.Query), len(b.Query)},
	} {
		if c[0] != c[1] {
			return c[0] > c[1]
		}
	}
	return false
}

func modelFind(rules []Rule, r *Request) string {
	var best *Match
	name := ""
	for i := range rules {
		for k := range rules[i].Matches {
			if m := &rules[i].Matches[k]; modelMatch(m, r) && (best == nil || modelBetter(m, best)) {
				best, name = m, rules[i].Name
			}
		}
	}
	return name
}

// dice draws from small vocabularies, so that rules and requests meet.
type dice struct{ *rand.Rand }

func (d dice) pick(s ...string) string { return s[d.IntN(len(s))] }

func (d dice) match() Match {
	m := Match{Path: PathMatch{PathKind(d.IntN(4)), ""}}
	switch m.Path.Kind {
	case PathExact:
		m.Path.Value = d.pick("/", "/a", "/a/", "/a/b", "/a/b/c")
	case PathPrefix:
		m.Path.Value = d.pick("/", "/", "/a", "/a/", "/a/b", "/ab")
	case PathRegex:
		m.Path.Value = d.pick("/a.*", ".*/b", "/[ab]", ".*")
	}
	if d.IntN(3) == 0 {
		m.Method = d.pick("GET", "PUT")
	}
	// Names differ within a match, as the model does not drop repetitions.
	for _, name := range []string{"h", "i"}[:d.IntN(3)] {
		m.Headers = append(m.Headers, ValueMatch{name, d.pick("1", "2", "1,2", "[12]"), d.IntN(4) == 0})
	}
	for _, name := range []string{"p", "q"}[:d.IntN(3)] {
		m.Query = append(m.Query, ValueMatch{name, d.pick("1", "2", "[12]"), d.IntN(4) == 0})
	}
	return m
}

func (d dice) request() *Request {
	r := &Request{Method: d.pick("GET", "PUT", "POST"), Path: d.pick("/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/b", "/x/b", "*")}
	for range d.IntN(4) {
		r.Headers = append(r.Headers, Field{d.pick("h", "i", "j"), d.pick("1", "2", "1,2", "3")})
	}
	var pairs []string
	for range d.IntN(3) {
		pairs = append(pairs, d.pick("p", "q")+"="+d.pick("1", "2"))
	}
	r.Query = strings.Join(pairs, "&")
	return r
}

func TestModel(t *testing.T) {
	for seed := range uint64(500) {
		d := dice{rand.New(rand.NewPCG(seed, 7))}
		var all []Rule
		for i := range 1 + d.IntN(40) {
			r := Rule{Name: fmt.Sprint(i)}
			for range 1 + d.IntN(2) {
				r.Matches = append(r.Matches, d.match())
			}
			all = append(all, r)
		}
		table := newTable(t, all)
		for range 20 {
			r := d.request()
			got := ""
			if rule, _, ok := table.Match(r); ok {
				got = rule.Name
			}
			if want := modelFind(all, r); got != want {
				t.Fatalf("seed %d: %+v follows rule %q, want %q", seed, *r, got, want)
			}
			table.Explain(r)
		}
	}
}
