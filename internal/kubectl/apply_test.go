package kubectl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func TestManifest(t *testing.T) {
	for name, c := range map[string]struct {
		wanted Wanted
		want   string
	}{
		"the least": {Wanted{Name: "w", Class: "waypoint"}, `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: w
spec:
  gatewayClassName: waypoint
  listeners:
  - name: mesh
    port: 15008
    protocol: HBONE
`},
		"everything": {Wanted{Name: "w", Namespace: "shop", Class: "mine", For: "all", Revision: "canary"}, `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  labels:
    istio.io/rev: canary
    istio.io/waypoint-for: all
  name: w
  namespace: shop
spec:
  gatewayClassName: mine
  listeners:
  - name: mesh
    port: 15008
    protocol: HBONE
`},
	} {
		if got, err := YAML(c.wanted.Manifest()); err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

const namespace = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {LABELS}}
---
`

// applied runs an Apply for waypoint shop/waypoint, and returns all that was said.
func applied(t *testing.T, c *Cluster, change func(*Apply)) (string, error) {
	t.Helper()
	var said strings.Builder
	a := Apply{Wanted: Wanted{Namespace: "shop", Name: "waypoint", Class: "waypoint"}, Out: &said, Err: &said}
	change(&a)
	err := a.Run(t.Context(), c)
	return said.String(), err
}

func TestApply(t *testing.T) {
	enroll := func(a *Apply) { a.Enroll = true }
	overwrite := func(a *Apply) { a.Enroll, a.Overwrite = true, true }
	forbidden := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
		if _, ok := obj.(*gatewayv1.GatewayClass); ok {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "gatewayclasses"}, key.Name, errors.New("not for you"))
		}
		return c.Get(ctx, key, obj, o...)
	}}
	for name, c := range map[string]struct {
		refuse    interceptor.Funcs
		manifests string
		change    func(*Apply)
		said      string
		fault     string            // empty: none
		labels    map[string]string // that the namespace has then, these at least
	}{
		"not enrolled":       {anything, class + namespace, func(*Apply) {}, "kubectl label namespace shop istio.io/use-waypoint=waypoint", "", nil},
		"class not for them": {forbidden, namespace, func(*Apply) {}, "waypoint shop/waypoint applied", "", nil},
		"enrolled":           {anything, class + namespace, enroll, "is not in the ambient mesh", "", map[string]string{labelUse: "waypoint"}},
		"enrolled already": {
			anything, class + strings.Replace(namespace, "LABELS", "istio.io/use-waypoint: waypoint, istio.io/dataplane-mode: ambient", 1),
			enroll, "waypoint shop/waypoint applied\nnamespace shop labelled", "", nil,
		},
		"enrolled elsewhere": {
			anything, class + strings.Replace(namespace, "LABELS", "istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: infra", 1),
			enroll, "", "uses waypoint infra/waypoint already",
			map[string]string{labelUseNamespace: "infra"},
		},
		"opted out": {
			anything, class + strings.Replace(namespace, "LABELS", "istio.io/use-waypoint: none", 1),
			enroll, "", "is labelled istio.io/use-waypoint=none",
			map[string]string{labelUse: "none"},
		},
		"taken over": {
			anything, class + strings.Replace(namespace, "LABELS", "istio.io/use-waypoint: other, istio.io/use-waypoint-namespace: infra", 1),
			overwrite, "", "",
			map[string]string{labelUse: "waypoint", labelUseNamespace: "shop"},
		},
		"no class":          {anything, namespace, enroll, "", "there is no GatewayClass waypoint", nil},
		"another's class":   {anything, strings.Replace(class, "waypoint-mesh.dev/waypoint-controller", "example.com/x", 1), enroll, "", "is served by example.com/x", nil},
		"not accepted yet":  {anything, strings.Replace(class, `"True"`, `"Unknown"`, 1) + namespace, func(*Apply) {}, "is the waypoint controller running?", "", nil},
		"no namespace":      {anything, class, enroll, "", "kubectl create namespace shop", nil},
		"another's Gateway": {anything, strings.Replace(waypoint, "gatewayClassName: waypoint", "gatewayClassName: istio-waypoint", 1), enroll, "", "is of class istio-waypoint", nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterOf(t, c.refuse, strings.ReplaceAll(c.manifests, "LABELS", ""))
			said, err := applied(t, cluster, c.change)
			contains(t, name, said, c.said)
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got error %v, want %q", err, c.fault)
			}
			var g gatewayv1.Gateway
			if got := cluster.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "waypoint"}, &g) == nil && g.Spec.GatewayClassName == "waypoint"; got != (c.fault == "") {
				t.Errorf("the Gateway is there: %v", got)
			}
			var ns corev1.Namespace
			if err := cluster.Get(t.Context(), client.ObjectKey{Name: "shop"}, &ns); err == nil {
				for k, v := range c.labels {
					if ns.Labels[k] != v {
						t.Errorf("labels %v, want %s=%s", ns.Labels, k, v)
					}
				}
			}
		})
	}
}

// TestApplyIsNotForced: what others have set is a conflict, which is told.
func TestApplyIsNotForced(t *testing.T) {
	conflict := interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "gateways"}, "waypoint", errors.New(`conflict with "somebody"`))
	}}
	_, err := applied(t, clusterOf(t, conflict, class+strings.Replace(namespace, "LABELS", "", 1)), func(*Apply) {})
	if err == nil || !strings.Contains(err.Error(), "somebody else has set") {
		t.Errorf("got %v", err)
	}
}

func TestWait(t *testing.T) {
	wait := func(manifests string, timeout time.Duration) (string, error) {
		c := clusterOf(t, anything, manifests)
		if err := c.Create(t.Context(), podOf("w", corev1.ConditionFalse)); err != nil {
			t.Fatal(err)
		}
		var progress strings.Builder
		err := c.Wait(t.Context(), client.ObjectKey{Namespace: "shop", Name: "waypoint"}, timeout, &progress)
		return progress.String(), err
	}
	if progress, err := wait(waypoint, time.Minute); err != nil || progress != "" {
		t.Errorf("a waypoint that is ready: %v, %q", err, progress)
	}
	for name, c := range map[string]struct{ manifests, progress, fault string }{
		"not ready": {
			strings.Replace(waypoint, `Programmed, status: "True"`, `Programmed, status: "False"`, 1),
			"waiting: Serving; w: not ready", "Programmed False Programmed: Serving",
		},
		"of an earlier version": {strings.ReplaceAll(waypoint, "observedGeneration: 2", "observedGeneration: 1"), "is it running?", "not ready after"},
		"nobody's":              {waypoint[:strings.Index(waypoint, "status:\n")], "is it running?", "nobody serves class waypoint"},
	} {
		t.Run(name, func(t *testing.T) {
			progress, err := wait(c.manifests, 10*time.Millisecond)
			contains(t, "progress", progress, c.progress)
			if err == nil {
				t.Fatal("no error")
			}
			contains(t, "error", err.Error(), c.fault)
		})
	}
	if _, err := wait(class, time.Minute); !apierrors.IsNotFound(err) {
		t.Errorf("a Gateway that was deleted meanwhile: %v", err)
	}
}

func TestDelete(t *testing.T) {
	two := mesh + `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: canary, namespace: shop, labels: {istio.io/rev: canary}}
