package route

import (
	"fmt"
	"strings"
	"testing"
)

func exact(p string) Match  { return Match{Path: PathMatch{PathExact, p}} }
func prefix(p string) Match { return Match{Path: PathMatch{PathPrefix, p}} }
func regex(p string) Match  { return Match{Path: PathMatch{PathRegex, p}} }
func grpc(service, method string) Match {
	return Match{GRPC: &GRPCMatch{Service: service, Method: method}}
}

func grpcRegex(service, method string) Match { return Match{GRPC: &GRPCMatch{service, method, true}} }

func (m Match) method(s string) Match { m.Method = s; return m }
func (m Match) header(name, value string) Match {
	m.Headers = append(m.Headers, ValueMatch{Name: name, Value: value})
	return m
}

func (m Match) headerRegex(name, value string) Match {
	m.Headers = append(m.Headers, ValueMatch{name, value, true})
	return m
}

func (m Match) query(name, value string) Match {
	m.Query = append(m.Query, ValueMatch{Name: name, Value: value})
	return m
}

// rules makes one rule of each match, named by its index.
func rules(matches ...Match) []Rule {
	out := make([]Rule, len(matches))
	for i, m := range matches {
		out[i] = Rule{Route: "HTTPRoute default/r", Name: fmt.Sprint(i), Matches: []Match{m}}
	}
	return out
}

func newTable(t testing.TB, rules []Rule) *Table {
	t.Helper()
	table, err := NewTable(rules)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// get reads "METHOD /path?query name: value, ...": a request in one line.
func get(line string) *Request {
	fields := strings.Split(line, " | ")
	method, target, _ := strings.Cut(fields[0], " ")
	r := &Request{Method: method, Host: "echo"}
	r.Path, r.Query, _ = strings.Cut(target, "?")
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, ": ")
		r.Headers = append(r.Headers, Field{name, value})
	}
	return r
}

