package translate

import (
	"fmt"
	"slices"

	securityapi "istio.io/api/security/v1beta1"
	typeapi "istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// targeting resolves the targets of one policy, and notes what became of it at each.
type targeting struct {
	*view
	policy *securityv1.AuthorizationPolicy
	report *report
	// broken: the policy is a rejected one, of which nothing more is to be said than that.
	broken bool
}

// policyTargets resolves what a policy is attached to, as far as we front it. A rejected policy whose targets cannot be
// read reaches the whole namespace.
func (v *view) policyTargets(e *entry, p *securityv1.AuthorizationPolicy, r *report) []*waypointv1.AuthorizationPolicy_Target {
	t := targeting{v, p, r, e.rejected != ""}
	refs, at := targetsOf(p)
	whole := []*waypointv1.AuthorizationPolicy_Target{{
		Kind: &waypointv1.AuthorizationPolicy_Target_Namespace{Namespace: p.Namespace},
	}}
	if e.blind {
		return whole
	}
	if len(refs) == 0 {
		if !t.broken {
			t.pods()
		}
		return nil
	}
	var out []*waypointv1.AuthorizationPolicy_Target
	for i, ref := range refs {
		at := at
		if p.Spec.TargetRef == nil {
			at = at.index(i)
		}
		switch (groupKind{ref.Group, ref.Kind}) {
		case groupKind{groupCore, kindService}, groupKind{groupNetworking, kindServiceEntry}:
			out = append(out, t.service(i, ref, at)...)
		case groupKind{groupGateway, kindGateway}:
			out = append(out, t.gateway(i, ref, at)...)
		case groupKind{groupGateway, kindGatewayClass}:
			out = append(out, t.class(i, ref, at)...)
		default: // validation refused it
			return whole
		}
	}
	return out
}

// fails notes that the policy does nothing at a target.
func (t targeting) fails(ref int, target Key, p Problem) {
	t.report.add(p)
	t.statement().targets = append(t.statement().targets, TargetStatus{Ref: ref, Target: target, Fault: p})
}

func (t targeting) failsf(ref int, target Key, at path, format string, args ...any) {
	t.fails(ref, target, Problem{t.report.object, string(at), fmt.Sprintf(format, args...), "", Warning})
}

// holds notes that the policy is enforced at a target.
func (t targeting) holds(ref int, target Key, around string) {
	t.statement().targets = append(t.statement().targets, TargetStatus{Ref: ref, Target: target, Around: around})
}

func (t targeting) service(i int, ref *typeapi.PolicyTargetReference, at path) []*waypointv1.AuthorizationPolicy_Target {
	target := Key{ref.Kind, t.policy.Namespace, ref.Name}
	e := t.get(target.Kind, target.Namespace, target.Name)
	if e == nil || e.rejected != "" {
		t.failsf(i, target, at, "%s %s/%s does not exist; the policy holds as soon as it does", ref.Kind, target.Namespace, ref.Name)
		return nil
	}
	if d := t.detourOf(e.obj); d.reason != "" {
		t.fails(i, target, d.problem(t.report.object, at, ", so nothing enforces the policy"))
		return nil
	}
	if !t.attached(e.obj, true) {
		return nil
	}
	if !t.broken {
		warnOpaque(t.policy, e.obj, at, t.report)
	}
	around := ""
	if s, ok := e.obj.(*corev1.Service); ok && len(s.Spec.Selector) > 0 {
		around = t.around(s.Namespace, s.Spec.Selector)
	}
	t.holds(i, target, around)
	var out []*waypointv1.AuthorizationPolicy_Target
	for _, host := range t.hostsOf(e.obj) {
		out = append(out, &waypointv1.AuthorizationPolicy_Target{Kind: &waypointv1.AuthorizationPolicy_Target_Service{
			Service: &waypointv1.ServiceRef{Namespace: target.Namespace, Hostname: host},
		}})
	}
	return out
}

func (t targeting) gateway(i int, ref *typeapi.PolicyTargetReference, at path) []*waypointv1.AuthorizationPolicy_Target {
	target := Key{kindGateway, t.policy.Namespace, ref.Name}
	if target.Namespace == t.options.GatewayNamespace && target.Name == t.options.GatewayName {
		around := ""
		if g := t.view.gateway(); g != nil && !t.servesThat(g, false) {
			around = t.around(target.Namespace, nil)
		}
		t.holds(i, target, around)
		return []*waypointv1.AuthorizationPolicy_Target{{Kind: &waypointv1.AuthorizationPolicy_Target_Gateway{Gateway: true}}}
	}
	if t.get(kindGateway, target.Namespace, target.Name) == nil {
		t.failsf(i, target, at, "Gateway %s/%s does not exist", target.Namespace, target.Name)
	}
	return nil
}

func (t targeting) class(i int, ref *typeapi.PolicyTargetReference, at path) []*waypointv1.AuthorizationPolicy_Target {
	target := Key{Kind: kindGatewayClass, Name: ref.Name}
	if t.policy.Namespace != t.options.RootNamespace {
		t.failsf(i, target, at, "a policy for a GatewayClass holds only in the root namespace, %s", t.options.RootNamespace)
		return nil
	}
	if g := t.view.gateway(); g == nil || string(g.Spec.GatewayClassName) != ref.Name {
		return nil
	}
	t.holds(i, target, "")
	return []*waypointv1.AuthorizationPolicy_Target{{Kind: &waypointv1.AuthorizationPolicy_Target_GatewayClass{GatewayClass: true}}}
}

// pods looks at a policy that ztunnels enforce, for pods or a whole namespace. They see no HTTP. Where the pods are those of a
// Service that we front, the policy was meant for us.
func (t targeting) pods() {
	t.report.warnf("spec", "a policy without targetRefs is enforced by the ztunnel of each workload, not by a waypoint")
	i := slices.IndexFunc(t.policy.Spec.Rules, looksAtHTTP)
	if i < 0 {
		return
	}
	effect := "allows nothing"
	if t.policy.Spec.Action != securityapi.AuthorizationPolicy_ALLOW {
		effect = "matches by its other fields alone, or not at all"
	}
	selector := t.policy.Spec.GetSelector().GetMatchLabels()
	for _, e := range t.find(fact{kind: factServiceOf, namespace: t.policy.Namespace}) {
		s := e.obj.(*corev1.Service)
		if !t.attached(s, true) || !overlap(selector, s.Spec.Selector) {
			continue
		}
		t.fails(0, e.key, Problem{
			t.report.object, string(path("spec.rules").index(i)),
			"without targetRefs the policy is enforced by ztunnels, which see no HTTP, so a rule that looks at it " + effect,
			fmt.Sprintf("for the waypoint to enforce it, write targetRefs: [{group: %q, kind: Service, name: %s}] instead of a selector", "", s.Name),
			Warning,
		})
	}
}

// overlap: a pod can have the labels of both selectors, as far as they say.
func overlap(a, b map[string]string) bool {
	if len(b) == 0 {
		return false // a service without pods
	}
	for k, value := range a {
		if other, ok := b[k]; ok && other != value {
			return false
		}
	}
	for k := range a {
		if _, ok := b[k]; ok {
			return true
		}
	}
	return len(a) == 0
}

// around tells how clients get around policies for the services of some pods: by calling the pods by their own addresses,
// unless the pods take calls only from identities that a policy names.
func (t targeting) around(namespace string, pods map[string]string) string {
	for _, ns := range []string{namespace, t.options.RootNamespace} {
		for _, e := range t.find(fact{kind: factPolicyOfPods, namespace: ns}) {
			if guards(e.obj.(*securityv1.AuthorizationPolicy), pods) {
				return ""
			}
		}
	}
	return fmt.Sprintf("who calls a pod by its own address goes around the waypoint, as no AuthorizationPolicy with a selector "+
		"lets in the waypoint alone (action ALLOW, principals [%s/ns/%s/sa/%s])", t.options.TrustDomain, t.options.GatewayNamespace, t.options.GatewayName)
}

// guards: the policy covers the pods, and lets in nobody whose identity it does not name.
func guards(p *securityv1.AuthorizationPolicy, pods map[string]string) bool {
	if p.Spec.Action != securityapi.AuthorizationPolicy_ALLOW || p.Annotations[annotationDryRun] == "true" {
		return false
	}
	for k, value := range p.Spec.GetSelector().GetMatchLabels() {
		if pods[k] != value {
			return false
		}
	}
	return !slices.ContainsFunc(p.Spec.Rules, func(rule *securityapi.Rule) bool {
		return len(rule.GetFrom()) == 0 || slices.ContainsFunc(rule.GetFrom(), func(from *securityapi.Rule_From) bool {
			s := from.GetSource()
			named := slices.Concat(s.GetPrincipals(), s.GetServiceAccounts(), s.GetNamespaces())
			return len(named) == 0 || slices.Contains(named, "*")
		})
	})
}
