package authz

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

var (
	trust  = identity.Trust{Domain: "mesh.example", Aliases: []string{"old.example"}}
	client = identity.ID{TrustDomain: "mesh.example", Namespace: "default", ServiceAccount: "client"}
)

// request is what every row starts from.
func request() *Request {
	return &Request{
		Peer: client, PeerAddr: netip.MustParseAddr("10.1.2.3"), Remote: netip.MustParseAddr("192.0.2.7"),
		Dest: netip.MustParseAddr("10.0.0.1"), Port: 8080, SNI: "db.example.com",
		Host: "reviews.default:8080", Method: "GET", Path: "/api/items",
		Headers: []Field{{"user-agent", "curl"}, {"x-role", "user"}},
	}
}

func compileOne(t *testing.T, http bool, p ...Policy) *Engine {
	t.Helper()
	e, err := Compile(p, Options{HTTP: http, Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func from(s Source) Rule    { return Rule{From: []Source{s}} }
func to(o Operation) Rule   { return Rule{To: []Operation{o}} }
func when(c Condition) Rule { return Rule{When: []Condition{c}} }

func policyOf(a Action, rules ...Rule) Policy {
	return Policy{Namespace: "default", Name: "p", Action: a, Rules: rules}
}

func headers(value ...string) func(*Request) {
	return func(r *Request) {
		r.Headers = nil
		for _, v := range value {
			r.Headers = append(r.Headers, Field{"x-role", v})
		}
	}
}

func host(h string) func(*Request) { return func(r *Request) { r.Host = h } }

// TestRules gives one rule to an ALLOW and to a DENY policy, and tells which
// requests match each: they differ where a request can be read in two ways.
func TestRules(t *testing.T) {
	role := func(v ...string) Rule { return when(Condition{Key: "request.headers[X-Role]", Values: v}) }
	notRole := func(v ...string) Rule { return when(Condition{Key: "request.headers[x-role]", NotValues: v}) }
	for _, tt := range []struct {
		name        string
		rule        Rule
		request     func(*Request)
		allow, deny bool // whether an ALLOW policy allows, a DENY policy denies
	}{
		{"the empty rule matches everything", Rule{}, nil, true, true},

		{"principal, exact", from(Source{Principals: []string{"mesh.example/ns/default/sa/client"}}), nil, true, true},
		{"principal with its scheme", from(Source{Principals: []string{"spiffe://mesh.example/ns/default/sa/client"}}), nil, true, true},
		{"principal of another account", from(Source{Principals: []string{"mesh.example/ns/default/sa/other"}}), nil, false, false},
		{"principal by an alias of the trust domain", from(Source{Principals: []string{"old.example/ns/default/sa/client"}}), nil, true, true},
		{"cluster.local stands for the mesh's own trust domain", from(Source{Principals: []string{"cluster.local/ns/default/sa/client"}}), nil, true, true},
		{"principal of another trust domain", from(Source{Principals: []string{"far.example/ns/default/sa/client"}}), nil, false, false},
		{"peer in an alias", from(Source{Principals: []string{"mesh.example/ns/default/sa/client"}}), func(r *Request) { r.Peer.TrustDomain = "old.example" }, true, true},
		{"peer in a foreign trust domain", from(Source{Principals: []string{"mesh.example/ns/default/sa/client"}}), func(r *Request) { r.Peer.TrustDomain = "far.example" }, false, false},
		{"principal, prefix", from(Source{Principals: []string{"mesh.example/ns/default/*"}}), nil, true, true},
		{"principal, prefix within a part", from(Source{Principals: []string{"mesh.example/ns/def*"}}), nil, true, true},
		{"principal, prefix within the domain", from(Source{Principals: []string{"mesh*"}}), nil, true, true},
		{"principal, prefix of an alias", from(Source{Principals: []string{"old.example/ns/default/sa/*"}}), nil, true, true},
		{"principal, prefix of another namespace", from(Source{Principals: []string{"mesh.example/ns/defaul/*"}}), nil, false, false},
		{"principal, suffix", from(Source{Principals: []string{"*/sa/client"}}), nil, true, true},
		{"principal, suffix within a part", from(Source{Principals: []string{"*ent"}}), nil, true, true},
		{"principal, suffix over parts", from(Source{Principals: []string{"*fault/sa/client"}}), nil, true, true},
		{"principal, any", from(Source{Principals: []string{"*"}}), nil, true, true},
		{"principal, any, of nobody", from(Source{Principals: []string{"*"}}), func(r *Request) { r.Peer = identity.ID{} }, false, false},
		{"notPrincipals, of nobody", from(Source{NotPrincipals: []string{"*"}}), func(r *Request) { r.Peer = identity.ID{} }, true, true},
		{"notPrincipals", from(Source{NotPrincipals: []string{"mesh.example/ns/default/sa/client"}}), nil, false, false},
		{"namespace", from(Source{Namespaces: []string{"other", "default"}}), nil, true, true},
		{"namespace, prefix", from(Source{Namespaces: []string{"def*"}}), nil, true, true},
		{"notNamespaces", from(Source{NotNamespaces: []string{"default"}}), nil, false, false},
		{"service account of the policy's namespace", from(Source{ServiceAccounts: []string{"client"}}), nil, true, true},
		{"service account with namespace", from(Source{ServiceAccounts: []string{"other/client"}}), nil, false, false},
		{"trust domain, alias", from(Source{TrustDomains: []string{"old.example"}}), nil, true, true},
		{"notTrustDomains", from(Source{NotTrustDomains: []string{"far.example"}}), nil, true, true},
		{"ipBlocks", from(Source{IPBlocks: []string{"10.1.0.0/16"}}), nil, true, true},
		{"ipBlocks, one address", from(Source{IPBlocks: []string{"10.1.2.4"}}), nil, false, false},
		{"ipBlocks, IPv4 in IPv6", from(Source{IPBlocks: []string{"10.1.2.3"}}), func(r *Request) { r.PeerAddr = netip.MustParseAddr("::ffff:10.1.2.3") }, true, true},
		{"ipBlocks look at the tunnel's peer alone", from(Source{IPBlocks: []string{"192.0.2.7"}}), nil, false, false},
		{"remoteIpBlocks", from(Source{RemoteIPBlocks: []string{"192.0.2.0/24"}}), nil, true, true},
		{"all fields of a source have to match", from(Source{Namespaces: []string{"default"}, IPBlocks: []string{"10.9.9.9"}}), nil, false, false},
		{"one source of several", Rule{From: []Source{{Namespaces: []string{"no"}}, {Namespaces: []string{"default"}}}}, nil, true, true},
		{"from and to", Rule{From: []Source{{Namespaces: []string{"default"}}}, To: []Operation{{Methods: []string{"POST"}}}}, nil, false, false},
		{"no token is ever present", from(Source{RequestPrincipals: []string{"*"}}), nil, false, false},
		{"notRequestPrincipals hold without a token", from(Source{NotRequestPrincipals: []string{"*"}}), nil, true, true},

		{"port", to(Operation{Ports: []uint16{8080}}), nil, true, true},
		{"notPorts", to(Operation{NotPorts: []uint16{8080}}), nil, false, false},
		{"method", to(Operation{Methods: []string{"GET"}}), nil, true, true},
		{"methods have case", to(Operation{Methods: []string{"get"}}), nil, false, false},
		{"path, prefix", to(Operation{Paths: []string{"/api/*"}}), nil, true, true},
		{"path, suffix", to(Operation{Paths: []string{"*/items"}}), nil, true, true},
		{"path, exact", to(Operation{Paths: []string{"/api"}}), nil, false, false},
		{"path, any", to(Operation{Paths: []string{"*"}}), nil, true, true},
		{"path, template", to(Operation{Paths: []string{"/{*}/items"}}), nil, true, true},
		{"notPaths", to(Operation{NotPaths: []string{"/healthz"}}), nil, true, true},

		{"host with its port", to(Operation{Hosts: []string{"reviews.default:8080"}}), nil, true, true},
		{"host without its port opens nothing, but restricts", to(Operation{Hosts: []string{"reviews.default"}}), nil, false, true},
		{"hosts have no case", to(Operation{Hosts: []string{"Reviews.Default:8080"}}), nil, true, true},
		{"host, port by wildcard", to(Operation{Hosts: []string{"reviews.default:*"}}), nil, true, true},
		{"host, suffix", to(Operation{Hosts: []string{"*.Default"}}), host("reviews.default"), true, true},
		{"host with a final dot", to(Operation{Hosts: []string{"reviews.default"}}), host("reviews.default."), false, true},
		{"host, IPv6 with port", to(Operation{Hosts: []string{"[::1]"}}), host("[::1]:80"), false, true},
		{"notHosts excludes in ALLOW whatever the port, excuses in DENY only the very host", to(Operation{NotHosts: []string{"reviews.default"}}), nil, false, true},

		{"header", role("user"), nil, true, true},
		{"header, absent", role("*"), headers(), false, false},
		{"header, present", role("*"), nil, true, true},
		{"header, empty is not present", role("*"), headers(""), false, false},
		{"header on two lines: DENY if any matches", role("admin"), headers("user", "admin"), false, true},
		{"header as a list is the same", role("admin"), headers("user,admin"), false, true},
		{"header as a list with spaces", role("admin"), headers("user, admin"), false, true},
		{"header, joined", role("user,admin"), headers("user", "admin"), true, true},
		{"header, joined, on one line", role("user,admin"), headers("user,admin"), true, true},
		{"header, prefix of the second line", role("adm*"), headers("user", "admin"), false, true},
		{"header, suffix of the joined list", role("*admin"), headers("user", "admin"), true, true},
		{"header, one of the lines is a list", role("a,b"), headers("a,b", "c"), false, true},
		{"header not UTF-8", role("\xff*"), headers("\xff\xfe"), true, true},
		{"header not UTF-8 does not hide what else is there", role("*admin"), headers("\xffadmin"), true, true},
		{"notValues exclude in ALLOW any line, excuse in DENY the whole", notRole("admin"), headers("user", "admin"), false, true},
		{"notValues, absent", notRole("admin"), headers(), true, true},
		{"header longer than the scratch buffer", role("*z"), headers(strings.Repeat("a", 2*joinSize), "z"), true, true},
		{"host by its header's name", when(Condition{Key: "request.headers[Host]", Values: []string{"reviews.default"}}), nil, false, true},
		{"cookies are joined by semicolons", when(Condition{Key: "request.headers[cookie]", Values: []string{"a=1; b=2"}}), func(r *Request) { r.Headers = []Field{{"cookie", "a=1"}, {"cookie", "b=2"}} }, true, true},

		{"source.ip", when(Condition{Key: "source.ip", Values: []string{"10.0.0.0/8"}}), nil, true, true},
		{"remote.ip", when(Condition{Key: "remote.ip", NotValues: []string{"192.0.2.7"}}), nil, false, false},
		{"source.namespace", when(Condition{Key: "source.namespace", Values: []string{"default"}}), nil, true, true},
		{"source.principal", when(Condition{Key: "source.principal", Values: []string{"cluster.local/ns/default/sa/client"}}), nil, true, true},
		{"source.serviceAccount", when(Condition{Key: "source.serviceAccount", Values: []string{"default/client"}}), nil, true, true},
		{"source.trustDomain", when(Condition{Key: "source.trustDomain", Values: []string{"far.example"}}), nil, false, false},
		{"destination.ip", when(Condition{Key: "destination.ip", Values: []string{"10.0.0.1"}}), nil, true, true},
		{"destination.port", when(Condition{Key: "destination.port", Values: []string{"8080", "9090"}}), nil, true, true},
		{"connection.sni", when(Condition{Key: "connection.sni", Values: []string{"*.Example.com"}}), nil, true, true},
		{"request.auth.claims", when(Condition{Key: "request.auth.claims[groups][a]", Values: []string{"*"}}), nil, false, false},
		{"all conditions have to match", Rule{When: []Condition{{Key: "source.namespace", Values: []string{"default"}}, {Key: "destination.port", Values: []string{"1"}}}}, nil, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request()
			if tt.request != nil {
				tt.request(r)
			}
			if got := compileOne(t, true, policyOf(Allow, tt.rule)).Check(r); got.Allowed != tt.allow {
				t.Errorf("ALLOW: %+v, want allowed=%v", got, tt.allow)
			}
			if got := compileOne(t, true, policyOf(Deny, tt.rule)).Check(r); got.Allowed == tt.deny {
				t.Errorf("DENY: %+v, want denied=%v", got, tt.deny)
			}
		})
	}
}

// TestOpaque quotes Istio: on a TCP port an ALLOW rule with HTTP fields never
// matches, a DENY rule does without them.
func TestOpaque(t *testing.T) {
	mixed := Rule{From: []Source{{Namespaces: []string{"default"}}}, To: []Operation{{Methods: []string{"POST"}, Ports: []uint16{8080}}}}
	l4 := Rule{From: []Source{{Namespaces: []string{"default"}}}, To: []Operation{{Ports: []uint16{8080}}}}
	for _, tt := range []struct {
		name    string
		action  Action
		rule    Rule
		allowed bool
	}{
		{"ALLOW without HTTP fields", Allow, l4, true},
		{"ALLOW with HTTP fields", Allow, mixed, false},
		{"DENY is wider", Deny, mixed, false},
		{"DENY of nothing but HTTP denies all", Deny, to(Operation{Paths: []string{"/admin"}}), false},
		{"DENY with another port", Deny, to(Operation{Paths: []string{"/admin"}, Ports: []uint16{1}}), true},
		{"DENY by header", Deny, when(Condition{Key: "request.headers[x]", Values: []string{"1"}}), false},
		{"DENY by token", Deny, from(Source{NotRequestPrincipals: []string{"*"}, Namespaces: []string{"other"}}), true},
		{"CUSTOM is wider", Custom, mixed, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Request{Peer: client, Port: 8080}
			if got := compileOne(t, false, policyOf(tt.action, tt.rule)).Check(r); got.Allowed != tt.allowed {
				t.Errorf("%+v, want allowed=%v", got, tt.allowed)
			}
		})
	}
}

func named(name string, p Policy) Policy {
	p.Name = name
	return p
}

func TestOrder(t *testing.T) {
	all := Rule{}
	none := to(Operation{Ports: []uint16{1}})
	allow, deny := named("allow", policyOf(Allow, all)), named("deny", policyOf(Deny, none, all))
	custom, audit := named("custom", policyOf(Custom, all)), named("audit", policyOf(Audit, all))
	invalid := Policy{Namespace: "default", Name: "bad", Invalid: "unknown field"}
	dry := named("dry", policyOf(Deny, all))
	dry.DryRun = true
	dryAllow := named("dry-allow", policyOf(Allow, none))
	dryAllow.DryRun = true
	for _, tt := range []struct {
		name     string
		policies []Policy
		want     Decision
	}{
		{"no policy", nil, Decision{Allowed: true, Reason: Unrestricted, Rule: -1}},
		{"no ALLOW policy", []Policy{named("x", policyOf(Deny, none))}, Decision{Allowed: true, Reason: Unrestricted, Rule: -1}},
		{"ALLOW", []Policy{allow}, Decision{Allowed: true, Reason: AllowedByRule, Policy: "default/allow", Rule: 0}},
		{
			"ALLOW without rules denies",
			[]Policy{policyOf(Allow)},
			Decision{Reason: NotAllowed, Rule: -1, Details: "rbac_access_denied_matched_policy[none]"},
		},
		{
			"DENY before ALLOW",
			[]Policy{allow, deny},
			Decision{Reason: DeniedByRule, Policy: "default/deny", Rule: 1, Details: "rbac_access_denied_matched_policy[ns[default]-policy[deny]-rule[1]]"},
		},
		{
			"CUSTOM before DENY",
			[]Policy{deny, custom},
			Decision{Reason: NoAuthorizer, Policy: "default/custom", Rule: 0, Details: "rbac_access_denied_matched_policy[ns[default]-policy[custom]-rule[0]]"},
		},
		{"AUDIT marks", []Policy{audit, allow}, Decision{Allowed: true, Reason: AllowedByRule, Policy: "default/allow", Audit: "default/audit"}},
		{
			"a rejected policy denies",
			[]Policy{allow, invalid},
			Decision{Reason: InvalidPolicy, Policy: "default/bad", Rule: -1, Details: "rbac_access_denied_invalid_policy"},
		},
		{
			"dry runs are told, not enforced",
			[]Policy{dry, dryAllow},
			Decision{Allowed: true, Reason: Unrestricted, Rule: -1, DryRun: []DryRun{{"default/dry", false}, {"default/dry-allow", false}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := compileOne(t, true, tt.policies...)
			got := e.Check(request())
			gotDry, wantDry := got.DryRun, tt.want.DryRun
			if len(gotDry) != len(wantDry) {
				t.Fatalf("dry runs %v, want %v", gotDry, wantDry)
			}
			for i := range gotDry {
				if gotDry[i] != wantDry[i] && gotDry[i] != wantDry[len(wantDry)-1-i] {
					t.Errorf("dry runs %v, want %v", gotDry, wantDry)
				}
			}
			got.DryRun, tt.want.DryRun = nil, nil
			if !equal(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func equal(a, b Decision) bool {
	return a.Allowed == b.Allowed && a.Reason == b.Reason && a.Policy == b.Policy && a.Rule == b.Rule && a.Details == b.Details && a.Audit == b.Audit
}

func TestNilEngineDenies(t *testing.T) {
	if d := (*Engine)(nil).Check(&Request{}); d.Allowed || d.Reason != NotCompiled {
		t.Errorf("%+v", d)
	}
}

// TestRefused says for each bad policy which field is named, and that it denies
// whatever its action.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rule  Rule
		field string
	}{
		{"empty source", from(Source{}), "rules[0].from[0].source"},
		{"empty operation", to(Operation{}), "rules[0].to[0].operation"},
		{"condition without values", when(Condition{Key: "source.ip"}), "rules[0].when[0]"},
		{"unknown key", when(Condition{Key: "source.ipp", Values: []string{"x"}}), "rules[0].when[0].key"},
		{"filter metadata", when(Condition{Key: "experimental.envoy.filters.a[b]", Values: []string{"x"}}), "rules[0].when[0].key"},
		{"pseudo header", when(Condition{Key: "request.headers[:path]", Values: []string{"x"}}), "rules[0].when[0].key"},
		{"no header name", when(Condition{Key: "request.headers[]", Values: []string{"x"}}), "rules[0].when[0].key"},
		{"bad CIDR", from(Source{IPBlocks: []string{"10.0.0.0/33"}}), "ipBlocks"},
		{"bad address", from(Source{NotRemoteIPBlocks: []string{"10.0.0"}}), "notRemoteIpBlocks"},
		{"bad principal", from(Source{Principals: []string{"client"}}), "principals"},
		{"bad principal prefix", from(Source{Principals: []string{"mesh.example/sa/*"}}), "principals"},
		{"bad principal suffix", from(Source{Principals: []string{"*/ns/client"}}), "principals"},
		{"wildcard account", from(Source{ServiceAccounts: []string{"default/*"}}), "serviceAccounts"},
		{"bad port", when(Condition{Key: "destination.port", Values: []string{"http"}}), "values"},
		{"bad template", to(Operation{Paths: []string{"/a{*}"}}), "paths"},
		{"template after the rest", to(Operation{Paths: []string{"/{**}/{*}"}}), "paths"},
		{"empty value", to(Operation{Hosts: []string{""}}), "hosts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, action := range []Action{Allow, Deny} {
				p := policyOf(action, tt.rule)
				if err := p.Validate(); err == nil || !strings.Contains(err.Error(), tt.field) || !strings.Contains(err.Error(), "default/p") {
					t.Errorf("error %v does not name %s of default/p", err, tt.field)
				}
				e, err := Compile([]Policy{policyOf(Allow, Rule{}), p}, Options{HTTP: true, Trust: trust})
				if err == nil {
					t.Error("no error")
				}
				if d := e.Check(request()); d.Allowed || d.Reason != InvalidPolicy {
					t.Errorf("not denied: %+v", d)
				}
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	for _, tt := range []struct {
		template string
		match    string
		differ   string // separated by spaces
	}{
		{"/foo/{*}", "/foo/bar", "/foo /foo/ /foo/a/b /fo/a"},
		{"/foo/{*}/", "/foo/bar/", "/foo/bar /foo//"},
		{"/{*}", "/a", "/ /a/b"},
		{"/{*}/b/{*}", "/a/b/c", "/a/b/ /a/c/b /a/b/c/d"},
		{"/foo/{**}", "/foo/ /foo/a /foo/a/b", "/foo /fooa"},
		{"/foo/{**}/bar", "/foo/a/bar /foo/a/b/bar", "/foo/bar /foo/a/bar/x"},
		{"/{*}/x/{**}", "/a/x/ /a/x/y/z", "/a/x /x/a/y"},
		{"/{**}", "/ /a/b", "a"},
	} {
		tpl, err := parseTemplate(tt.template)
		if err != nil {
			t.Fatal(tt.template, err)
		}
		for s := range strings.FieldsSeq(tt.match) {
			if !tpl.match(s) {
				t.Errorf("%s does not match %s", tt.template, s)
			}
		}
		for s := range strings.FieldsSeq(tt.differ) {
			if tpl.match(s) {
				t.Errorf("%s matches %s", tt.template, s)
			}
		}
	}
}

// TestExplainOpaque: where nothing of HTTP can be seen, the answer says what that
// does to a policy that is about HTTP.
func TestExplainOpaque(t *testing.T) {
	get := to(Operation{Methods: []string{"GET"}})
	for action, want := range map[Action]Step{
		Allow: {Rule: -1, Why: "all of its rules look at HTTP, of which nothing can be seen here, and so it matches nothing"},
		Deny:  {Matched: true, Why: "as what it says of HTTP is left out: nothing of HTTP can be seen here"},
	} {
		want.Policy, want.Action = "default/p", action.String()
		d, steps := compileOne(t, false, policyOf(action, get)).Explain(request())
		if d.Allowed || len(steps) != 1 || steps[0] != want {
			t.Errorf("%v: %+v, want %+v", d.Allowed, steps, want)
		}
	}
}

func TestExplain(t *testing.T) {
	deny := named("deny", policyOf(Deny, to(Operation{Paths: []string{"/admin"}}), when(Condition{Key: "request.headers[x-role]", Values: []string{"admin"}})))
	allow := named("allow", policyOf(Allow, from(Source{Principals: []string{"mesh.example/ns/other/sa/a"}}), from(Source{Namespaces: []string{"default"}}), Rule{}))
	e := compileOne(t, true, allow, deny)
	d, steps := e.Explain(request())
	if !d.Allowed || d.Rule != 1 || len(steps) != 4 {
		t.Fatalf("%+v %+v", d, steps)
	}
	for i, want := range []string{
		`rules[0].to[0].operation.paths: the path "/api/items" is none of ["/admin"]`,
		`rules[1].when[0].values: the header "x-role", "user", is none of ["admin"]`,
		`rules[0].from[0].source.principals: the peer mesh.example/ns/default/sa/client is none of ["mesh.example/ns/other/sa/a"]`,
		"",
	} {
		if steps[i].Why != want {
			t.Errorf("step %d: %s\nwant %s", i, steps[i].Why, want)
		}
	}
}
