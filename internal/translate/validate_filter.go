package translate

import (
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func filterOf(filters []gatewayv1.HTTPRouteFilter, kind gatewayv1.HTTPRouteFilterType) *gatewayv1.HTTPRouteFilter {
	for i := range filters {
		if filters[i].Type == kind {
			return &filters[i]
		}
	}
	return nil
}

// filterField pairs a filter type with the field that must be set for it, and only for it.
type filterField struct {
	kind gatewayv1.HTTPRouteFilterType
	name string
	set  func(f *gatewayv1.HTTPRouteFilter) bool
	// repeatable filters may stand more than once in one list.
	repeatable bool
}

var filterFields = []filterField{
	{
		gatewayv1.HTTPRouteFilterRequestHeaderModifier, "requestHeaderModifier",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.RequestHeaderModifier != nil }, false,
	},
	{
		gatewayv1.HTTPRouteFilterResponseHeaderModifier, "responseHeaderModifier",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.ResponseHeaderModifier != nil }, false,
	},
	{
		gatewayv1.HTTPRouteFilterRequestRedirect, "requestRedirect",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.RequestRedirect != nil }, false,
	},
	{
		gatewayv1.HTTPRouteFilterURLRewrite, "urlRewrite",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.URLRewrite != nil }, false,
	},
	{
		gatewayv1.HTTPRouteFilterRequestMirror, "requestMirror",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.RequestMirror != nil }, true,
	},
	{
		gatewayv1.HTTPRouteFilterCORS, "cors",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.CORS != nil }, false,
	},
	{
		gatewayv1.HTTPRouteFilterExternalAuth, "externalAuth",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.ExternalAuth != nil }, false,
	},
	{
		gatewayv1.HTTPRouteFilterExtensionRef, "extensionRef",
		func(f *gatewayv1.HTTPRouteFilter) bool { return f.ExtensionRef != nil }, true,
	},
}

func (r *report) httpFilters(at path, filters []gatewayv1.HTTPRouteFilter) {
	r.atMost(at, len(filters), maxItems)
	seen := map[gatewayv1.HTTPRouteFilterType]bool{}
	for i := range filters {
		r.httpFilter(at.index(i), &filters[i], seen)
	}
	if seen[gatewayv1.HTTPRouteFilterRequestRedirect] && seen[gatewayv1.HTTPRouteFilterURLRewrite] {
		r.errorf(at, "must not have both a RequestRedirect and a URLRewrite")
	}
}

func (r *report) httpFilter(at path, f *gatewayv1.HTTPRouteFilter, seen map[gatewayv1.HTTPRouteFilterType]bool) {
	known := false
	for _, field := range filterFields {
		switch {
		case field.kind != f.Type && field.set(f):
			r.errorf(at.at(field.name), "must not be set for a filter of type %s", f.Type)
		case field.kind == f.Type && !field.set(f):
			r.errorf(at.at(field.name), "must be set for a filter of type %s", f.Type)
			return
		case field.kind == f.Type:
			known = true
			if seen[f.Type] && !field.repeatable {
				r.errorf(at, "%s must not be repeated", f.Type)
			}
		}
	}
	if !known {
		names := make([]string, 0, len(filterFields))
		for _, field := range filterFields {
			names = append(names, string(field.kind))
		}
		r.oneOf(at.at("type"), string(f.Type), names...)
		return
	}
	seen[f.Type] = true
	r.filterBody(at, f)
}

func (r *report) filterBody(at path, f *gatewayv1.HTTPRouteFilter) {
	switch f.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		r.headerModifier(at.at("requestHeaderModifier"), f.RequestHeaderModifier, true)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		r.headerModifier(at.at("responseHeaderModifier"), f.ResponseHeaderModifier, false)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		r.redirect(at.at("requestRedirect"), f.RequestRedirect)
	case gatewayv1.HTTPRouteFilterURLRewrite:
		r.preciseHostname(at.at("urlRewrite.hostname"), f.URLRewrite.Hostname)
		r.pathModifier(at.at("urlRewrite.path"), f.URLRewrite.Path)
	case gatewayv1.HTTPRouteFilterRequestMirror:
		r.mirror(at.at("requestMirror"), f.RequestMirror)
	case gatewayv1.HTTPRouteFilterCORS:
		r.cors(at.at("cors"), f.CORS)
	}
}

// framing headers tell where a message ends or what its connection is; a filter that wrote them could split a request in
// two on the way to the application.
var framing = map[string]bool{
	"connection": true, "content-length": true, "keep-alive": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true,
}

func (r *report) headerModifier(at path, f *gatewayv1.HTTPHeaderFilter, request bool) {
	for _, list := range []struct {
		name    string
		headers []gatewayv1.HTTPHeader
	}{{"set", f.Set}, {"add", f.Add}} {
		r.atMost(at.at(list.name), len(list.headers), maxItems)
		seen := map[string]bool{}
		for i, h := range list.headers {
			at := at.at(list.name).index(i)
			r.modifiedHeader(at.at("name"), string(h.Name), request, seen)
			r.headerValue(at.at("value"), h.Value)
		}
	}
	r.atMost(at.at("remove"), len(f.Remove), maxItems)
	seen := map[string]bool{}
	for i, name := range f.Remove {
		r.modifiedHeader(at.at("remove").index(i), name, request, seen)
	}
}

