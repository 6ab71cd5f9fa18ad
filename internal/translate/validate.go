package translate

import (
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Bounds on user expressions. RE2 matches in linear time, but memory and compile time follow the program's size, which
// repetition lets grow far beyond the text: "(a{1000}){10}" is 13 bytes.
const (
	maxRegexBytes        = 4096
	maxRegexInstructions = 10_000
)

// validate refuses in one object what an API server would have refused, and warns of fields that do nothing.
func validate(key Key, obj Object) []Problem {
	r := &report{object: key}
	validateName(r, key)
	warnIdle(r, obj)
	switch obj := obj.(type) {
	case *corev1.Pod:
		for i, ip := range obj.Status.PodIPs {
			r.address(path("status.podIPs").index(i).at("ip"), ip.IP)
		}
	case *corev1.Service:
		validateService(r, obj)
	case *discoveryv1.EndpointSlice:
		validateSlice(r, obj)
	case *gatewayv1.Gateway:
		validateGateway(r, obj)
	case *gatewayv1.HTTPRoute:
		validateHTTPRoute(r, obj)
	case *gatewayv1.GRPCRoute:
		validateGRPCRoute(r, obj)
	case *gatewayv1.TCPRoute:
		validateTCPRoute(r, obj)
	case *gatewayv1.TLSRoute:
		validateTLSRoute(r, obj)
	case *gatewayv1.ReferenceGrant:
		validateReferenceGrant(r, obj)
	case *networkingv1.ServiceEntry:
		validateServiceEntry(r, obj)
	case *networkingv1.WorkloadEntry:
		validateWorkloadEntry(r, path("spec"), &obj.Spec)
	case *securityv1.AuthorizationPolicy:
		validatePolicy(r, obj)
	}
	return r.problems
}

func validateName(r *report, key Key) {
	if faults := validation.IsDNS1123Subdomain(key.Name); len(faults) > 0 {
		r.errorf("metadata.name", "must be lower-case letters, digits, '-' and '.', got %q", key.Name)
	}
	if key.Namespace != "" && len(validation.IsDNS1123Label(key.Namespace)) > 0 {
		r.errorf("metadata.namespace", "must be lower-case letters, digits and '-', got %q", key.Namespace)
	}
}

func validateService(r *report, s *corev1.Service) {
	for i, ip := range s.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone && ip != "" {
			r.address(path("spec.clusterIPs").index(i), ip)
		}
	}
	if ip := s.Spec.ClusterIP; ip != corev1.ClusterIPNone && ip != "" {
		r.address("spec.clusterIP", ip)
	}
	seen := map[string]bool{}
	for i, p := range s.Spec.Ports {
		at := path("spec.ports").index(i)
		r.port(at.at("port"), int64(p.Port))
		if p.TargetPort.IntVal != 0 {
			r.port(at.at("targetPort"), int64(p.TargetPort.IntVal))
		}
		if len(s.Spec.Ports) > 1 && p.Name == "" {
			r.errorf(at.at("name"), "must be set when there are several ports")
		}
		if id := fmt.Sprintf("%s/%d", p.Protocol, p.Port); seen[id] {
			r.errorf(at.at("port"), "%d is listed twice", p.Port)
		} else {
			seen[id] = true
		}
	}
	r.oneOf("spec.type", string(s.Spec.Type), "", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
}

func validateSlice(r *report, s *discoveryv1.EndpointSlice) {
	r.oneOf("addressType", string(s.AddressType), "IPv4", "IPv6", "FQDN")
	for i, p := range s.Ports {
		if p.Port != nil {
			r.port(path("ports").index(i).at("port"), int64(*p.Port))
		}
	}
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		r.warnf("addressType", "host names are not resolved; the slice's endpoints are not used")
		return
	}
	for i, ep := range s.Endpoints {
		for j, ip := range ep.Addresses {
			r.address(path("endpoints").index(i).at("addresses").index(j), ip)
		}
	}
}

