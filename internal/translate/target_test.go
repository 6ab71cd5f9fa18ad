package translate

import (
	"slices"
	"strings"
	"testing"
)

const targetsMesh = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: waypoint}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: theirs, namespace: default}
spec: {gatewayClassName: other, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: default, labels: {istio.io/use-waypoint: waypoint}}
spec: {clusterIP: 10.0.0.1, selector: {app: cart}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: bare, namespace: default}
spec: {clusterIP: 10.0.0.2, selector: {app: bare}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: lost, namespace: default, labels: {istio.io/use-waypoint: waypiont}}
spec: {clusterIP: 10.0.0.3, selector: {app: lost}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: theirs, namespace: default, labels: {istio.io/use-waypoint: theirs}}
spec: {clusterIP: 10.0.0.4, selector: {app: theirs}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: tried, namespace: default, labels: {istio.io/use-waypoint: theirs, istio.io/use-waypoint-canary: waypoint}}
spec: {clusterIP: 10.0.0.6, selector: {app: tried}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: halflost, namespace: default, labels: {istio.io/use-waypoint: waypiont, istio.io/use-waypoint-canary: waypoint}}
spec: {clusterIP: 10.0.0.7, selector: {app: halflost}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: theircanary, namespace: default, labels: {istio.io/use-waypoint: waypiont, istio.io/use-waypoint-canary: theirs}}
spec: {clusterIP: 10.0.0.8, selector: {app: theircanary}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: other, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default}}
spec: {clusterIP: 10.0.0.5, selector: {app: outside}, ports: [{name: http, port: 80}]}`

// inCluster is how a controller translates: no label means no waypoint.
func inCluster() *Translator {
	o := testOptions
	o.UnlabelledMeansAll = false
	return New(o)
}

func policyDoc(namespace, spec string) string {
	return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: " + namespace + "}\nspec: {" + spec + "}"
}

const (
	getOnly  = "rules: [{to: [{operation: {methods: [GET]}}]}]"
	guardDoc = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: guard, namespace: default}
spec: {selector: {matchLabels: {app: cart}}, rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/waypoint]}}]}]}`
)

