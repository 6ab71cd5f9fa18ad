package translate

import (
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Limits of the Gateway API on the lists of one route.
const (
	maxParents  = 32
	maxRules    = 16
	maxMatches  = 64
	maxAllMatch = 128
	maxItems    = 16
	maxWeight   = 1_000_000
)

func validateHTTPRoute(r *report, route *gatewayv1.HTTPRoute) {
	r.parents(route.Spec.ParentRefs)
	r.hostnames(route.Spec.Hostnames)
	r.atMost("spec.rules", len(route.Spec.Rules), maxRules)
	names, total := map[string]bool{}, 0
	for i, rule := range route.Spec.Rules {
		at := path("spec.rules").index(i)
		r.ruleName(at.at("name"), rule.Name, names)
		total += len(rule.Matches)
		r.atMost(at.at("matches"), len(rule.Matches), maxMatches)
		for j, m := range rule.Matches {
			r.httpMatch(at.at("matches").index(j), m)
		}
		r.httpFilters(at.at("filters"), rule.Filters)
		r.httpBackends(at, rule)
		r.prefixModifiers(at, rule)
		r.timeouts(at.at("timeouts"), rule.Timeouts)
		r.retry(at.at("retry"), rule.Retry)
	}
	r.atMost("spec.rules", total, maxAllMatch)
}

func (r *report) httpBackends(at path, rule gatewayv1.HTTPRouteRule) {
	r.atMost(at.at("backendRefs"), len(rule.BackendRefs), maxItems)
	for i, ref := range rule.BackendRefs {
		at := at.at("backendRefs").index(i)
		r.backendRef(at, ref.BackendRef)
		r.httpFilters(at.at("filters"), ref.Filters)
	}
	if len(rule.BackendRefs) > 0 && filterOf(rule.Filters, gatewayv1.HTTPRouteFilterRequestRedirect) != nil {
		r.errorf(at.at("backendRefs"), "must be empty beside a RequestRedirect filter")
	}
}

func validateGRPCRoute(r *report, route *gatewayv1.GRPCRoute) {
	r.parents(route.Spec.ParentRefs)
	r.hostnames(route.Spec.Hostnames)
	r.atMost("spec.rules", len(route.Spec.Rules), maxRules)
	names, total := map[string]bool{}, 0
	for i, rule := range route.Spec.Rules {
		at := path("spec.rules").index(i)
		r.ruleName(at.at("name"), rule.Name, names)
		total += len(rule.Matches)
		r.atMost(at.at("matches"), len(rule.Matches), maxMatches)
		for j, m := range rule.Matches {
			r.grpcMatch(at.at("matches").index(j), m)
		}
		r.httpFilters(at.at("filters"), httpFilters(rule.Filters))
		r.atMost(at.at("backendRefs"), len(rule.BackendRefs), maxItems)
		for j, ref := range rule.BackendRefs {
			at := at.at("backendRefs").index(j)
			r.backendRef(at, ref.BackendRef)
			r.httpFilters(at.at("filters"), httpFilters(ref.Filters))
		}
	}
	r.atMost("spec.rules", total, maxAllMatch)
}

func validateTCPRoute(r *report, route *gatewayv1.TCPRoute) {
	r.parents(route.Spec.ParentRefs)
	r.oneRule(len(route.Spec.Rules))
	for i, rule := range route.Spec.Rules {
		r.streamBackends(path("spec.rules").index(i).at("backendRefs"), rule.BackendRefs)
	}
}

func validateTLSRoute(r *report, route *gatewayv1.TLSRoute) {
	r.parents(route.Spec.ParentRefs)
	r.hostnames(route.Spec.Hostnames)
	r.oneRule(len(route.Spec.Rules))
	for i, rule := range route.Spec.Rules {
		r.streamBackends(path("spec.rules").index(i).at("backendRefs"), rule.BackendRefs)
	}
}

// oneRule: there is nothing by which a stream could choose among several.
func (r *report) oneRule(n int) {
	if n != 1 {
		r.errorf("spec.rules", "must have exactly one item, has %d", n)
	}
}

func (r *report) streamBackends(at path, refs []gatewayv1.BackendRef) {
	r.atLeastOne(at, len(refs))
	r.atMost(at, len(refs), maxItems)
	for i, ref := range refs {
		r.backendRef(at.index(i), ref)
	}
}

func (r *report) parents(refs []gatewayv1.ParentReference) {
	r.atMost("spec.parentRefs", len(refs), maxParents)
	for i, ref := range refs {
		at := path("spec.parentRefs").index(i)
		r.required(at.at("name"), string(ref.Name))
		if ref.Port != nil {
			r.port(at.at("port"), int64(*ref.Port))
		}
	}
}

func (r *report) hostnames(names []gatewayv1.Hostname) {
	for i, name := range names {
		r.hostname(path("spec.hostnames").index(i), string(name), true)
	}
}

func (r *report) ruleName(at path, name *gatewayv1.SectionName, seen map[string]bool) {
	if name == nil {
		return
	}
	if seen[string(*name)] {
		r.errorf(at, "must be unique within the route, %q is there twice", *name)
	}
	seen[string(*name)] = true
}

func (r *report) httpMatch(at path, m gatewayv1.HTTPRouteMatch) {
	if m.Path != nil {
		r.pathMatch(at.at("path"), m.Path)
	}
	r.atMost(at.at("headers"), len(m.Headers), maxItems)
	for i, h := range m.Headers {
		r.valueMatch(at.at("headers").index(i), string(h.Name), h.Value, value(h.Type))
	}
	r.atMost(at.at("queryParams"), len(m.QueryParams), maxItems)
	for i, q := range m.QueryParams {
		r.valueMatch(at.at("queryParams").index(i), string(q.Name), q.Value, value(q.Type))
	}
	if m.Method != nil {
		r.oneOf(at.at("method"), string(*m.Method), httpMethods...)
	}
}

func (r *report) grpcMatch(at path, m gatewayv1.GRPCRouteMatch) {
	if m.Method != nil {
		r.methodMatch(at.at("method"), m.Method)
	}
	r.atMost(at.at("headers"), len(m.Headers), maxItems)
	for i, h := range m.Headers {
		r.valueMatch(at.at("headers").index(i), string(h.Name), h.Value, value(h.Type))
	}
}

var (
	grpcService = regexp.MustCompile(`^(?i)\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$`)
	grpcMethod  = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)
)

