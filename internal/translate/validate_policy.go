package translate

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	securityapi "istio.io/api/security/v1beta1"
	typeapi "istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
)

const maxTargets = 16

// validatePolicy refuses what Istio's admission refuses, and what we could only enforce wrongly.
func validatePolicy(r *report, p *securityv1.AuthorizationPolicy) {
	spec := &p.Spec
	validateAttachment(r, p)
	custom := spec.Action == securityapi.AuthorizationPolicy_CUSTOM
	if _, ok := securityapi.AuthorizationPolicy_Action_name[int32(spec.Action)]; !ok {
		r.errorf("spec.action", "must be ALLOW, DENY, AUDIT or CUSTOM, got %d", spec.Action)
	}
	if len(spec.Rules) == 0 && (custom || spec.Action == securityapi.AuthorizationPolicy_DENY) {
		r.errorf("spec.rules", "must have at least one item for action %s", spec.Action)
	}
	if custom != (spec.GetProvider().GetName() != "") {
		r.errorf("spec.provider.name", "must be set for action CUSTOM, and for no other")
	}
	for i, rule := range spec.Rules {
		at := path("spec.rules").index(i)
		if rule == nil {
			r.errorf(at, "must not be null")
			continue
		}
		for j, from := range rule.From {
			validateSource(r, at.at("from").index(j).at("source"), from.GetSource(), custom)
		}
		for j, to := range rule.To {
			validateOperation(r, at.at("to").index(j).at("operation"), to.GetOperation())
		}
		for j, c := range rule.When {
			validateCondition(r, at.at("when").index(j), c, custom)
		}
	}
}

func validateAttachment(r *report, p *securityv1.AuthorizationPolicy) {
	forms := 0
	for _, set := range []bool{p.Spec.Selector != nil, p.Spec.TargetRef != nil, len(p.Spec.TargetRefs) > 0} {
		if set {
			forms++
		}
	}
	if forms > 1 {
		r.errorf("spec", "must have only one of selector, targetRef and targetRefs")
	}
	refs, at := targetsOf(p)
	r.atMost(at, len(refs), maxTargets)
	for i, ref := range refs {
		at := at
		if p.Spec.TargetRef == nil {
			at = at.index(i)
		}
		validateTarget(r, at, ref, p.Namespace)
	}
}

func validateTarget(r *report, at path, ref *typeapi.PolicyTargetReference, namespace string) {
	switch (groupKind{ref.GetGroup(), ref.GetKind()}) {
	case groupKind{groupCore, kindService}, groupKind{groupNetworking, kindServiceEntry}, groupKind{groupGateway, kindGateway},
		groupKind{groupGateway, kindGatewayClass}:
	default:
		r.errorf(at.at("kind"), "must be Service, ServiceEntry, Gateway or GatewayClass with its group, got %q of group %q",
			ref.GetKind(), ref.GetGroup())
	}
	r.required(at.at("name"), ref.GetName())
	if ns := ref.GetNamespace(); ns != "" && ns != namespace {
		r.errorf(at.at("namespace"), "must be left out: a policy is attached in its own namespace only")
	}
}

// named is a list of strings under its name in the object.
type named struct {
	name   string
	values []string
}

func validateSource(r *report, at path, s *securityapi.Source, custom bool) {
	identities := []named{
		{"principals", s.GetPrincipals()},
		{"notPrincipals", s.GetNotPrincipals()},
		{"namespaces", s.GetNamespaces()},
		{"notNamespaces", s.GetNotNamespaces()},
	}
	accounts := []named{{"serviceAccounts", s.GetServiceAccounts()}, {"notServiceAccounts", s.GetNotServiceAccounts()}}
	others := []named{
		{"requestPrincipals", s.GetRequestPrincipals()},
		{"notRequestPrincipals", s.GetNotRequestPrincipals()},
		{"trustDomains", s.GetTrustDomains()},
		{"notTrustDomains", s.GetNotTrustDomains()},
	}
	blocks := []named{
		{"ipBlocks", s.GetIpBlocks()},
		{"notIpBlocks", s.GetNotIpBlocks()},
		{"remoteIpBlocks", s.GetRemoteIpBlocks()},
		{"notRemoteIpBlocks", s.GetNotRemoteIpBlocks()},
	}
	byIdentity := r.lists(at, identities) + r.lists(at, others)
	byAccount := r.lists(at, accounts)
	byAddress := r.lists(at, blocks)
	switch {
	case byIdentity+byAccount+byAddress == 0:
		r.errorf(at, "must have at least one field; leave out from to match every source")
	case custom && byIdentity+byAccount > 0:
		r.errorf(at, "only IP blocks can be matched with action CUSTOM")
	case byAccount > 0 && count(identities) > 0:
		r.errorf(at.at("serviceAccounts"), "must not stand beside principals or namespaces")
	}
	for _, list := range identities[:2] {
		for i, p := range list.values {
			r.principal(at.at(list.name).index(i), p)
		}
	}
	for _, list := range blocks {
		for i, b := range list.values {
			r.block(at.at(list.name).index(i), b)
		}
	}
	for _, list := range accounts {
		for i, a := range list.values {
			if strings.Count(a, "/") > 1 || strings.Contains(a, "*") {
				r.errorf(at.at(list.name).index(i), `must be "ACCOUNT" or "NAMESPACE/ACCOUNT", got %q`, a)
			}
		}
	}
}

