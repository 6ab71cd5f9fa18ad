package compile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// routeOf gives a rejected route for a resource that was refused, or one of whose
// matches does not compile: nobody knows which requests that rule was to take.
func routeOf(r *waypointv1.Route) (*mesh.RouteSpec, error) {
	kind, err := routeType(r.GetKind())
	out := &mesh.RouteSpec{
		Type:      kind,
		Namespace: r.GetNamespace(),
		Name:      r.GetName(),
		Hostnames: r.GetHostnames(),
		Rejected:  r.GetRejected(),
	}
	if t := r.GetCreated(); t != nil {
		out.Created = t.AsTime()
	}
	var faults problems
	if err != nil {
		faults.add("kind", err)
		out.Rejected = err.Error()
	}
	for i, p := range r.GetParents() {
		parent, err := routeParent(p)
		faults.add(fmt.Sprintf("parents[%d]", i), err)
		if err == nil {
			out.Parents = append(out.Parents, parent)
		}
	}
	if out.Rejected != "" {
		return out, faults.err()
	}
	object := out.Object()
	out.Rules = slices.Grow(out.Rules, len(r.GetRules()))
	for i, def := range r.GetRules() {
		rule, err := routeRule(object, i, def)
		faults.add(fmt.Sprintf("rules[%d]", i), err)
		out.Rules = append(out.Rules, rule)
		rule.Hosts = r.GetHostnames() // where the builder puts them, if the parent is one that looks at them
		if err := rule.ValidateMatches(); err != nil {
			faults.add(fmt.Sprintf("rules[%d]", i), err)
			out.Rejected = err.Error()
		}
	}
	if out.Rejected != "" {
		out.Rules = nil
	}
	return out, faults.err()
}

func routeType(k waypointv1.RouteKind) (mesh.RouteType, error) {
	switch k {
	case waypointv1.RouteKind_HTTP_ROUTE:
		return mesh.HTTPRoute, nil
	case waypointv1.RouteKind_GRPC_ROUTE:
		return mesh.GRPCRoute, nil
	case waypointv1.RouteKind_TLS_ROUTE:
		return mesh.TLSRoute, nil
	case waypointv1.RouteKind_TCP_ROUTE:
		return mesh.TCPRoute, nil
	}
	return mesh.HTTPRoute, fmt.Errorf("%d is not known", k)
}

func routeParent(p *waypointv1.RouteParent) (out mesh.RouteParent, err error) {
	if p.GetPort() > 65535 {
		return out, fmt.Errorf("port: %d is not a port", p.GetPort())
	}
	out.Port = uint16(p.GetPort())
	switch t := p.GetTarget().(type) {
	case *waypointv1.RouteParent_Service:
		out.Service = t.Service.Key()
	case *waypointv1.RouteParent_Gateway:
	default:
		return out, errors.New("has no target that is known")
	}
	return out, nil
}

// routeRule gives a rule that answers 500 if something in it is wrong besides its
// matches, rather than serve requests without it.
func routeRule(object string, index int, r *waypointv1.RouteRule) (route.Rule, error) {
	out := route.Rule{
		Route:   object,
		Name:    r.GetName(),
		Invalid: r.GetRejected(),
		Timeouts: route.Timeouts{
			Request:        r.GetRequestTimeout().AsDuration(),
			BackendRequest: r.GetBackendTimeout().AsDuration(),
		},
		Retry: retry(r.GetRetry()),
	}
	if out.Name == "" {
		out.Name = strconv.Itoa(index)
	}
	for _, m := range r.GetMatches() {
		out.Matches = append(out.Matches, match(m))
	}
	out.Label = label(out.Matches)
	var faults problems
	var err error
	if out.Filters, err = filters(r.GetFilters()); err != nil {
		faults = append(faults, err)
	}
	for i, b := range r.GetBackends() {
		backend, err := backendOf(b)
		faults.add(fmt.Sprintf("backends[%d]", i), err)
		out.Backends = append(out.Backends, backend)
	}
	err = errors.Join(faults.err(), out.ValidateFilters())
	if err != nil && out.Invalid == "" {
		out.Invalid = err.Error()
	}
	return out, err
}

// maxLabelPatterns keeps the label of a rule with many matches short.
const maxLabelPatterns = 3

// label is the patterns of a rule's paths, "/v2/*|/*".
func label(matches []route.Match) string {
	var patterns []string
	for i := range matches {
		p := matches[i].Path.String()
		if g := matches[i].GRPC; g != nil {
			p = g.String()
		}
		if !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	switch {
	case len(patterns) == 0:
		return "/*"
	case len(patterns) > maxLabelPatterns:
		return strings.Join(patterns[:maxLabelPatterns], "|") + "|..."
	}
	return strings.Join(patterns, "|")
}

func retry(r *waypointv1.Retry) *route.Retry {
	if r == nil {
		return nil
	}
	out := &route.Retry{Attempts: int(r.GetAttempts()), Backoff: r.GetBackoff().AsDuration()}
	for _, c := range r.GetCodes() {
		out.Codes = append(out.Codes, int(c))
	}
	return out
}

func match(m *waypointv1.RouteMatch) (out route.Match) {
	switch k := m.GetKind().(type) {
	case *waypointv1.RouteMatch_Http:
		return httpMatch(k.Http)
	case *waypointv1.RouteMatch_Grpc:
		method := k.Grpc.GetMethod()
		return route.Match{
			GRPC:    &route.GRPCMatch{Service: method.GetService(), Method: method.GetMethod(), Regex: method.GetRegex()},
			Headers: valueMatches(k.Grpc.GetHeaders()),
		}
	}
	return out
}

func httpMatch(m *waypointv1.HttpMatch) route.Match {
	out := route.Match{
		Method:  m.GetMethod(),
		Headers: valueMatches(m.GetHeaders()),
		Query:   valueMatches(m.GetQuery()),
	}
	switch p := m.GetPath().(type) {
	case *waypointv1.HttpMatch_Exact:
		out.Path = route.PathMatch{Kind: route.PathExact, Value: p.Exact}
	case *waypointv1.HttpMatch_Prefix:
		out.Path = route.PathMatch{Kind: route.PathPrefix, Value: p.Prefix}
	case *waypointv1.HttpMatch_Regex:
		out.Path = route.PathMatch{Kind: route.PathRegex, Value: p.Regex}
	}
	return out
}

func valueMatches(list []*waypointv1.ValueMatch) (out []route.ValueMatch) {
	for _, m := range list {
		v := route.ValueMatch{Name: m.GetName(), Value: m.GetExact()}
		if r, ok := m.GetValue().(*waypointv1.ValueMatch_Regex); ok {
			v.Value, v.Regex = r.Regex, true
		}
		out = append(out, v)
	}
	return out
}