// TestPolicyStatus: what a user reads of a policy at each of its targets.
func TestPolicyStatus(t *testing.T) {
	const around = "who calls a pod by its own address goes around the waypoint"
	for _, tt := range []struct {
		name, namespace, spec, more string
		want                        []string // "holds" or the fault, and what else is in it
		around                      string
	}{
		{
			name: "in force, and pods can be called", spec: "targetRefs: [{group: '', kind: Service, name: cart}], " + getOnly,
			want: []string{"Service default/cart holds"}, around: around,
		},
		{
			name: "in force, and pods let in the waypoint alone", spec: "targetRefs: [{group: '', kind: Service, name: cart}], " + getOnly,
			more: guardDoc, want: []string{"Service default/cart holds"},
		},
		{
			name: "the guard is for other pods", spec: "targetRefs: [{group: '', kind: Service, name: cart}], " + getOnly,
			more: strings.Replace(guardDoc, "app: cart", "app: stock", 1), want: []string{"Service default/cart holds"}, around: around,
		},
		{
			name: "the guard lets in anybody", spec: "targetRefs: [{group: '', kind: Service, name: cart}], " + getOnly,
			more: strings.Replace(guardDoc, "cluster.local/ns/default/sa/waypoint", `"*"`, 1),
			want: []string{"Service default/cart holds"}, around: around,
		},
		{
			name: "no waypoint", spec: "targetRefs: [{group: '', kind: Service, name: bare}], " + getOnly,
			want: []string{"Service default/bare has no waypoint, so nothing enforces the policy"},
		},
		{
			name: "a waypoint that does not exist", spec: "targetRefs: [{group: '', kind: Service, name: lost}], " + getOnly,
			want: []string{"Gateway default/waypiont, which Service default/lost asks for by label, does not exist"},
		},
		{
			name: "the canary", spec: "targetRefs: [{group: '', kind: Service, name: tried}], " + getOnly,
			want: []string{"Service default/tried holds"}, around: around,
		},
		{
			name: "the canary of what does not exist", spec: "targetRefs: [{group: '', kind: Service, name: halflost}], " + getOnly,
			want: []string{"Service default/halflost holds"}, around: around,
		},
		{name: "the canary is another's", spec: "targetRefs: [{group: '', kind: Service, name: theircanary}], " + getOnly},
		{name: "the waypoint of another", spec: "targetRefs: [{group: '', kind: Service, name: theirs}], " + getOnly},
		{
			name: "a namespace that may not use the waypoint", namespace: "other",
			spec: "targetRefs: [{group: '', kind: Service, name: outside}], " + getOnly,
			want: []string{"Gateway default/waypoint does not let namespace other use it"},
		},
		{
			name: "a waypoint for workloads", spec: "targetRefs: [{group: '', kind: Service, name: cart}], " + getOnly,
			more: strings.Replace(strings.Split(targetsMesh, "\n---\n")[1], "namespace: default}", "namespace: default, labels: {istio.io/waypoint-for: workload}}", 1),
			want: []string{"Gateway default/waypoint has istio.io/waypoint-for=workload and does not serve Services"},
		},
		{
			name: "each target by itself", spec: "targetRefs: [{group: '', kind: Service, name: cart}, {group: '', kind: Service, name: gone}], " + getOnly,
			want: []string{"Service default/cart holds", "Service default/gone does not exist"}, around: around,
		},
		{
			name: "the Gateway", spec: "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}], " + getOnly,
			want: []string{"Gateway default/waypoint holds"}, around: around,
		},
		{
			name: "the class, in the wrong namespace",
			spec: "targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: waypoint}], " + getOnly,
			want: []string{"a policy for a GatewayClass holds only in the root namespace"},
		},
		{
			name: "a selector and HTTP", spec: "selector: {matchLabels: {app: cart}}, " + getOnly,
			want: []string{"ztunnels, which see no HTTP, so a rule that looks at it allows nothing"},
		},
		{name: "a selector and HTTP, on pods of nobody of ours", spec: "selector: {matchLabels: {app: bare}}, " + getOnly},
		{
			name: "a selector without HTTP",
			spec: "selector: {matchLabels: {app: cart}}, rules: [{from: [{source: {namespaces: [a]}}]}]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.namespace == "" {
				tt.namespace = "default"
			}
			docs := []string{targetsMesh, policyDoc(tt.namespace, tt.spec)}
			if tt.more != "" {
				docs = append(docs, tt.more)
			}
			tr, key := inCluster(), Key{kindAuthorizationPolicy, tt.namespace, "p"}
			if c := load(t, tr, strings.Join(docs, "\n---\n")); len(tt.want) > 0 && !slices.Contains(c.Statuses, key) {
				t.Errorf("that there is something to say is not told: %v", c.Statuses)
			}
			got := tr.PolicyStatus(key)
			if len(got) != len(tt.want) {
				t.Fatalf("got %+v, want %q", got, tt.want)
			}
			for i, s := range got {
				text := s.Fault.text()
				if s.Enforced() {
					text = s.Target.String() + " holds"
				}
				if !strings.Contains(text, tt.want[i]) || s.Enforced() && !strings.HasPrefix(s.Around, tt.around) || tt.around == "" && s.Around != "" {
					t.Errorf("got %q around %q, want %q around %q", text, s.Around, tt.want[i], tt.around)
				}
			}
		})
	}
}

// TestServiceStatus: what a user reads of services where no istiod writes it.
func TestServiceStatus(t *testing.T) {
	tr := inCluster()
	load(t, tr, targetsMesh)
	for service, want := range map[Key]string{
		{kindService, "default", "cart"}:     "WaypointAccepted Served by the waypoint default/waypoint",
		{kindService, "default", "bare"}:     "",
		{kindService, "default", "tried"}:    "WaypointAccepted Served by the waypoint default/waypoint",
		{kindService, "default", "halflost"}: "WaypointNotFound Gateway default/waypiont, which Service default/halflost asks for by label, does not exist, so it has no waypoint",
		{kindService, "default", "theirs"}:   "",
		{kindService, "default", "lost"}:     "WaypointNotFound Gateway default/waypiont, which Service default/lost asks for by label, does not exist, so it has no waypoint",
		{kindService, "other", "outside"}:    "AttachmentDenied Gateway default/waypoint does not let namespace other use it, so it has no waypoint; allow it in allowedRoutes of the Gateway's listener",
	} {
		c, ok := tr.ServiceStatus(service)
		if got := strings.TrimSpace(c.Reason + " " + c.Message); got != want || ok != (want != "") || c.Status != strings.HasPrefix(want, "WaypointAccepted") {
			t.Errorf("%s: got %v %q, want %q", service, ok, got, want)
		}
	}
	// The status goes with the label.
	c := load(t, tr, strings.Replace(strings.Split(targetsMesh, "\n---\n")[3], "labels: {istio.io/use-waypoint: waypoint}", "labels: {}", 1))
	if key := (Key{kindService, "default", "cart"}); !slices.Contains(c.Statuses, key) {
		t.Errorf("a service that lost its waypoint is not told: %v", c.Statuses)
	}
}