func validateOperation(r *report, at path, o *securityapi.Operation) {
	paths := []named{{"paths", o.GetPaths()}, {"notPaths", o.GetNotPaths()}}
	ports := []named{{"ports", o.GetPorts()}, {"notPorts", o.GetNotPorts()}}
	n := r.lists(at, paths) + r.lists(at, ports) + r.lists(at, []named{
		{"hosts", o.GetHosts()}, {"notHosts", o.GetNotHosts()}, {"methods", o.GetMethods()}, {"notMethods", o.GetNotMethods()},
	})
	if n == 0 {
		r.errorf(at, "must have at least one field; leave out to to match every operation")
	}
	for _, list := range ports {
		for i, p := range list.values {
			r.portText(at.at(list.name).index(i), p)
		}
	}
	for _, list := range paths {
		for i, p := range list.values {
			r.pathTemplate(at.at(list.name).index(i), p)
		}
	}
}

// lists checks that no value is empty and counts the values.
func (r *report) lists(at path, lists []named) (n int) {
	for _, list := range lists {
		for i, v := range list.values {
			if v == "" {
				r.errorf(at.at(list.name).index(i), "must not be empty")
			}
		}
	}
	return count(lists)
}

func count(lists []named) (n int) {
	for _, list := range lists {
		n += len(list.values)
	}
	return n
}

func (r *report) block(at path, s string) {
	if _, err := netip.ParseAddr(s); err == nil {
		return
	}
	if _, err := netip.ParsePrefix(s); err != nil {
		r.errorf(at, `must be an IP address or a block such as "10.0.0.0/8", got %q`, s)
	}
}

var principalForm = regexp.MustCompile(`^(spiffe://)?[^/*]+/ns/[^/*]+/sa/[^/*]+$`)

// principal refuses names that no certificate of the mesh carries: taken literally they would never match.
func (r *report) principal(at path, s string) {
	if strings.HasPrefix(s, "*") || strings.HasSuffix(s, "*") || principalForm.MatchString(s) {
		return
	}
	r.errorf(at, `must be "TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT", or begin or end with "*", got %q`, s)
}

func (r *report) portText(at path, s string) {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
		r.errorf(at, "must be a port number, got %q", s)
	}
}

var templateOperator = regexp.MustCompile(`\{[^}]*\}?`)

// pathTemplate checks "{*}" (one segment) and "{**}" (the rest, at the end), which do not mix with "*".
func (r *report) pathTemplate(at path, p string) {
	if !strings.ContainsAny(p, "{}") {
		return
	}
	for _, op := range templateOperator.FindAllString(p, -1) {
		if op != "{*}" && op != "{**}" {
			r.errorf(at, `must use {*} or {**} only, got %q`, p)
			return
		}
	}
	bare := templateOperator.ReplaceAllString(p, "")
	switch {
	case strings.ContainsAny(bare, "*{}"):
		r.errorf(at, "must not mix templates with %q, got %q", "*", p)
	case strings.Contains(p, "{**}") && (strings.Count(p, "{**}") > 1 || !strings.HasSuffix(p, "/{**}")):
		r.errorf(at, "{**} must be the last segment, got %q", p)
	case !wholeSegments(p):
		r.errorf(at, "{*} must be a whole segment, got %q", p)
	}
}

func wholeSegments(p string) bool {
	for _, segment := range strings.Split(p, "/") {
		if strings.Contains(segment, "{") && segment != "{*}" && segment != "{**}" {
			return false
		}
	}
	return true
}

// conditionKeys are the attributes without a part in brackets, with the check of their values.
var conditionKeys = map[string]func(r *report, at path, value string){
	"source.ip":              (*report).block,
	"remote.ip":              (*report).block,
	"source.namespace":       nil,
	keySourceServiceAccount:  nil,
	"source.trustDomain":     nil,
	"source.principal":       (*report).principal,
	"request.auth.principal": nil,
	"request.auth.audiences": nil,
	"request.auth.presenter": nil,
	"destination.ip":         (*report).block,
	"destination.port":       (*report).portText,
	"connection.sni":         nil,
}

var (
	headerKey = regexp.MustCompile(`^request\.headers\[([^\]]+)\]$`)
	claimsKey = regexp.MustCompile(`^request\.auth\.claims(\[[^\]]+\])+$`)
)

func validateCondition(r *report, at path, c *securityapi.Condition, custom bool) {
	key := c.GetKey()
	check, known := conditionKeys[key]
	header := headerKey.FindStringSubmatch(key)
	switch {
	case known || claimsKey.MatchString(key):
	case header != nil:
		r.headerName(at.at("key"), header[1])
	default:
		r.errorf(at.at("key"), "must be an attribute such as source.ip or request.headers[NAME], got %q", key)
	}
	if custom && (strings.HasPrefix(key, "request.auth.") || strings.HasPrefix(key, "source.") && key != "source.ip") {
		r.errorf(at.at("key"), "%s cannot be matched with action CUSTOM", key)
	}
	lists := []named{{"values", c.GetValues()}, {"notValues", c.GetNotValues()}}
	if r.lists(at, lists) == 0 {
		r.errorf(at, "must have values or notValues")
	}
	if check == nil {
		return
	}
	for _, list := range lists {
		for i, v := range list.values {
			check(r, at.at(list.name).index(i), v)
		}
	}
}
