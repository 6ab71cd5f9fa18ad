package compile

import (
	"errors"
	"fmt"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// policy gives one that denies everything for a resource that was refused, or
// that does not compile.
func policy(p *waypointv1.AuthorizationPolicy) (*mesh.PolicySpec, error) {
	out := &mesh.PolicySpec{Policy: authz.Policy{
		Namespace: p.GetNamespace(),
		Name:      p.GetName(),
		DryRun:    p.GetDryRun(),
		Provider:  p.GetProvider(),
		Invalid:   p.GetRejected(),
	}}
	var faults problems
	var err error
	if out.Policy.Action, err = action(p.GetAction()); err != nil {
		faults.add("action", err)
	}
	for i, t := range p.GetTargets() {
		target, err := policyTarget(t)
		faults.add(fmt.Sprintf("targets[%d]", i), err)
		out.Targets = append(out.Targets, target)
	}
	if p.GetRejected() != "" {
		return out, faults.err()
	}
	for i, r := range p.GetRules() {
		rule, err := policyRule(r)
		faults.add(fmt.Sprintf("rules[%d]", i), err)
		out.Policy.Rules = append(out.Policy.Rules, rule)
	}
	err = errors.Join(faults.err(), out.Policy.Validate())
	if err != nil {
		out.Policy.Rules, out.Policy.Invalid = nil, err.Error()
	}
	return out, err
}

func action(a waypointv1.AuthorizationPolicy_Action) (authz.Action, error) {
	switch a {
	case waypointv1.AuthorizationPolicy_ALLOW:
		return authz.Allow, nil
	case waypointv1.AuthorizationPolicy_DENY:
		return authz.Deny, nil
	case waypointv1.AuthorizationPolicy_AUDIT:
		return authz.Audit, nil
	case waypointv1.AuthorizationPolicy_CUSTOM:
		return authz.Custom, nil
	}
	return authz.Deny, fmt.Errorf("%d is not known", a)
}

// policyTarget takes a target that it cannot read for everything we front.
func policyTarget(t *waypointv1.AuthorizationPolicy_Target) (mesh.PolicyTarget, error) {
	switch k := t.GetKind().(type) {
	case *waypointv1.AuthorizationPolicy_Target_Service:
		return mesh.PolicyTarget{Service: k.Service.Key()}, nil
	case *waypointv1.AuthorizationPolicy_Target_Namespace:
		return mesh.PolicyTarget{Namespace: k.Namespace}, nil
	case *waypointv1.AuthorizationPolicy_Target_Gateway, *waypointv1.AuthorizationPolicy_Target_GatewayClass:
		return mesh.PolicyTarget{}, nil
	}
	return mesh.PolicyTarget{}, errors.New("has no kind that is known")
}

func policyRule(r *waypointv1.AuthorizationPolicy_Rule) (out authz.Rule, err error) {
	for _, s := range r.GetFrom() {
		out.From = append(out.From, policySource(s))
	}
	for i, o := range r.GetTo() {
		operation, e := policyOperation(o)
		if e != nil {
			err = fmt.Errorf("to[%d].%w", i, e)
		}
		out.To = append(out.To, operation)
	}
	for _, c := range r.GetWhen() {
		out.When = append(out.When, authz.Condition{Key: c.GetKey(), Values: c.GetValues(), NotValues: c.GetNotValues()})
	}
	return out, err
}

func policySource(s *waypointv1.AuthorizationPolicy_Source) authz.Source {
	return authz.Source{
		Principals:           s.GetPrincipals(),
		NotPrincipals:        s.GetNotPrincipals(),
		RequestPrincipals:    s.GetRequestPrincipals(),
		NotRequestPrincipals: s.GetNotRequestPrincipals(),
		Namespaces:           s.GetNamespaces(),
		NotNamespaces:        s.GetNotNamespaces(),
		ServiceAccounts:      s.GetServiceAccounts(),
		NotServiceAccounts:   s.GetNotServiceAccounts(),
		IPBlocks:             s.GetIpBlocks(),
		NotIPBlocks:          s.GetNotIpBlocks(),
		RemoteIPBlocks:       s.GetRemoteIpBlocks(),
		NotRemoteIPBlocks:    s.GetNotRemoteIpBlocks(),
		TrustDomains:         s.GetTrustDomains(),
		NotTrustDomains:      s.GetNotTrustDomains(),
	}
}

func policyOperation(o *waypointv1.AuthorizationPolicy_Operation) (out authz.Operation, err error) {
	out = authz.Operation{
		Hosts:      o.GetHosts(),
		NotHosts:   o.GetNotHosts(),
		Methods:    o.GetMethods(),
		NotMethods: o.GetNotMethods(),
		Paths:      normalPatterns(o.GetPaths()),
		NotPaths:   normalPatterns(o.GetNotPaths()),
	}
	var errIs, errNot error
	if out.Ports, errIs = ports(o.GetPorts()); errIs != nil {
		err = fmt.Errorf("ports: %w", errIs)
	}
	if out.NotPorts, errNot = ports(o.GetNotPorts()); errNot != nil {
		err = fmt.Errorf("notPorts: %w", errNot)
	}
	return out, err
}

func ports(numbers []uint32) (out []uint16, err error) {
	for _, n := range numbers {
		port, e := portOf(n)
		if e != nil {
			err = e
		}
		out = append(out, port)
	}
	return out, err
}

// normalPatterns brings patterns of paths into the form in which the paths of
// requests are compared with them, so that "/caf\u00e9" and "%2f" mean what they say.
func normalPatterns(patterns []string) (out []string) {
	for _, p := range patterns {
		out = append(out, route.NormalizePattern(p))
	}
	return out
}
