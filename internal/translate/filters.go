package translate

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// Defaults that an API server would have filled in.
const (
	defaultRedirectStatus = 302
	defaultCORSMaxAge     = 5 * time.Second
)

// httpFilters reads the filters of a GRPCRoute as those of an HTTPRoute: the types they have in common are the same.
func httpFilters(from []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	out := make([]gatewayv1.HTTPRouteFilter, 0, len(from))
	for _, f := range from {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type:                   gatewayv1.HTTPRouteFilterType(f.Type),
			RequestHeaderModifier:  f.RequestHeaderModifier,
			ResponseHeaderModifier: f.ResponseHeaderModifier,
			RequestMirror:          f.RequestMirror,
			ExtensionRef:           f.ExtensionRef,
		})
	}
	return out
}

func (c *routeContext) filters(rule *waypointv1.RouteRule, at path, from []gatewayv1.HTTPRouteFilter) {
	for i, f := range from {
		if out := c.filter(rule, at.index(i), f); out != nil {
			rule.Filters = append(rule.Filters, out)
		}
	}
}

// backendFilters translates the filters of one backend; those that would answer or copy the request belong to a rule.
func (c *routeContext) backendFilters(rule *waypointv1.RouteRule, b *waypointv1.Backend, at path, from []gatewayv1.HTTPRouteFilter) {
	for i, f := range from {
		switch f.Type {
		case gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			gatewayv1.HTTPRouteFilterURLRewrite:
			b.Filters = append(b.Filters, c.filter(rule, at.index(i), f))
		default:
			c.unsupportedFilter(rule, at.index(i), f, " on a backend")
		}
	}
}

// filter translates one filter; nil if it is left out, in which case the problem was told.
func (c *routeContext) filter(rule *waypointv1.RouteRule, at path, f gatewayv1.HTTPRouteFilter) *waypointv1.Filter {
	switch f.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		return &waypointv1.Filter{Kind: &waypointv1.Filter_RequestHeaders{RequestHeaders: headerModifier(f.RequestHeaderModifier)}}
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		return &waypointv1.Filter{Kind: &waypointv1.Filter_ResponseHeaders{ResponseHeaders: headerModifier(f.ResponseHeaderModifier)}}
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		return &waypointv1.Filter{Kind: &waypointv1.Filter_Redirect{Redirect: redirect(f.RequestRedirect)}}
	case gatewayv1.HTTPRouteFilterURLRewrite:
		return &waypointv1.Filter{Kind: &waypointv1.Filter_Rewrite{Rewrite: &waypointv1.UrlRewrite{
			Hostname: value(f.URLRewrite.Hostname), Path: pathModifier(f.URLRewrite.Path),
		}}}
	case gatewayv1.HTTPRouteFilterRequestMirror:
		return c.mirror(at.at("requestMirror"), f.RequestMirror)
	case gatewayv1.HTTPRouteFilterCORS:
		return &waypointv1.Filter{Kind: &waypointv1.Filter_Cors{Cors: cors(f.CORS)}}
	}
	c.unsupportedFilter(rule, at, f, "")
	return nil
}

// unsupportedFilter: one that is an object of its own is a reference to a kind that is not known (Gateway API, InvalidKind).
func (c *routeContext) unsupportedFilter(rule *waypointv1.RouteRule, at path, f gatewayv1.HTTPRouteFilter, where string) {
	if ref := f.ExtensionRef; ref != nil {
		c.unresolved(refErrorf(gatewayv1.RouteReasonInvalidKind, "%s: no filter of kind %s.%s is known", at, ref.Kind, ref.Group))
	}
	c.unsupported(rule, at, "filter %s is not supported%s", f.Type, where)
}

func headerModifier(f *gatewayv1.HTTPHeaderFilter) *waypointv1.HeaderModifier {
	out := &waypointv1.HeaderModifier{Set: headers(f.Set), Add: headers(f.Add)}
	for _, name := range f.Remove {
		out.Remove = append(out.Remove, strings.ToLower(name))
	}
	return out
}

func headers(from []gatewayv1.HTTPHeader) []*waypointv1.Header {
	out := make([]*waypointv1.Header, 0, len(from))
	for _, h := range from {
		out = append(out, &waypointv1.Header{Name: strings.ToLower(string(h.Name)), Value: h.Value})
	}
	return out
}

func redirect(f *gatewayv1.HTTPRequestRedirectFilter) *waypointv1.Redirect {
	out := &waypointv1.Redirect{
		Scheme:   value(f.Scheme),
		Hostname: value(f.Hostname),
		Path:     pathModifier(f.Path),
		Status:   defaultRedirectStatus,
	}
	if f.Port != nil {
		out.Port = uint32(*f.Port)
	}
	if f.StatusCode != nil {
		out.Status = uint32(*f.StatusCode)
	}
	return out
}

func pathModifier(m *gatewayv1.HTTPPathModifier) *waypointv1.PathModifier {
	switch {
	case m == nil:
		return nil
	case m.Type == gatewayv1.PrefixMatchHTTPPathModifier:
		return &waypointv1.PathModifier{Kind: &waypointv1.PathModifier_Prefix{Prefix: value(m.ReplacePrefixMatch)}}
	}
	return &waypointv1.PathModifier{Kind: &waypointv1.PathModifier_Full{Full: value(m.ReplaceFullPath)}}
}

// mirror: a target that cannot be used leaves the mirror out, not the request (HTTPRequestMirrorFilter).
func (c *routeContext) mirror(at path, f *gatewayv1.HTTPRequestMirrorFilter) *waypointv1.Filter {
	service, err := c.resolve(f.BackendRef)
	if err != nil {
		c.unresolved(err)
		c.report.errorf(at.at("backendRef"), "%s; nothing is mirrored", err.text)
		return nil
	}
	out := &waypointv1.Mirror{Service: service, Port: uint32(*f.BackendRef.Port), Numerator: 1, Denominator: 1}
	switch {
	case f.Percent != nil:
		out.Numerator, out.Denominator = uint32(*f.Percent), 100
	case f.Fraction != nil:
		out.Numerator, out.Denominator = uint32(f.Fraction.Numerator), 100
		if f.Fraction.Denominator != nil {
			out.Denominator = uint32(*f.Fraction.Denominator)
		}
	}
	return &waypointv1.Filter{Kind: &waypointv1.Filter_Mirror{Mirror: out}}
}

func cors(f *gatewayv1.HTTPCORSFilter) *waypointv1.Cors {
	out := &waypointv1.Cors{
		AllowOrigins:     texts(f.AllowOrigins),
		AllowCredentials: f.AllowCredentials != nil && *f.AllowCredentials,
		AllowMethods:     texts(f.AllowMethods),
		AllowHeaders:     texts(f.AllowHeaders),
		ExposeHeaders:    texts(f.ExposeHeaders),
		MaxAge:           durationpb.New(defaultCORSMaxAge),
	}
	if f.MaxAge != 0 {
		out.MaxAge = durationpb.New(time.Duration(f.MaxAge) * time.Second)
	}
	return out
}

func texts[T ~string](from []T) []string {
	out := make([]string, 0, len(from))
	for _, s := range from {
		out = append(out, string(s))
	}
	return out
}
