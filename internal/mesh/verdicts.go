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
	if len(own) == 0 {
		for _, r := range b.everyone.routes {
			if r.holdsFor("", port.Number) {
				own = append(own, r)
			}
		}
	}
	port.Routes = b.takeRoutes(j, own)
	for namespace, routes := range consumers {
		if port.Consumer == nil {
			port.Consumer = make(map[string]*Routes, len(consumers))
		}
		port.Consumer[namespace] = b.takeRoutes(j, routes)
	}
}

// holdsFor reports whether the route is attached to a port of a service, or to
// the gateway (no service).
func (r *RouteSpec) holdsFor(service string, port uint16) bool {
	return slices.ContainsFunc(r.Parents, func(p RouteParent) bool {
		return p.Service == service && (p.Port == 0 || p.Port == port)
	})
}

// takeRoutes compiles routes in order of precedence; nil for none.
func (b *Builder) takeRoutes(j *joint, specs []*RouteSpec) *Routes {
	if len(specs) == 0 {
		return nil
	}
	r := b.routes.take(fingerprint(specs), func() *Routes { return compileRoutes(specs) })
	j.tables = append(j.tables, r)
	return r.value
}

// compileRoutes makes the tables of routes that are in order of precedence.
func compileRoutes(specs []*RouteSpec) *Routes {
	var http, grpc []route.Rule
	var tls []route.SNIRule
	out := new(Routes)
	for _, r := range specs {
		rules := r.rules()
		switch r.Type {
		case HTTPRoute:
			http = append(http, rules...)
		case GRPCRoute:
			grpc = append(grpc, rules...)
		case TLSRoute:
			for i := range rules {
				tls = append(tls, route.SNIRule{Hostnames: r.Hostnames, Rule: &rules[i]})
			}
		case TCPRoute:
			if out.TCP == nil && len(rules) > 0 { // nothing to tell connections apart by: the first takes all
				out.TCP = &rules[0]
			}
		}
	}
	if len(http) > 0 {
		out.HTTP, _ = route.NewTable(http)
	}
	return out
}

// rules returns the rules to compile: of a rejected route the one that fails
// closed.
func (r *RouteSpec) rules() []route.Rule {
	if r.Rejected == "" {
		return r.Rules
	}
	return []route.Rule{{Route: r.Object(), Invalid: r.Rejected}}
}