// TestMatch has a table of rules and, for requests, the index of the rule that
// each follows; -1 for none.
func TestMatch(t *testing.T) {
	type want map[string]int
	for _, tt := range []struct {
		name  string
		rules []Rule
		want  want
	}{
		{"no rule", nil, want{"GET /": -1}},
		{"a rule without matches takes everything", []Rule{{Name: "0"}}, want{"GET /x": 0, "OPTIONS *": 0}},
		{
			"PathPrefix matches whole segments", rules(prefix("/v2")),
			want{"GET /v2": 0, "GET /v2/": 0, "GET /v2/x": 0, "GET /v2example": -1, "GET /": -1, "GET /v": -1},
		},
		{"a slash at the end of a prefix does not count", rules(prefix("/v2/")), want{"GET /v2": 0, "GET /v2/x": 0}},
		{"exact", rules(exact("/a"), exact("/"), exact("/a/b/")), want{"GET /a": 0, "GET /a/": -1, "GET /": 1, "GET /a/b/": 2, "GET /a/b": -1, "OPTIONS *": -1}},
		{"paths have case", rules(exact("/A"), prefix("/B")), want{"GET /a": -1, "GET /b/x": -1}},
		{"values are normalised as paths are", rules(exact("/%61%2fb"), prefix("/é")), want{"GET /a%2Fb": 0, "GET /%C3%A9/x": 1}},
		{"regular expressions match the whole path", rules(regex("/a[0-9]+")), want{"GET /a1": 0, "GET /a1/": -1, "GET /xa1": -1}},
		{"alternatives of a regular expression too", rules(regex("/a|/b")), want{"GET /b": 0, "GET /bc": -1, "GET /xa": -1}},
		{"exact beats prefix", rules(prefix("/a/b"), exact("/a/b")), want{"GET /a/b": 1, "GET /a/b/": 0}},
		{"the longest prefix wins", rules(prefix("/"), prefix("/a"), prefix("/a/b")), want{"GET /x": 0, "GET /a": 1, "GET /a/bc": 1, "GET /a/b/c": 2}},
		{
			"a shorter prefix takes what the longer ones leave", rules(prefix("/a").header("x", "1"), prefix("/a/b").header("x", "2"), prefix("/")),
			want{"GET /a/b | x: 1": 0, "GET /a/b | x: 2": 1, "GET /a/b": 2},
		},
		{"an exact path leaves to prefixes what it does not take", rules(exact("/a").method("POST"), prefix("/a")), want{"GET /a": 1, "POST /a": 0}},
		{"a prefix beats a regular expression", rules(regex("/a/.*"), prefix("/a")), want{"GET /a/b": 1}},
		{"a regular expression beats what matches everything", rules(prefix("/"), regex("/a/.*")), want{"GET /a/b": 1, "GET /b": 0}},
		{"/ with a header beats a regular expression", rules(regex("/a/.*"), prefix("/").header("x", "1")), want{"GET /a/b | x: 1": 1, "GET /a/b": 0}},
		{"the longer regular expression first", rules(regex("/a.*"), regex("/a/b.*")), want{"GET /a/b": 1, "GET /a": 0}},
		{"method before headers", rules(prefix("/a").header("x", "1").header("y", "1"), prefix("/a").method("GET")), want{"GET /a | x: 1 | y: 1": 1, "PUT /a | x: 1 | y: 1": 0}},
		{"most headers", rules(prefix("/").header("x", "1"), prefix("/").header("x", "1").header("y", "1")), want{"GET / | x: 1 | y: 1": 1, "GET / | x: 1": 0}},
		{"headers before query parameters", rules(prefix("/").query("a", "1").query("b", "1"), prefix("/").header("x", "1")), want{"GET /?a=1&b=1 | x: 1": 1}},
		{"most query parameters", rules(prefix("/").query("a", "1"), prefix("/").query("a", "1").query("b", "1")), want{"GET /?a=1&b=1": 1}},
		{"then the first given", rules(prefix("/a"), prefix("/a"), exact("/b"), exact("/b")), want{"GET /a": 0, "GET /b": 2}},
		{"a path beats any number of query parameters", rules(prefix("/").query("animal", "whale"), prefix("/path5")), want{"GET /path5?animal=whale": 1}},
		{
			"matches of a rule are alternatives",
			[]Rule{{Name: "0", Matches: []Match{prefix("/"), prefix("/").header("version", "one")}}, {Name: "1", Matches: []Match{prefix("/v2"), prefix("/").header("version", "two")}}},
			want{"GET /": 0, "GET /example": 0, "GET / | version: one": 0, "GET /v2": 1, "GET /v2/example": 1, "GET / | version: two": 1, "GET /v2example": 0},
		},

		{"header values have case, names in rules do not", rules(prefix("/").header("X-Role", "A")), want{"GET / | x-role: A": 0, "GET / | x-role: a": -1, "GET /": -1}},
		{"lines of one header are a list", rules(prefix("/").header("x", "a,b")), want{"GET / | x: a | x: b": 0, "GET / | x: a,b": 0, "GET / | x: a": -1, "GET / | x: b | x: a": -1}},
		{"one value is not the list", rules(prefix("/").header("x", "a")), want{"GET / | x: a | x: b": -1}},
		{"regular expression of a header", rules(prefix("/").headerRegex("x", "v[0-9]")), want{"GET / | x: v1": 0, "GET / | x: v12": -1, "GET / | x: \xffv1": -1}},
		{"bytes that are not UTF-8 match like others", rules(prefix("/").headerRegex("x", ".*1")), want{"GET / | x: \xff\xfe1": 0}},
		{"of two matches of one header the first counts", rules(prefix("/").header("x", "1").header("X", "2")), want{"GET / | x: 1": 0, "GET / | x: 2": -1}},
		{"host", rules(prefix("/").header("Host", "echo")), want{"GET /": 0}},
		{"an empty header is not absent", rules(prefix("/").headerRegex("x", ".*")), want{"GET / | x: ": 0, "GET /": -1}},

		{"query parameters are unescaped", rules(prefix("/").query("a b", "c&d")), want{"GET /?a+b=c%26d": 0, "GET /?a%20b=c%26d": 0, "GET /?a b=c": -1}},
		{"the first of several parameters counts", rules(prefix("/").query("a", "1")), want{"GET /?a=1&a=2": 0, "GET /?a=2&a=1": -1, "GET /?b=3&a=1": 0}},
		{"a parameter without value", rules(prefix("/").query("a", "")), want{"GET /?a": 0, "GET /?&a=": 0, "GET /": -1}},
		{"parameters have case", rules(prefix("/").query("A", "1")), want{"GET /?a=1": -1}},

		{
			"gRPC", rules(grpc("foo.Bar", "Login"), grpc("foo.Bar", ""), grpc("", "Login"), grpc("", "")),
			want{"POST /foo.Bar/Login": 0, "POST /foo.Bar/Logout": 1, "POST /x.Y/Login": 2, "POST /x.Y/Other": 3, "POST /foo.bar/login": 3},
		},
		{"gRPC, none", rules(grpc("foo.Bar", "Login")), want{"POST /foo.Bar/Logout": -1, "POST /foo.Bar/Login/x": -1, "POST /Login": -1}},
		{"gRPC, regular expressions", rules(grpcRegex("foo\\..*", "Log(in|out)"), grpcRegex("", "Ping"), grpc("", "").header("x", "1")), want{"POST /foo.Bar/Login": 0, "POST /foo/Login": -1, "POST /a/Ping": 1, "POST /a/Pings": -1, "POST /a/Ping | x: 1": 1, "POST /a/b | x: 1": 2}},
		{"gRPC, the longest service", rules(grpc("", "Login").header("x", "1"), grpc("foo.Bar", "")), want{"POST /foo.Bar/Login | x: 1": 1}},
		{"gRPC, most headers", rules(grpc("a", "b"), grpc("a", "b").header("x", "1")), want{"POST /a/b | x: 1": 1, "POST /a/b": 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable(t, tt.rules)
			for line, want := range tt.want {
				checkMatch(t, table, get(line), want)
			}
		})
	}
}

