package route

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// entry is one match of one rule, compiled.
type entry struct {
	rule  *Rule
	match *Match
	order int // of its match among all of the table's, as they were given

	class   rank
	length  int            // of what is fixed of the path, or the pattern
	length2 int            // of the gRPC method
	path    *regexp.Regexp // for the whole path
	service *regexp.Regexp // for the halves of a gRPC path; nil: any
	rpc     *regexp.Regexp
	headers []valueTest
	query   []valueTest
}

// rank is the first thing that precedence looks at.
type rank uint8

// The ranks, strongest first. The Gateway API leaves the place of regular
// expressions open. As in Istio, they come after prefixes, "/" with further
// conditions among these, and before what matches every request. For gRPC
// methods they come before entries that look at headers only, since there the
// length of the service that matches is what counts first (GRPCRouteRule.matches).
const (
	rankExact     rank = iota
	rankPrefix         // other than "/"
	rankMethod         // a gRPC method of any service
	rankGRPCRegex      //
	rankRoot           // any path, and a further condition
	rankRegex
	rankAll // every request
)

// valueTest compares one header or query parameter.
type valueTest struct {
	name, value string
	regex       *regexp.Regexp
}

// matches compares s, or b if it is not nil.
func (t *valueTest) matches(s string, b []byte) bool {
	switch {
	case t.regex == nil && b == nil:
		return s == t.value
	case t.regex == nil:
		return string(b) == t.value
	case b == nil:
		return t.regex.MatchString(s)
	}
	return t.regex.MatchString(string(b))
}

// byPrecedence is the whole order of the Gateway API (HTTPRouteRule.matches and
// GRPCRouteRule.matches): the kind of path, the longest path, the method, the
// most headers, the most query parameters, then the order in which the rules were
// given, which is that of their routes' age and name.
func byPrecedence(a, b *entry) int {
	if c := cmp.Compare(a.class, b.class); c != 0 { // most are settled by the first two
		return c
	}
	if c := cmp.Compare(b.length, a.length); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(b.length2, a.length2),
		-compareBool(a.match.Method != "", b.match.Method != ""),
		cmp.Compare(len(b.headers), len(a.headers)),
		cmp.Compare(len(b.query), len(a.query)),
		cmp.Compare(a.order, b.order),
	)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// matches tests all that the entry's place in the table leaves open.
func (e *entry) matches(r *Request) bool {
	return e.matchesMethod(r) && e.matchesPattern(r.Path) && e.failedHeader(r) == nil && e.failedQuery(r) == nil
}

func (e *entry) matchesMethod(r *Request) bool {
	return e.match.Method == "" || e.match.Method == r.Method
}

func (e *entry) matchesPattern(path string) bool {
	switch e.class {
	case rankRegex:
		return e.path.MatchString(path)
	case rankGRPCRegex:
		service, rpc, ok := splitRPC(path)
		return ok && (e.service == nil || e.service.MatchString(service)) && (e.rpc == nil || e.rpc.MatchString(rpc))
	}
	return true
}

// failedHeader returns the first header that does not match.
func (e *entry) failedHeader(r *Request) *valueTest {
	for i := range e.headers {
		var scratch [scratchSize]byte
		if s, b, ok := r.header(e.headers[i].name, scratch[:0]); !ok || !e.headers[i].matches(s, b) {
			return &e.headers[i]
		}
	}
	return nil
}

// failedQuery returns the first query parameter that does not match.
func (e *entry) failedQuery(r *Request) *valueTest {
	for i := range e.query {
		var scratch [scratchSize]byte
		if s, b, ok := parameter(r.Query, e.query[i].name, scratch[:0]); !ok || !e.query[i].matches(s, b) {
			return &e.query[i]
		}
	}
	return nil
}

// compile fills in e from its match.
func (e *entry) compile() (err error) {
	m := e.match
	if m.GRPC != nil {
		err = e.compileGRPC(m.GRPC)
	} else {
		err = e.compilePath(&m.Path)
	}
	if err != nil {
		return err
	}
	if e.headers, err = newTests("headers", m.Headers, strings.ToLower); err != nil {
		return err
	}
	if e.query, err = newTests("queryParams", m.Query, func(s string) string { return s }); err != nil {
		return err
	}
	if e.class == rankRoot && m.Method == "" && len(e.headers)+len(e.query) == 0 {
		e.class = rankAll
	}
	return nil
}

// compilePath takes a path in its normal form.
func (e *entry) compilePath(m *PathMatch) (err error) {
	switch m.Kind {
	case PathAny:
		e.class = rankRoot
	case PathExact, PathPrefix:
		e.class, e.length = rankExact, len(m.Value)
		if m.Kind == PathPrefix {
			e.class, e.length = rankPrefix, len(strings.TrimSuffix(m.Value, "/"))
		}
		if m.Kind == PathPrefix && m.Value == "/" {
			e.class = rankRoot
		}
	case PathRegex:
		e.class, e.length = rankRegex, len(m.Value)
		if e.path, err = compileRegex(m.Value); err != nil {
			return fmt.Errorf("path: %w", err)
		}
	default:
		return fmt.Errorf("path: kind %d is unknown", m.Kind)
	}
	return nil
}

// newTests compiles matches of headers or query parameters. Of several with one
// name the first counts (HTTPRouteMatch.headers).
func newTests(field string, matches []ValueMatch, normal func(string) string) ([]valueTest, error) {
	if len(matches) == 0 {
		return nil, nil
	}
	tests := make([]valueTest, 0, len(matches))
	for i, m := range matches {
		t := valueTest{name: normal(m.Name), value: m.Value}
		if t.name == "" {
			return nil, fmt.Errorf("%s[%d]: name is empty", field, i)
		}
		if slices.ContainsFunc(tests, func(earlier valueTest) bool { return earlier.name == t.name }) {
			continue
		}
		if m.Regex {
			var err error
			if t.regex, err = compileRegex(m.Value); err != nil {
				return nil, fmt.Errorf("%s[%d], %s: %w", field, i, m.Name, err)
			}
		}
		tests = append(tests, t)
	}
	return tests, nil
}

// condition is e's own condition without its place, for telling whether two
// entries of one place match the same requests.
func (e *entry) condition() string {
	var b strings.Builder
	for _, s := range []string{e.match.Method, regexText(e.path), regexText(e.service), regexText(e.rpc)} {
		b.WriteString(strconv.Quote(s))
	}
	for _, tests := range [][]valueTest{e.headers, e.query} {
		for i := range tests {
			fmt.Fprintf(&b, "%q=%q~%q,", tests[i].name, tests[i].value, regexText(tests[i].regex))
		}
		b.WriteByte(';')
	}
	return b.String()
}

func regexText(re *regexp.Regexp) string {
	if re == nil {
		return ""
	}
	return re.String()
}