// TestListenerRoutes counts what is attached, whether it is of use or not.
func TestListenerRoutes(t *testing.T) {
	const base = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default}
spec:
  gatewayClassName: waypoint
  listeners:
  - {name: mesh, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: Same}}}
  - {name: grpc, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: All}, kinds: [{kind: GRPCRoute}]}}`
	route := func(kind, namespace, name, parent string) string {
		return "apiVersion: gateway.networking.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: " + namespace +
			"}\nspec: {parentRefs: [{" + parent + "}], rules: [{}]}"
	}
	tr, gateway := inCluster(), Key{kindGateway, "default", "waypoint"}
	expect := func(c Changes, mesh, grpc int) {
		t.Helper()
		want := []ListenerRoutes{{"mesh", mesh}, {"grpc", grpc}}
		if got := tr.ListenerRoutes(); !slices.Equal(got, want) || !slices.Contains(c.Statuses, gateway) {
			t.Errorf("got %v, want %v; told of %v", got, want, c.Statuses)
		}
	}
	expect(load(t, tr, base), 0, 0)
	expect(load(t, tr, route("HTTPRoute", "default", "a", "name: waypoint")), 1, 0)
	expect(load(t, tr, route("GRPCRoute", "default", "b", "name: waypoint")), 2, 1)
	expect(load(t, tr, route("GRPCRoute", "other", "c", "name: waypoint, namespace: default")), 2, 2)
	expect(load(t, tr, route("GRPCRoute", "default", "b", "name: waypoint, sectionName: grpc")), 1, 2)
	for _, doc := range []string{
		route("HTTPRoute", "other", "d", "name: waypoint, namespace: default"), // not let in
		route("HTTPRoute", "default", "e", "group: '', kind: Service, name: s"),
		route("HTTPRoute", "default", "f", "name: other"),
	} {
		if c := load(t, tr, doc); slices.Contains(c.Statuses, gateway) {
			t.Errorf("counted: %s", doc)
		}
	}
	tr.Delete(Key{kindHTTPRoute, "default", "a"})
	expect(tr.Update(), 0, 2)
}

// TestRouteOfADetour: a route on a service whose calls go around the waypoint says so.
func TestRouteOfADetour(t *testing.T) {
	for _, tt := range []struct {
		service, namespace, reason, waypoint string
		nobodys                              bool
	}{
		{"cart", "default", "Accepted", "ResolvedWaypoints", false},
		{"bare", "default", "NoMatchingParent", "MissingUseWaypointLabel", true},
		{"lost", "default", "NoMatchingParent", "WaypointNotFound", true},
		{"theirs", "default", "", "", false},
		{"outside", "other", "NotAllowedByListeners", "AttachmentDenied", false},
	} {
		tr := inCluster()
		load(t, tr, targetsMesh+"\n---\n"+`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: `+tt.namespace+`}
spec: {parentRefs: [{group: "", kind: Service, name: `+tt.service+`}], rules: [{backendRefs: [{name: `+tt.service+`, port: 80}]}]}`)
		got := tr.RouteStatus(Key{kindHTTPRoute, tt.namespace, "r"})
		if tt.reason == "" {
			if len(got) != 0 {
				t.Errorf("%s: got %v, and it is not for us to speak", tt.service, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Accepted.Reason != tt.reason || got[0].Waypoint.Reason != tt.waypoint || got[0].Nobodys != tt.nobodys {
			t.Errorf("%s: got %+v, want %s and %s", tt.service, got, tt.reason, tt.waypoint)
		}
	}
}