func (r *report) methodMatch(at path, m *gatewayv1.GRPCMethodMatch) {
	kind := value(m.Type)
	r.oneOf(at.at("type"), kind, "", "Exact", "RegularExpression")
	if value(m.Service) == "" && value(m.Method) == "" {
		r.errorf(at, "must name a service or a method")
	}
	if kind == string(gatewayv1.GRPCMethodMatchRegularExpression) {
		r.regex(at.at("service"), value(m.Service))
		r.regex(at.at("method"), value(m.Method))
		return
	}
	if s := value(m.Service); s != "" && !grpcService.MatchString(s) {
		r.errorf(at.at("service"), `must be a gRPC service such as "pkg.Service", got %q`, s)
	}
	if s := value(m.Method); s != "" && !grpcMethod.MatchString(s) {
		r.errorf(at.at("method"), `must be a gRPC method such as "Get", got %q`, s)
	}
}

var pathCharacters = regexp.MustCompile(`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$`)

func (r *report) pathMatch(at path, m *gatewayv1.HTTPPathMatch) {
	r.oneOf(at.at("type"), value(m.Type), "", "Exact", "PathPrefix", "RegularExpression")
	if m.Value == nil {
		return
	}
	at = at.at("value")
	if value(m.Type) == string(gatewayv1.PathMatchRegularExpression) {
		r.regex(at, *m.Value)
		return
	}
	r.plainPath(at, *m.Value)
}

// plainPath refuses what a normalised request path never is: such a match would never hold.
func (r *report) plainPath(at path, p string) {
	if len(p) > 1024 {
		r.errorf(at, "must not be longer than 1024 bytes, has %d", len(p))
	}
	if !strings.HasPrefix(p, "/") {
		r.errorf(at, `must start with "/", got %q`, p)
		return
	}
	for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F", "#"} {
		if strings.Contains(p, bad) {
			r.errorf(at, "must not contain %q, got %q", bad, p)
		}
	}
	for _, bad := range []string{"/..", "/."} {
		if strings.HasSuffix(p, bad) {
			r.errorf(at, "must not end with %q, got %q", bad, p)
		}
	}
	if !pathCharacters.MatchString(p) {
		r.errorf(at, "must consist of the characters of an URL path (others as %%XX), got %q", p)
	}
}

func (r *report) valueMatch(at path, name, text, kind string) {
	r.headerName(at.at("name"), name)
	r.oneOf(at.at("type"), kind, "", "Exact", "RegularExpression")
	r.required(at.at("value"), text)
	if kind == string(gatewayv1.HeaderMatchRegularExpression) {
		r.regex(at.at("value"), text)
	} else if len(text) > maxRegexBytes {
		r.errorf(at.at("value"), "must not be longer than %d bytes, has %d", maxRegexBytes, len(text))
	}
}

func (r *report) backendRef(at path, ref gatewayv1.BackendRef) {
	r.objectRef(at, ref.BackendObjectReference)
	if ref.Weight != nil {
		r.within(at.at("weight"), int64(*ref.Weight), 0, maxWeight)
	}
}

func (r *report) objectRef(at path, ref gatewayv1.BackendObjectReference) {
	r.required(at.at("name"), string(ref.Name))
	if ref.Port != nil {
		r.port(at.at("port"), int64(*ref.Port))
	} else if value(ref.Group) == "" && (ref.Kind == nil || *ref.Kind == kindService) {
		r.errorf(at.at("port"), "must be set for a Service")
	}
}

func (r *report) timeouts(at path, t *gatewayv1.HTTPRouteTimeouts) {
	if t == nil {
		return
	}
	request := r.duration(at.at("request"), t.Request)
	backend := r.duration(at.at("backendRequest"), t.BackendRequest)
	if request != 0 && backend > request {
		r.errorf(at.at("backendRequest"), "must not be longer than request (%s), got %s", *t.Request, *t.BackendRequest)
	}
}

func (r *report) retry(at path, retry *gatewayv1.HTTPRouteRetry) {
	if retry == nil {
		return
	}
	r.duration(at.at("backoff"), retry.Backoff)
	if retry.Attempts != nil {
		r.within(at.at("attempts"), int64(*retry.Attempts), 0, 1<<31-1)
	}
	for i, code := range retry.Codes {
		r.within(at.at("codes").index(i), int64(code), 400, 599)
	}
}
