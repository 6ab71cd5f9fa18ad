package translate

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// kindHostname lets a backendRef name any known host (Istio's extension).
const kindHostname = "Hostname"

// routeContext is what the rules of one route are translated with.
type routeContext struct {
	*view
	report  *report
	route   *waypointv1.Route
	granted bool // other namespaces' backends need a ReferenceGrant
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
	if rule.SessionPersistence != nil {
		c.unsupported(out, at.at("sessionPersistence"), "session persistence is not supported")
	}
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
	if rule.SessionPersistence != nil {
		c.unsupported(out, at.at("sessionPersistence"), "session persistence is not supported")
	}
	return out
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

// backend resolves a backendRef. One that cannot be used keeps its weight, as its share of the requests is answered 500.
func (c *routeContext) backend(at path, ref gatewayv1.BackendRef) *waypointv1.Backend {
	out := &waypointv1.Backend{Weight: 1}
	if ref.Weight != nil {
		out.Weight = uint32(*ref.Weight)
	}
	if ref.Port != nil {
		out.Port = uint32(*ref.Port)
	}
	service, why := c.resolve(ref.BackendObjectReference)
	if why != "" {
		c.report.errorf(at, "%s; its share of the requests is answered 500", why)
		out.Target = &waypointv1.Backend_Invalid{Invalid: why}
		return out
	}
	out.Target = &waypointv1.Backend_Service{Service: service}
	return out
}

// resolve finds the service that a reference names, or tells why it cannot be used.
func (c *routeContext) resolve(ref gatewayv1.BackendObjectReference) (service *waypointv1.ServiceRef, why string) {
	group, kind, namespace := value(ref.Group), kindService, c.route.Namespace
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if ref.Namespace != nil {
		namespace = string(*ref.Namespace)
	}
	var obj Object
	switch (groupKind{group, kind}) {
	case groupKind{groupCore, kindService}:
		obj, why = c.backendService(namespace, string(ref.Name))
		service = &waypointv1.ServiceRef{Namespace: namespace, Hostname: c.serviceHost(namespace, string(ref.Name))}
	case groupKind{groupNetworking, kindHostname}:
		obj, service, why = c.backendHost(string(ref.Name))
	default:
		return nil, fmt.Sprintf("a backend of kind %s is not supported; name a Service", kind)
	}
	switch {
	case why != "":
		return nil, why
	case ref.Port == nil:
		return nil, fmt.Sprintf("%s %s needs a port", kind, ref.Name)
	case !hasPort(obj, uint32(*ref.Port)):
		return nil, fmt.Sprintf("%s %s/%s has no TCP port %d", kind, service.Namespace, ref.Name, *ref.Port)
	}
	return service, ""
}

func (c *routeContext) backendService(namespace, name string) (Object, string) {
	if namespace != c.route.Namespace && c.granted && !c.isGranted(namespace, name) {
		return nil, fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s use Service %s", namespace,
			c.route.Kind.KindName(), c.route.Namespace, name)
	}
	e := c.get(kindService, namespace, name)
	if e == nil || e.rejected != "" {
		return nil, fmt.Sprintf("Service %s/%s does not exist", namespace, name)
	}
	if e.obj.(*corev1.Service).Spec.Type == corev1.ServiceTypeExternalName {
		return nil, fmt.Sprintf("Service %s/%s is of type ExternalName, which has no endpoints", namespace, name)
	}
	return e.obj, ""
}

// backendHost finds the object that declares host: in the route's namespace, else the first by kind (a Service before a
// ServiceEntry), namespace and name.
func (c *routeContext) backendHost(host string) (Object, *waypointv1.ServiceRef, string) {
	var chosen *entry
	for _, e := range c.find(fact{kind: factHost, name: host}) {
		if chosen == nil || e.key.Namespace == c.route.Namespace && chosen.key.Namespace != c.route.Namespace ||
			e.key.Kind == kindService && chosen.key.Kind != kindService && chosen.key.Namespace != c.route.Namespace {
			chosen = e
		}
	}
	if chosen == nil {
		return nil, nil, fmt.Sprintf("no Service or ServiceEntry declares the host %s", host)
	}
	return chosen.obj, &waypointv1.ServiceRef{Namespace: chosen.key.Namespace, Hostname: host}, ""
}

// isGranted looks for a ReferenceGrant in the namespace of the Service (GEP-709).
func (c *routeContext) isGranted(namespace, name string) bool {
	for _, e := range c.find(fact{kind: factGrant, namespace: namespace}) {
		spec := e.obj.(*gatewayv1.ReferenceGrant).Spec
		if grantsFrom(spec.From, c.route) && grantsTo(spec.To, name) {
			return true
		}
	}
	return false
}

func grantsFrom(from []gatewayv1.ReferenceGrantFrom, route *waypointv1.Route) bool {
	for _, f := range from {
		if string(f.Group) == groupGateway && string(f.Kind) == route.Kind.KindName() && string(f.Namespace) == route.Namespace {
			return true
		}
	}
	return false
}

func grantsTo(to []gatewayv1.ReferenceGrantTo, name string) bool {
	for _, t := range to {
		if string(t.Group) == groupCore && string(t.Kind) == kindService && (t.Name == nil || string(*t.Name) == name) {
			return true
		}
	}
	return false
}
