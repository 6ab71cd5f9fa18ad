package stories

import (
	"strings"
	"testing"
)

// A policy that cannot be taken denies all on its targets; if those cannot be
// read, on all services of its namespace. It is named where people look.
func TestPolicyRejected(t *testing.T) {
	wrongField := replaceOnce(policyOn("Service echo", "broken", "prod", "ALLOW", "{}"), "rules: [{}]", "rules: [{form: []}]")
	wrongTarget := replaceOnce(wrongField, "targetRefs: [", "targetRefs: [7, ")
	for _, tt := range []struct {
		name, policy string
		rows         []expectation
	}{
		{"an unknown field", wrongField, []expectation{{"its target", call{}, want{status: 403, app: "none"}}, {"others", call{to: "echo-v1/"}, want{}}}},
		{"a value that is none", policyOn("Service echo", "broken", "prod", "PERHAPS", "{}"), []expectation{{"its target", call{}, want{status: 403}}, {"others", call{to: "echo-v1/"}, want{}}}},
		{"an address that is none", policyOn("Service echo", "broken", "prod", "ALLOW", from("ipBlocks: [1.2.3]")), []expectation{{"its target", call{}, want{status: 403}}, {"others", call{to: "echo-v1/"}, want{}}}},
		{"a key that is none", policyOn("Service echo", "broken", "prod", "DENY", when("request.body", "values: [x]")), []expectation{{"its target", call{}, want{status: 403}}, {"others", call{to: "echo-v1/"}, want{}}}},
		{"DENY without rules", policyOn("Service echo", "broken", "prod", "DENY", ""), []expectation{{"its target", call{}, want{status: 403}}, {"others", call{to: "echo-v1/"}, want{}}}},
		{"an unreadable target", wrongTarget, []expectation{{"echo", call{}, want{status: 403}}, {"echo-v1", call{to: "echo-v1/"}, want{status: 403}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTown(t, tt.policy, nil)
			w.expect(tt.rows)
			if got := w.firstLine("prod/client", "echo:9090"); got != denied {
				t.Errorf("TCP: %s", got)
			}
			if log := w.wp.Log.String(); !strings.Contains(log, "AuthorizationPolicy prod/broken") {
				t.Errorf("the log does not name it:\n%s", log)
			}
			if snapshot := w.wp.Admin("/snapshot"); !strings.Contains(snapshot, "prod/broken") {
				t.Error("the snapshot does not name it")
			}
			a := w.send(call{})
			if entry := w.entry(a); entry["response_code_details"] != "rbac_access_denied_invalid_policy" || entry["policy"] != "prod/broken" {
				t.Errorf("access log: %v, policy %v", entry["response_code_details"], entry["policy"])
			}
		})
	}
}

// A policy that is only tried denies nobody, also if it cannot be taken.
func TestPolicyRejectedDryRun(t *testing.T) {
	policy := replaceOnce(policyOn("Service echo", "broken", "prod", "ALLOW", "{}"), "rules: [{}]", "rules: [{form: []}]")
	w := newTown(t, replaceOnce(policy, "metadata: {", `metadata: {annotations: {istio.io/dry-run: "true"}, `), nil)
	a := w.send(call{})
	w.check(call{}, a, want{})
	if got := w.entry(a)["dry_run"]; got != "prod/broken=denied" {
		t.Errorf("access log: dry run %v", got)
	}
}

// Policies with a selector, or without any target, are the ztunnels'. We say so.
func TestPolicySelector(t *testing.T) {
	w := newTown(t, `
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: by-selector, namespace: prod}
spec: {selector: {matchLabels: {app: echo}}, action: DENY, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: by-nothing, namespace: prod}
spec: {}
`, nil)
	w.check(call{}, w.send(call{}), want{})
	for _, name := range []string{"AuthorizationPolicy prod/by-selector", "AuthorizationPolicy prod/by-nothing"} {
		if log := w.wp.Log.String(); !containsAll(log, []string{name, "ztunnel"}) {
			t.Errorf("the log does not say whose %s is:\n%s", name, log)
		}
	}
}

// One waypoint for the services of two namespaces: a policy reaches those of its
// own namespace only, and so do routes (istio.io#16781).
func TestPolicyAcrossNamespaces(t *testing.T) {
	base := replaceOnce(townBase, "protocol: HBONE}", "protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}")
	side := `
---
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: prod}}
` + otherNamespace
	w := newTownWithout(t)
	w.start(base+side+policyOn("Service echo", "p", "prod", "DENY", from("namespaces: [shop]"))+
		policyOn("Service other", "p", "other", "DENY", from("namespaces: [prod]"))+
		policyOn("Service other", "q", "prod", "DENY", "{}")+
		strings.Replace(meshRoute("HTTPRoute", "taken", "prod", "name: other", leadsTo("/", "echo-v1")), "namespace: prod, name: other", "namespace: other, name: other", 1), nil)
	w.expect([]expectation{
		{"prod for its own", call{}, want{}},
		{"prod for shop", call{from: "shop/web"}, want{status: 403}},
		{"other for prod", call{to: "other/"}, want{status: 403}},
		{"other for shop, by its own routes", call{to: "other/", from: "shop/web"}, want{app: "echo-v2"}},
	})
}

// A ServiceEntry and the legacy single target.
func TestPolicyTargets(t *testing.T) {
	legacy := replaceOnce(policyOn("Service echo-v1", "old", "prod", "DENY", "{}"), `targetRefs: [{group: "", kind: Service, name: echo-v1}]`, `targetRef: {group: "", kind: Service, name: echo-v1}`)
	w := newTown(t, serviceEntry("ext", "ext.example", "10.0.2.1", 80)+policyOn("ServiceEntry ext", "e", "prod", "DENY", from("namespaces: [shop]"))+legacy, nil)
	w.expect([]expectation{
		{"the entry", call{to: "10.0.2.1/", from: "shop/web"}, want{status: 403}},
		{"by name", call{to: "ext.example/", from: "shop/web"}, want{status: 403}},
		{"others", call{to: "10.0.2.1/"}, want{}},
		{"targetRef", call{to: "echo-v1/"}, want{status: 403}},
	})
}

// A workload's own policies hold for its own address; those of its Services do not.
func TestPolicyOfWorkloads(t *testing.T) {
	w := newTownWithout(t)
	base := strings.Replace(townBase, "istio.io/waypoint-for: service", "istio.io/waypoint-for: all", 1)
	w.start(base+policyOn("Service echo-v1", "s", "prod", "DENY", "{}")+policyOn("Gateway waypoint", "g", "prod", "DENY", from("namespaces: [shop]")), nil)
	w.expect([]expectation{
		{"the Service", call{to: "echo-v1/"}, want{status: 403}},
		{"the pod, by the Gateway's", call{to: w.Addr(21, 8080) + "/"}, want{app: "echo-v1"}},
		{"the pod, denied by the Gateway's", call{to: w.Addr(21, 8080) + "/", from: "shop/web"}, want{status: 403}},
	})
}
