package mesh

import (
	"slices"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// engines are the policies of one destination, compiled for requests and for
// connections whose inside is opaque.
type engines struct{ http, tcp *authz.Engine }

// takeEngines compiles what holds for a destination: the policies of everyone,
// of its namespace, and its own.
func (b *Builder) takeEngines(namespace string, own []*PolicySpec) *remembered[engines] {
	specs := slices.Concat(b.everyone.policies, own)
	if inside := b.inside[namespace]; inside != nil {
		specs = append(specs, inside.policies...)
	}
	slices.SortFunc(specs, byName)
	specs = slices.Compact(specs)
	return b.engines.take(fingerprint(specs), func() engines { return b.compileEngines(specs) })
}

// compileEngines needs no error: a policy that cannot be compiled denies, and
// was named when it was refused.
func (b *Builder) compileEngines(specs []*PolicySpec) engines {
	policies := make([]authz.Policy, len(specs))
	for i, p := range specs {
		policies[i] = p.Policy
	}
	http, _ := authz.Compile(policies, authz.Options{HTTP: true, Trust: b.gateway.Trust})
	tcp, _ := authz.Compile(policies, authz.Options{Trust: b.gateway.Trust})
	return engines{http, tcp}
}

// buildRoutes attaches the routes of one port: those of the service's own
// namespace or, if there is none, of the gateway; and those of each other
// namespace for its own clients.
func (b *Builder) buildRoutes(j *joint, port *Port) {
	var own []*RouteSpec
	consumers := make(map[string][]*RouteSpec)
	for _, r := range j.routes {
		switch {
		case !r.holdsFor(j.key, port.Number):
		case r.Namespace == j.spec.Namespace:
			own = append(own, r)
		default:
			consumers[r.Namespace] = append(consumers[r.Namespace], r)
		}
	}
	viaGateway := len(own) == 0
	if viaGateway {
		for _, r := range b.everyone.routes {
			if r.holdsFor("", port.Number) {
				own = append(own, r)
			}
		}
	}
	port.Routes = b.takeRoutes(j, own, viaGateway)
	for namespace, routes := range consumers {
		if port.Consumer == nil {
			port.Consumer = make(map[string]*Routes, len(consumers))
		}
		port.Consumer[namespace] = b.takeRoutes(j, routes, false)
	}
}

// holdsFor reports whether the route is attached to a port of a service, or to
// the gateway (no service).
func (r *RouteSpec) holdsFor(service string, port uint16) bool {
	return slices.ContainsFunc(r.Parents, func(p RouteParent) bool {
		return p.Service == service && (p.Port == 0 || p.Port == port)
	})
}

// takeRoutes compiles routes in order of precedence; nil for none. Only routes
// that are attached to the gateway ask for the host of a request.
func (b *Builder) takeRoutes(j *joint, specs []*RouteSpec, viaGateway bool) *Routes {
	if len(specs) == 0 {
		return nil
	}
	key := fingerprint(specs)
	if viaGateway {
		key = "gateway" + key
	}
	r := b.routes.take(key, func() *Routes { return compileRoutes(specs, viaGateway) })
	j.tables = append(j.tables, r)
	return r.value
}

// compileRoutes makes the tables of routes that are in order of precedence.
func compileRoutes(specs []*RouteSpec, viaGateway bool) *Routes {
	var counts [TCPRoute + 1]int
	for _, r := range specs {
		counts[r.Type] += max(1, len(r.Rules))
	}
	var rules [TCPRoute + 1][]route.Rule
	for _, r := range specs {
		if rules[r.Type] == nil {
			rules[r.Type] = make([]route.Rule, 0, counts[r.Type])
		}
		rules[r.Type] = r.appendRules(rules[r.Type], viaGateway)
	}
	out := &Routes{
		HTTP: compileTable(rules[HTTPRoute], route.NewTable),
		GRPC: compileTable(rules[GRPCRoute], route.NewTable),
		TLS:  compileTable(rules[TLSRoute], route.NewSNITable),
	}
	if tcp := rules[TCPRoute]; len(tcp) > 0 {
		out.TCP = &tcp[0] // nothing tells connections apart, so the first rule takes all
	}
	return out
}

// appendRules adds the rules as they are to be compiled: of a rejected route the
// one that fails closed.
func (r *RouteSpec) appendRules(rules []route.Rule, viaGateway bool) []route.Rule {
	if r.Rejected != "" {
		return append(rules, route.Rule{Route: r.Object(), Invalid: r.Rejected})
	}
	own := len(rules)
	rules = append(rules, r.Rules...)
	if viaGateway || r.Type == TLSRoute {
		for i := range rules[own:] {
			rules[own+i].Hosts = r.Hostnames
		}
	}
	return rules
}

// compileTable makes a table of rules, nil of none. Rules were checked when they
// came (see [route.Rule.Validate]); should one not compile nevertheless, nobody
// knows what it was to restrict, and all requests are refused.
func compileTable[T any](rules []route.Rule, compile func([]route.Rule) (*T, error)) *T {
	if len(rules) == 0 {
		return nil
	}
	t, err := compile(rules)
	if err != nil {
		t, _ = compile([]route.Rule{{Route: rules[0].Route, Invalid: err.Error()}}) // has nothing to fail on
	}
	return t
}
