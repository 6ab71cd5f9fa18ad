package translate

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// routeContext is what the rules of one route are translated with.
type routeContext struct {
	*view
	report   *report
	route    *waypointv1.Route
	granted  bool      // other namespaces' backends need a ReferenceGrant
	resolved Condition // of the references: the first that failed
}

func (c *routeContext) httpRule(at path, rule gatewayv1.HTTPRouteRule) *waypointv1.RouteRule {
	out := &waypointv1.RouteRule{Name: value(rule.Name)}
	for _, m := range rule.Matches {
		out.Matches = append(out.Matches, &waypointv1.RouteMatch{Kind: &waypointv1.RouteMatch_Http{Http: httpMatch(m)}})
	}
	c.filters(out, at.at("filters"), rule.Filters)
	for i, ref := range rule.BackendRefs {
		b := c.backend(at.at("backendRefs").index(i), ref.BackendRef)
		c.backendFilters(out, b, at.at("backendRefs").index(i).at("filters"), ref.Filters)
		out.Backends = append(out.Backends, b)
	}
	if t := rule.Timeouts; t != nil {
		out.RequestTimeout = timeout(t.Request)
		out.BackendTimeout = timeout(t.BackendRequest)
	}
	out.Retry = retry(rule.Retry)
	c.noPersistence(out, at, rule.SessionPersistence) //nolint:staticcheck // deprecated, and refused
	return out
}

func (c *routeContext) grpcRule(at path, rule gatewayv1.GRPCRouteRule) *waypointv1.RouteRule {
	out := &waypointv1.RouteRule{Name: value(rule.Name)}
	for _, m := range rule.Matches {
		out.Matches = append(out.Matches, &waypointv1.RouteMatch{Kind: &waypointv1.RouteMatch_Grpc{Grpc: grpcMatch(m)}})
	}
	c.filters(out, at.at("filters"), httpFilters(rule.Filters))
	for i, ref := range rule.BackendRefs {
		b := c.backend(at.at("backendRefs").index(i), ref.BackendRef)
		c.backendFilters(out, b, at.at("backendRefs").index(i).at("filters"), httpFilters(ref.Filters))
		out.Backends = append(out.Backends, b)
	}
	c.noPersistence(out, at, rule.SessionPersistence) //nolint:staticcheck // deprecated, and refused
	return out
}

func (c *routeContext) noPersistence(rule *waypointv1.RouteRule, at path, p *gatewayv1.SessionPersistence) {
	if p != nil {
		c.unsupported(rule, at.at("sessionPersistence"), "session persistence is not supported")
	}
}

// streamRule is a rule of a TCPRoute or TLSRoute.
func (c *routeContext) streamRule(at path, name *gatewayv1.SectionName, refs []gatewayv1.BackendRef) *waypointv1.RouteRule {
	out := &waypointv1.RouteRule{Name: value(name)}
	for i, ref := range refs {
		out.Backends = append(out.Backends, c.backend(at.at("backendRefs").index(i), ref))
	}
	return out
}

// unsupported makes a rule answer 500: what it asked for would be left out otherwise.
func (c *routeContext) unsupported(rule *waypointv1.RouteRule, at path, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	c.report.errorf(at, "%s; the rule answers 500", what)
	if rule.Rejected == "" {
		rule.Rejected = string(at) + ": " + what
	}
	c.unresolved(&refError{gatewayv1.RouteReasonUnsupportedValue, string(at) + ": " + what})
}

func value[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

func httpMatch(m gatewayv1.HTTPRouteMatch) *waypointv1.HttpMatch {
	out := &waypointv1.HttpMatch{Method: value(m.Method), Path: &waypointv1.HttpMatch_Prefix{Prefix: "/"}}
	if p := m.Path; p != nil {
		text := "/"
		if p.Value != nil {
			text = *p.Value
		}
		switch value(p.Type) {
		case string(gatewayv1.PathMatchExact):
			out.Path = &waypointv1.HttpMatch_Exact{Exact: text}
		case string(gatewayv1.PathMatchRegularExpression):
			out.Path = &waypointv1.HttpMatch_Regex{Regex: text}
		default:
			out.Path = &waypointv1.HttpMatch_Prefix{Prefix: text}
		}
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, valueMatch(strings.ToLower(string(h.Name)), h.Value, value(h.Type)))
	}
	for _, q := range m.QueryParams {
		out.Query = append(out.Query, valueMatch(string(q.Name), q.Value, value(q.Type)))
	}
	return out
}

// valueMatch: header and query matches share their two type names, and the default.
func valueMatch(name, text, kind string) *waypointv1.ValueMatch {
	if kind == string(gatewayv1.HeaderMatchRegularExpression) {
		return &waypointv1.ValueMatch{Name: name, Value: &waypointv1.ValueMatch_Regex{Regex: text}}
	}
	return &waypointv1.ValueMatch{Name: name, Value: &waypointv1.ValueMatch_Exact{Exact: text}}
}

func grpcMatch(m gatewayv1.GRPCRouteMatch) *waypointv1.GrpcMatch {
	out := &waypointv1.GrpcMatch{}
	if p := m.Method; p != nil {
		out.Method = &waypointv1.GrpcMethodMatch{
			Service: value(p.Service),
			Method:  value(p.Method),
			Regex:   value(p.Type) == string(gatewayv1.GRPCMethodMatchRegularExpression),
		}
	}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, valueMatch(strings.ToLower(string(h.Name)), h.Value, value(h.Type)))
	}
	return out
}

// timeout: absent and "0s" both mean none (GEP-1742).
func timeout(d *gatewayv1.Duration) *durationpb.Duration {
	if parsed := duration(d); parsed > 0 {
		return durationpb.New(parsed)
	}
	return nil
}

// duration reads a GEP-2257 duration, which time.ParseDuration can; validation has refused what is not one.
func duration(d *gatewayv1.Duration) time.Duration {
	parsed, _ := time.ParseDuration(value(d))
	return parsed
}

// defaultAttempts is what a retry without a count gets: Istio's number.
const defaultAttempts = 2

func retry(r *gatewayv1.HTTPRouteRetry) *waypointv1.Retry {
	if r == nil {
		return nil
	}
	out := &waypointv1.Retry{Attempts: defaultAttempts, Backoff: timeout(r.Backoff)}
	if r.Attempts != nil {
		out.Attempts = uint32(*r.Attempts)
	}
	for _, code := range r.Codes {
		out.Codes = append(out.Codes, uint32(code))
	}
	return out
}
