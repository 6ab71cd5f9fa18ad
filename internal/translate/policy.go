package translate

import (
	"slices"
	"strconv"
	"strings"

	securityapi "istio.io/api/security/v1beta1"
	typeapi "istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

const annotationDryRun = "istio.io/dry-run"

// targetsOf lists the targetRefs of a policy, the older single form included.
func targetsOf(p *securityv1.AuthorizationPolicy) ([]*typeapi.PolicyTargetReference, path) {
	if ref := p.Spec.TargetRef; ref != nil {
		return []*typeapi.PolicyTargetReference{ref}, "spec.targetRef"
	}
	return p.Spec.TargetRefs, "spec.targetRefs"
}

// computePolicy gives a policy with a target that we front.
func (v *view) computePolicy(namespace, name string) {
	e := v.get(kindAuthorizationPolicy, namespace, name)
	if e == nil {
		return
	}
	p := e.obj.(*securityv1.AuthorizationPolicy)
	r := v.about(e.key)
	defer v.keep(r)
	targets := v.policyTargets(e, p, r)
	if len(targets) == 0 {
		return
	}
	out := &waypointv1.AuthorizationPolicy{
		Namespace: namespace,
		Name:      name,
		Targets:   targets,
		DryRun:    dryRun(p, r),
		Rejected:  e.rejected,
	}
	if e.rejected == "" {
		fillPolicy(out, p, r)
	}
	v.emit(out)
}

func fillPolicy(out *waypointv1.AuthorizationPolicy, p *securityv1.AuthorizationPolicy, r *report) {
	out.Action = waypointv1.AuthorizationPolicy_Action(p.Spec.Action)
	out.Provider = p.Spec.GetProvider().GetName()
	if p.Spec.Action == securityapi.AuthorizationPolicy_CUSTOM {
		r.errorf("spec.action", "external authorization is not supported; requests that match the rules are denied")
	}
	for i, rule := range p.Spec.Rules {
		out.Rules = append(out.Rules, policyRule(path("spec.rules").index(i), rule, p.Namespace, r))
	}
}

func dryRun(p *securityv1.AuthorizationPolicy, r *report) bool {
	text, ok := p.Annotations[annotationDryRun]
	if !ok {
		return false
	}
	dry, err := strconv.ParseBool(text)
	if err != nil {
		r.warnf(path("metadata.annotations").key(annotationDryRun), "must be true or false, got %q; the policy is enforced", text)
	}
	return dry
}

func policyRule(at path, rule *securityapi.Rule, namespace string, r *report) *waypointv1.AuthorizationPolicy_Rule {
	out := &waypointv1.AuthorizationPolicy_Rule{}
	for i, from := range rule.From {
		s := from.Source
		if len(s.RequestPrincipals)+len(s.NotRequestPrincipals) > 0 {
			warnJWT(r, at.at("from").index(i).at("source.requestPrincipals"))
		}
		out.From = append(out.From, policySource(s, namespace))
	}
	for i, to := range rule.To {
		warnMethods(r, at.at("to").index(i).at("operation.methods"), to.Operation.Methods)
		warnMethods(r, at.at("to").index(i).at("operation.notMethods"), to.Operation.NotMethods)
		out.To = append(out.To, policyOperation(to.Operation))
	}
	for i, c := range rule.When {
		if strings.HasPrefix(c.Key, "request.auth.") {
			warnJWT(r, at.at("when").index(i).at("key"))
		}
		out.When = append(out.When, policyCondition(c, namespace))
	}
	return out
}

var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// warnMethods tells of methods that no client means: they have a case, and policies compare it.
func warnMethods(r *report, at path, methods []string) {
	for i, m := range methods {
		if upper := strings.ToUpper(m); m != upper && slices.Contains(httpMethods, upper) {
			r.warnf(at.index(i), "methods are compared with their case, so %q is not %s", m, upper)
		}
	}
}

// warnOpaque tells what becomes of rules that look at HTTP on ports that are declared to carry something else.
func warnOpaque(p *securityv1.AuthorizationPolicy, service Object, at path, r *report) {
	if !slices.ContainsFunc(p.Spec.Rules, looksAtHTTP) {
		return
	}
	for _, port := range portsOf(service) {
		if carries(kindHTTPRoute, port.protocol) {
			continue
		}
		if p.Spec.Action == securityapi.AuthorizationPolicy_ALLOW {
			r.warnf(at, "port %d is declared as %s, where nothing of HTTP can be seen: rules that look at it allow nothing there",
				port.number, port.protocol)
		} else {
			r.warnf(at, "port %d is declared as %s, where nothing of HTTP can be seen: rules that look at it match by their other fields alone there",
				port.number, port.protocol)
		}
	}
}

// looksAtHTTP tells whether a rule needs something of a request to be decided.
func looksAtHTTP(rule *securityapi.Rule) bool {
	for _, from := range rule.From {
		if s := from.Source; len(s.RequestPrincipals)+len(s.NotRequestPrincipals) > 0 {
			return true
		}
	}
	for _, to := range rule.To {
		o := to.Operation
		if len(o.Hosts)+len(o.NotHosts)+len(o.Methods)+len(o.NotMethods)+len(o.Paths)+len(o.NotPaths) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(rule.When, func(c *securityapi.Condition) bool { return strings.HasPrefix(c.Key, "request.") })
}

func warnJWT(r *report, at path) {
	r.warnf(at, "no token is validated here, so every request counts as one without a token")
}

func policySource(s *securityapi.Source, namespace string) *waypointv1.AuthorizationPolicy_Source {
	return &waypointv1.AuthorizationPolicy_Source{
		Principals:           s.Principals,
		NotPrincipals:        s.NotPrincipals,
		RequestPrincipals:    s.RequestPrincipals,
		NotRequestPrincipals: s.NotRequestPrincipals,
		Namespaces:           s.Namespaces,
		NotNamespaces:        s.NotNamespaces,
		ServiceAccounts:      fullAccounts(s.ServiceAccounts, namespace),
		NotServiceAccounts:   fullAccounts(s.NotServiceAccounts, namespace),
		IpBlocks:             s.IpBlocks,
		NotIpBlocks:          s.NotIpBlocks,
		RemoteIpBlocks:       s.RemoteIpBlocks,
		NotRemoteIpBlocks:    s.NotRemoteIpBlocks,
		TrustDomains:         s.TrustDomains,
		NotTrustDomains:      s.NotTrustDomains,
	}
}

// fullAccounts completes "account" to "namespace/account".
func fullAccounts(accounts []string, namespace string) []string {
	out := make([]string, 0, len(accounts))
	for _, a := range accounts {
		if !strings.Contains(a, "/") {
			a = namespace + "/" + a
		}
		out = append(out, a)
	}
	return out
}

func policyOperation(o *securityapi.Operation) *waypointv1.AuthorizationPolicy_Operation {
	return &waypointv1.AuthorizationPolicy_Operation{
		Hosts:      o.Hosts,
		NotHosts:   o.NotHosts,
		Ports:      portNumbers(o.Ports),
		NotPorts:   portNumbers(o.NotPorts),
		Methods:    o.Methods,
		NotMethods: o.NotMethods,
		Paths:      o.Paths,
		NotPaths:   o.NotPaths,
	}
}

func portNumbers(texts []string) []uint32 {
	out := make([]uint32, 0, len(texts))
	for _, text := range texts {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil { // checked by validation
			out = append(out, uint32(n))
		}
	}
	return out
}

const keySourceServiceAccount = "source.serviceAccount"

func policyCondition(c *securityapi.Condition, namespace string) *waypointv1.AuthorizationPolicy_Condition {
	out := &waypointv1.AuthorizationPolicy_Condition{Key: c.Key, Values: c.Values, NotValues: c.NotValues}
	if c.Key == keySourceServiceAccount {
		out.Values = fullAccounts(c.Values, namespace)
		out.NotValues = fullAccounts(c.NotValues, namespace)
	}
	return out
}