spec: {gatewayClassName: waypoint, listeners: []}
---
`
	for name, c := range map[string]struct {
		deletion Deletion
		left     string
		said     []string
		fault    string
	}{
		"by name": {
			Deletion{Names: []string{"waypoint"}},
			"canary ingress",
			[]string{
				"waypoint shop/waypoint deleted", "Namespace shop still asks for it, in vain: 'kubectl label namespace shop istio.io/use-waypoint-'",
				"Service guest/guest still asks for it",
			},
			"",
		},
		"by revision":     {Deletion{Revision: "canary"}, "ingress waypoint", []string{"waypoint shop/canary deleted"}, ""},
		"all":             {Deletion{All: true}, "ingress", []string{"shop/canary deleted", "shop/waypoint deleted"}, ""},
		"of no revision":  {Deletion{Revision: "x"}, "canary ingress waypoint", []string{"No waypoints found in namespace shop"}, ""},
		"one is not ours": {Deletion{Names: []string{"waypoint", "ingress"}}, "canary ingress waypoint", nil, "nothing was deleted: "},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterOf(t, anything, strings.ReplaceAll(two, "metadata: {name: ingress, namespace: legacy}", "metadata: {name: ingress, namespace: shop}"))
			var said strings.Builder
			c.deletion.Out, c.deletion.Err = &said, &said
			err := cluster.Delete(t.Context(), c.deletion)
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got error %v, want %q", err, c.fault)
			}
			contains(t, name, said.String(), c.said...)
			var left gatewayv1.GatewayList
			if err := cluster.List(t.Context(), &left, client.InNamespace("shop")); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, g := range left.Items {
				names = append(names, g.Name)
			}
			if got := strings.Join(names, " "); got != c.left {
				t.Errorf("%q are left, want %q", got, c.left)
			}
		})
	}
}