func checkMatch(t *testing.T, table *Table, r *Request, want int) {
	t.Helper()
	rule, m, ok := table.Match(r)
	got := -1
	if ok {
		fmt.Sscan(rule.Name, &got)
	}
	if got != want || ok && m == nil {
		t.Errorf("%+v follows rule %d, want %d", *r, got, want)
	}
	tried, _ := table.Explain(r)
	if ok && (len(tried) == 0 || tried[len(tried)-1].Why != "" || tried[len(tried)-1].Rule != rule.Name) {
		t.Errorf("%+v: Explain tells %+v, which does not end with rule %s", *r, tried, rule.Name)
	}
	for _, e := range tried {
		if !ok && e.Why == "" {
			t.Errorf("%+v: Explain tells of a match: %+v", *r, e)
		}
	}
}

func TestHosts(t *testing.T) {
	all := rules(prefix("/"), prefix("/long/path"), prefix("/"), prefix("/a"), prefix("/"))
	all[0].Hosts = []string{"*.Example.com"}
	all[2].Hosts = []string{"api.example.com", "api.example.org"}
	all[3].Hosts = []string{"api.example.com"}
	all[4].Hosts = []string{"*.eu.example.com"}
	table := newTable(t, all)
	for _, tt := range []struct {
		host, path string
		want       int
	}{
		{"x.example.com", "/", 0},
		{"X.EXAMPLE.com:8080", "/", 0},
		{"a.b.example.com", "/", 0},
		{"x.eu.example.com.", "/", 4},
		{"example.com", "/", -1},
		{"api.example.com", "/a/b", 3},
		{"api.example.com", "/", 2},
		{"api.example.org", "/a", 2},
		{"other", "/long/path", 1},
		{"x.example.com", "/long/path", 0}, // the host counts before the path
		{"", "/", -1},
	} {
		checkMatch(t, table, &Request{Method: "GET", Host: tt.host, Path: tt.path}, tt.want)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{Matches: []Match{exact("a")}}, "does not start"},
		{Rule{Matches: []Match{prefix("")}}, "does not start"},
		{Rule{Matches: []Match{exact("/a b")}}, "space"},
		{Rule{Matches: []Match{regex("a(")}}, "missing closing"},
		{Rule{Matches: []Match{regex("a)|(b")}}, "unexpected )"},
		{Rule{Matches: []Match{regex(strings.Repeat("a", 1025))}}, "1025 bytes"},
		{Rule{Matches: []Match{regex(strings.Repeat("(a{100}){9}", 13))}}, "instructions"},
		{Rule{Matches: []Match{{}, prefix("/").headerRegex("x", "[")}}, "matches[1]: headers[0], x"},
		{Rule{Matches: []Match{prefix("/").query("", "1")}}, "queryParams[0]"},
		{Rule{Matches: []Match{grpc("a/b", "c")}}, "slash"},
		{Rule{Hosts: []string{"a*.b"}}, "hostnames"},
		{Rule{Filters: []Filter{&HeaderModifier{Set: []Field{{"x", "a\r\nb"}}}}}, "filters[0]: header x"},
		{Rule{Filters: []Filter{&HeaderModifier{Remove: []string{"X"}}}}, "lower case"},
		{Rule{Backends: []Backend{{Filters: []Filter{&HeaderModifier{Add: []Field{{"", ""}}}}}}}, "backends[0].filters[0]"},
		{Rule{Filters: []Filter{&Redirect{Status: 200}}}, "statusCode"},
		{Rule{Filters: []Filter{&Redirect{Status: 301, Scheme: "ftp"}}}, "scheme"},
		{Rule{Filters: []Filter{&Redirect{Status: 301, Hostname: "a/b"}}}, "hostname"},
		{Rule{Filters: []Filter{&Rewrite{Hostname: "*.a"}}}, "hostname"},
		{Rule{Filters: []Filter{&Rewrite{Path: &PathRewrite{Full: true, Value: "/a?b"}}}}, "escaped"},
		{Rule{Matches: []Match{exact("/a")}, Filters: []Filter{&Rewrite{Path: &PathRewrite{Value: "/a"}}}}, "matches[0]"},
		{Rule{Filters: []Filter{&Mirror{}}}, "denominator"},
		{Rule{Filters: []Filter{&CORS{AllowMethods: []string{"GET\r"}}}}, "cors"},
	} {
		tt.rule.Route, tt.rule.Name = "HTTPRoute default/r", "n"
		if err := tt.rule.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "HTTPRoute default/r rule n") {
			t.Errorf("%+v: %v, want %q", tt.rule, err, tt.want)
		}
	}
	good := Rule{Matches: []Match{prefix("/a")}, Filters: []Filter{
		&Rewrite{Hostname: "a.b", Path: &PathRewrite{Value: "/x"}}, &Mirror{Denominator: 1}, &CORS{AllowOrigins: []string{"*"}},
		&HeaderModifier{Set: []Field{{"x-a", "1 2"}}, Remove: []string{"y"}}, &Redirect{Status: 301, Scheme: "https"},
	}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestExplainIsBounded(t *testing.T) {
	var all []Match
	for i := range 1000 {
		all = append(all, prefix(fmt.Sprint("/", i)), prefix("/x").header("h", fmt.Sprint(i)))
	}
	table := newTable(t, rules(append(all, prefix("/x/y").method("PUT"), prefix("/"))...))
	tried, more := table.Explain(get("GET /x/y | h: none"))
	if len(tried) != maxTried || len(tried)+more != 2002 || tried[maxTried-1].Why != "" {
		t.Errorf("%d told, %d more, last %+v", len(tried), more, tried[len(tried)-1])
	}
	tried, _ = table.Explain(get("GET /none"))
	if len(tried) != 1 || tried[0].Match != "/*" {
		t.Errorf("of nothing but far matches only the one that holds is told: %+v", tried)
	}
}

func TestMatchString(t *testing.T) {
	for want, m := range map[string]Match{
		"/*":                 {},
		"GET /a/* x: 1 ?q=2": prefix("/a/").method("GET").header("x", "1").query("q", "2"),
		"/a":                 exact("/a"),
		"~/a.*":              regex("/a.*"),
		"/foo.Bar/*":         grpc("foo.Bar", ""),
		"/~a/~b x: ~v.*":     grpcRegex("a", "b").headerRegex("x", "v.*"),
		"/*/Login ":          {Method: "", GRPC: &GRPCMatch{Method: "Login"}, Headers: nil},
		"PUT /* x: 1":        Match{}.method("PUT").header("x", "1"),
	} {
		if got := m.String(); got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSNI(t *testing.T) {
	table, err := NewSNITable([]Rule{
		{Name: "0", Hosts: []string{"a.example.com", "*.example.com"}},
		{Name: "1", Hosts: []string{"a.example.com", "*.b.example.com"}},
		{Name: "2"},
		{Name: "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for sni, want := range map[string]string{
		"a.example.com": "0", "A.Example.com": "0", "c.example.com": "0", "x.b.example.com": "1", "example.com": "2", "": "2", "other": "2",
	} {
		if r, ok := table.Match(sni); !ok || r.Name != want {
			t.Errorf("%q follows %+v, want %s", sni, r, want)
		}
	}
	only, err := NewSNITable([]Rule{{Hosts: []string{"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := only.Match("b"); ok {
		t.Error("matched another server name")
	}
	if _, err := NewSNITable([]Rule{{Hosts: []string{"a b"}}}); err == nil {
		t.Error("took a bad host name")
	}
}

func TestPick(t *testing.T) {
	r := &Rule{Backends: []Backend{{Service: "none"}, {Service: "a", Weight: 70}, {Service: "b", Weight: 30}}}
	count := map[string]int{}
	const n = 1 << 16
	for i := range uint32(n) {
		count[r.Pick(i<<16).Service]++
	}
	if a := float64(count["a"]) / n; a < 0.699 || a > 0.701 || count["none"] != 0 {
		t.Errorf("shares %v", count)
	}
	if b := (&Rule{Backends: []Backend{{}}}).Pick(1 << 31); b != nil {
		t.Errorf("picked %+v without weight", b)
	}
	if b := r.Pick(1<<32 - 1); b.Service != "b" {
		t.Errorf("the largest number picks %+v", b)
	}
}

func TestIsGRPC(t *testing.T) {
	for ct, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc;x=1": true, "Application/GRPC": true,
		"application/grpc-web": false, "application/grpcx": false, "application/json": false, "": false,
	} {
		if IsGRPC(ct) != want {
			t.Errorf("%q: %v", ct, !want)
		}
	}
}