func (r *report) modifiedHeader(at path, name string, request bool, seen map[string]bool) {
	r.headerName(at, name)
	lower := strings.ToLower(name)
	switch {
	case framing[lower]:
		r.errorf(at, "%s belongs to the framing of the message and cannot be modified", name)
	case request && lower == "host":
		r.errorf(at, "the host is changed by a URLRewrite filter with hostname, not as a header")
	case seen[lower]:
		r.errorf(at, "%s is listed twice", name)
	}
	seen[lower] = true
}

func (r *report) redirect(at path, f *gatewayv1.HTTPRequestRedirectFilter) {
	if f.Scheme != nil {
		r.oneOf(at.at("scheme"), *f.Scheme, "http", "https")
	}
	r.preciseHostname(at.at("hostname"), f.Hostname)
	if f.Port != nil {
		r.port(at.at("port"), int64(*f.Port))
	}
	if f.StatusCode != nil {
		switch *f.StatusCode {
		case 301, 302, 303, 307, 308:
		default:
			r.errorf(at.at("statusCode"), "must be 301, 302, 303, 307 or 308, got %d", *f.StatusCode)
		}
	}
	r.pathModifier(at.at("path"), f.Path)
}

func (r *report) preciseHostname(at path, name *gatewayv1.PreciseHostname) {
	if name != nil {
		r.hostname(at, string(*name), false)
	}
}

func (r *report) pathModifier(at path, m *gatewayv1.HTTPPathModifier) {
	if m == nil {
		return
	}
	r.oneOf(at.at("type"), string(m.Type), "ReplaceFullPath", "ReplacePrefixMatch")
	full := m.Type == gatewayv1.FullPathHTTPPathModifier
	for _, f := range []struct {
		name  string
		value *string
		want  bool
	}{{"replaceFullPath", m.ReplaceFullPath, full}, {"replacePrefixMatch", m.ReplacePrefixMatch, !full}} {
		if (f.value != nil) != f.want {
			r.errorf(at.at(f.name), "must be set if and only if type says so, which is %q", m.Type)
			continue
		}
		if f.value != nil && strings.ContainsFunc(*f.value, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' || c == '?' }) {
			r.errorf(at.at(f.name), "must not contain spaces, control characters, '#' or '?', got %q", *f.value)
		}
	}
}

// prefixModifiers: what a prefix is replaced by needs one prefix that was matched.
func (r *report) prefixModifiers(at path, rule gatewayv1.HTTPRouteRule) {
	filters := rule.Filters
	for _, ref := range rule.BackendRefs {
		filters = append(filters[:len(filters):len(filters)], ref.Filters...)
	}
	for _, f := range filters {
		if !replacesPrefix(f) {
			continue
		}
		if len(rule.Matches) > 1 || len(rule.Matches) == 1 && !isPrefixMatch(rule.Matches[0].Path) {
			r.errorf(at.at("matches"), "must be exactly one match with a PathPrefix where a filter has replacePrefixMatch")
		}
		return
	}
}

// isPrefixMatch: PathPrefix "/" is what an absent match is.
func isPrefixMatch(m *gatewayv1.HTTPPathMatch) bool {
	return m == nil || m.Type == nil || *m.Type == gatewayv1.PathMatchPathPrefix
}

func replacesPrefix(f gatewayv1.HTTPRouteFilter) bool {
	isPrefix := func(m *gatewayv1.HTTPPathModifier) bool {
		return m != nil && m.Type == gatewayv1.PrefixMatchHTTPPathModifier
	}
	return f.URLRewrite != nil && isPrefix(f.URLRewrite.Path) || f.RequestRedirect != nil && isPrefix(f.RequestRedirect.Path)
}

func (r *report) mirror(at path, f *gatewayv1.HTTPRequestMirrorFilter) {
	r.objectRef(at.at("backendRef"), f.BackendRef)
	if f.Percent != nil {
		r.within(at.at("percent"), int64(*f.Percent), 0, 100)
	}
	if f.Fraction == nil {
		return
	}
	if f.Percent != nil {
		r.errorf(at, "must not have both percent and fraction")
	}
	denominator := int64(100)
	if f.Fraction.Denominator != nil {
		denominator = int64(*f.Fraction.Denominator)
		r.within(at.at("fraction.denominator"), denominator, 1, 1<<31-1)
	}
	r.within(at.at("fraction.numerator"), int64(f.Fraction.Numerator), 0, denominator)
}

var corsOrigin = regexp.MustCompile(`^\*$|^https?://((\*\.)?([a-zA-Z0-9-]+\.)*[a-zA-Z0-9-]+|\*)(:[0-9]{1,5})?$`)

func (r *report) cors(at path, f *gatewayv1.HTTPCORSFilter) {
	for i, origin := range f.AllowOrigins {
		if !corsOrigin.MatchString(string(origin)) {
			r.errorf(at.at("allowOrigins").index(i), `must be "*" or an origin such as "https://*.example.com:8443", got %q`, origin)
		}
	}
	for i, m := range f.AllowMethods {
		r.oneOf(at.at("allowMethods").index(i), string(m), "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE",
			"PATCH", "*")
	}
	for i, h := range f.AllowHeaders {
		r.headerName(at.at("allowHeaders").index(i), string(h))
	}
	for i, h := range f.ExposeHeaders {
		r.headerName(at.at("exposeHeaders").index(i), string(h))
	}
	if f.MaxAge < 0 {
		r.errorf(at.at("maxAge"), "must not be negative, got %d", f.MaxAge)
	}
}