func validateGateway(r *report, g *gatewayv1.Gateway) {
	if g.Spec.GatewayClassName == "" {
		r.errorf("spec.gatewayClassName", "must be set")
	}
	for i, l := range g.Spec.Listeners {
		at := path("spec.listeners").index(i)
		r.port(at.at("port"), int64(l.Port))
		if l.AllowedRoutes == nil || l.AllowedRoutes.Namespaces == nil {
			continue
		}
		ns, at := l.AllowedRoutes.Namespaces, at.at("allowedRoutes.namespaces")
		r.oneOf(at.at("from"), value(ns.From), "", "All", "Selector", "Same", "None")
		if _, err := metav1.LabelSelectorAsSelector(ns.Selector); err != nil {
			r.errorf(at.at("selector"), "%v", err)
		}
		if value(ns.From) == string(gatewayv1.NamespacesFromSelector) && ns.Selector == nil {
			r.errorf(at.at("selector"), "must be set when from is Selector")
		}
	}
}

func validateReferenceGrant(r *report, g *gatewayv1.ReferenceGrant) {
	for i, f := range g.Spec.From {
		at := path("spec.from").index(i)
		r.required(at.at("kind"), string(f.Kind))
		r.required(at.at("namespace"), string(f.Namespace))
	}
	for i, to := range g.Spec.To {
		r.required(path("spec.to").index(i).at("kind"), string(to.Kind))
	}
}

func (r *report) required(at path, value string) {
	if value == "" {
		r.errorf(at, "must be set")
	}
}

func (r *report) oneOf(at path, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	r.errorf(at, "must be one of %s, got %q", strings.Join(allowed, ", "), value)
}

func (r *report) within(at path, value, least, most int64) {
	if value < least || value > most {
		r.errorf(at, "must be between %d and %d, got %d", least, most, value)
	}
}

func (r *report) port(at path, value int64) { r.within(at, value, 1, 65535) }

func (r *report) atMost(at path, n, most int) {
	if n > most {
		r.errorf(at, "must not have more than %d items, has %d", most, n)
	}
}

func (r *report) atLeastOne(at path, n int) {
	if n == 0 {
		r.errorf(at, "must have at least one item")
	}
}

func (r *report) address(at path, s string) {
	if _, err := netip.ParseAddr(s); err != nil {
		r.errorf(at, "must be an IP address, got %q", s)
	}
}

// regex refuses expressions that do not compile or would be too large to run for every request.
func (r *report) regex(at path, expr string) {
	if len(expr) > maxRegexBytes {
		r.errorf(at, "regular expression must not be longer than %d bytes, has %d", maxRegexBytes, len(expr))
		return
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		r.errorf(at, "must be a regular expression in RE2 syntax: %v", err)
		return
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		r.errorf(at, "must be a regular expression in RE2 syntax: %v", err)
		return
	}
	if len(prog.Inst) > maxRegexInstructions {
		r.errorf(at, "regular expression is too large: %d instructions, at most %d", len(prog.Inst), maxRegexInstructions)
	}
}

// gep2257 is the form of durations in Gateway API (GEP-2257).
var gep2257 = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

func (r *report) duration(at path, d *gatewayv1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	parsed, err := time.ParseDuration(string(*d))
	if err != nil || !gep2257.MatchString(string(*d)) {
		r.errorf(at, `must be a duration such as "1m30s" or "500ms" (GEP-2257), got %q`, *d)
		return 0
	}
	return parsed
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]+$") // RFC 9110, section 5.6.2

func (r *report) headerName(at path, name string) {
	if len(name) > 256 || !token.MatchString(name) {
		r.errorf(at, "must be a header name (RFC 9110 token), got %q", name)
	}
}

func (r *report) headerValue(at path, value string) {
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		r.errorf(at, "must not contain control characters, got %q", value)
	}
}

// hostname checks an RFC 1123 name, with "*." in front where wildcards are allowed.
func (r *report) hostname(at path, name string, wildcard bool) {
	bare := name
	if wildcard {
		bare = strings.TrimPrefix(name, "*.")
	}
	if len(validation.IsDNS1123Subdomain(bare)) > 0 {
		r.errorf(at, "must be a host name, got %q", name)
		return
	}
	if _, err := netip.ParseAddr(name); err == nil {
		r.errorf(at, "must be a host name, not an IP address, got %q", name)
	}
}
