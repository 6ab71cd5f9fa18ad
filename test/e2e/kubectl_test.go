package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// plugin is `kubectl waypoint` as somebody runs it.
type plugin struct {
	*story
	kubeconfig string
}

// said is what it printed, and its exit code.
type said struct {
	out, err string
	code     int
}

// Plugin is the plugin in the hands of whoever may do everything.
func (s *story) Plugin() plugin { return s.pluginOf("admin", "") }

func (s *story) pluginOf(name, token string) plugin {
	s.Helper()
	if os.Getenv("KUBECTL_WAYPOINT") == "" {
		s.Skip("KUBECTL_WAYPOINT is not set: make e2e")
	}
	kubeconfig, err := s.server.Kubeconfig(s.ns+"-"+name, token)
	if err != nil {
		s.Fatal(err)
	}
	return plugin{s, kubeconfig}
}

// run runs it in the story's namespace, unless -n is among the arguments.
func (p plugin) run(args ...string) said {
	p.Helper()
	if !slices.Contains(args, "-n") {
		args = append(args, "-n", p.ns)
	}
	cmd := exec.CommandContext(p.Context(), os.Getenv("KUBECTL_WAYPOINT"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig, "KUBECACHEDIR="+p.TempDir())
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		p.Fatal(err)
	} else if ok {
		return said{out.String(), stderr.String(), exit.ExitCode()}
	}
	return said{out.String(), stderr.String(), 0}
}

// ok runs it and wants it to do its work, and to print something of everything.
func (p plugin) ok(args []string, want ...string) said {
	p.Helper()
	got := p.run(args...)
	if got.code != 0 {
		p.Fatalf("%q: exit code %d\n%s%s", args, got.code, got.out, got.err)
	}
	for _, w := range want {
		if !strings.Contains(got.out+got.err, w) {
			p.Errorf("%q: no %q in\n%s%s", args, w, got.out, got.err)
		}
	}
	return got
}

// fails runs it and wants a fault that is told with all of this.
func (p plugin) fails(code int, args []string, want ...string) {
	p.Helper()
	got := p.run(args...)
	if got.code != code {
		p.Errorf("%q: exit code %d, want %d\n%s%s", args, got.code, code, got.out, got.err)
	}
	for _, w := range want {
		if !strings.Contains(got.err, w) {
			p.Errorf("%q: no %q in\n%s", args, w, got.err)
		}
	}
}

func TestPluginMakesAWaypoint(t *testing.T) {
	s := newStory(t)
	p := s.Plugin()
	p.fails(1, []string{"status"}, "no waypoint in namespace "+s.ns, "kubectl waypoint apply")
	p.ok([]string{"apply"}, "waypoint "+s.ns+"/waypoint applied", "kubectl label namespace "+s.ns+" istio.io/use-waypoint=waypoint")
	s.gatewaySays("Programmed False AddressNotAssigned", "")
	p.ok([]string{"list"}, "NAMESPACE", s.ns+"   waypoint   default    service        False        0/0")

	// What others say of the Gateway stays, also what they said of nothing of ours.
	s.Apply(strings.Replace(waypointGateway, "namespace: NS}", "namespace: NS, labels: {team: shop}}", 1))
	p.ok([]string{"apply", "--for", "all"})
	var g gatewayv1.Gateway
	if err := s.Get("waypoint", &g); err != nil {
		t.Fatal(err)
	}
	if g.Labels["team"] != "shop" || g.Labels["istio.io/waypoint-for"] != "all" {
		t.Errorf("labels %v", g.Labels)
	}
	i := slices.IndexFunc(g.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "kubectl-waypoint" })
	if i < 0 || g.ManagedFields[i].Operation != "Apply" {
		t.Errorf("field managers %+v", g.ManagedFields)
	}

	p.ok([]string{"apply"}) // what was ours to say and is not said any more goes
	var again gatewayv1.Gateway
	if err := s.Get("waypoint", &again); err != nil || again.Labels["team"] != "shop" || again.Labels["istio.io/waypoint-for"] != "" {
		t.Errorf("labels %v, %v", again.Labels, err)
	}

	p.ok([]string{"delete", "waypoint"}, "waypoint "+s.ns+"/waypoint deleted")
	if err := s.Get("waypoint", &g); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestPluginWaits(t *testing.T) {
	s := newStory(t)
	p := s.Plugin()
	p.fails(1, []string{"apply", "--wait", "--waypoint-timeout", "2s", "--enroll-namespace"},
		"waiting: Waiting for a pod to get ready", "not ready after 2s", "Accepted True Accepted", "Programmed False AddressNotAssigned")
	if ns := s.namespaceLabels(); ns["istio.io/use-waypoint"] != "" {
		t.Error("the namespace was given a waypoint that is not ready")
	}
	s.Apply(fmt.Sprintf(readyPod, true))
	got := p.ok([]string{"apply", "-w", "--enroll-namespace"}, "is ready\n", "namespace "+s.ns+" labelled istio.io/use-waypoint=waypoint",
		"Warning: namespace "+s.ns+" is not in the ambient mesh")
	if strings.Index(got.out, "is ready") > strings.Index(got.out, "labelled") {
		t.Errorf("in another order:\n%s", got.out)
	}
	if ns := s.namespaceLabels(); ns["istio.io/use-waypoint"] != "waypoint" {
		t.Errorf("labels %v", ns)
	}
	p.ok([]string{"apply", "--enroll-namespace"}) // once more is no fault
	p.fails(1, []string{"apply", "--name", "other", "--enroll-namespace"}, "uses waypoint "+s.ns+"/waypoint already", "nothing was changed", "--overwrite")
	if err := s.Get("other", &gatewayv1.Gateway{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Gateway was applied: %v", err)
	}
	p.ok([]string{"apply", "--name", "other", "--enroll-namespace", "--overwrite"})
	if ns := s.namespaceLabels(); ns["istio.io/use-waypoint"] != "other" {
		t.Errorf("labels %v", ns)
	}
	p.ok([]string{"delete", "--all"}, "waypoint "+s.ns+"/other deleted", "waypoint "+s.ns+"/waypoint deleted", "still asks for it, in vain")
}

func (s *story) namespaceLabels() map[string]string {
	s.Helper()
	var ns corev1.Namespace
	if err := s.server.Client.Get(s.Context(), client.ObjectKey{Name: s.ns}, &ns); err != nil {
		s.Fatal(err)
	}
	return ns.Labels
}

func TestPluginLeavesOthersAlone(t *testing.T) {
	s := newStory(t)
	p := s.Plugin()
	s.Apply(strings.Replace(waypointGateway, "gatewayClassName: waypoint", "gatewayClassName: istio-waypoint", 1))
	p.fails(1, []string{"apply"}, "is of class istio-waypoint", "it is not changed")
	p.fails(1, []string{"delete", "waypoint"}, "nothing was deleted", "no waypoint in namespace "+s.ns)
	p.fails(1, []string{"apply", "--class", "nobodys"}, "there is no GatewayClass nobodys", "there is waypoint")
	p.fails(1, []string{"apply", "-n", "nowhere-at-all"}, "kubectl create namespace nowhere-at-all")
	p.fails(2, []string{"apply", "--for", "everything"}, "none of service, workload, all, none")
	p.fails(2, []string{"delete"}, "name the waypoints")

	s.Apply(strings.NewReplacer("name: waypoint", "name: edited", "15008", "15009").Replace(waypointGateway))
	p.fails(1, []string{"apply", "--name", "edited"}, "somebody else has set", `conflict with "kubectl"`)
}

// TestPluginSaysWhatTheControllerSays: the status that it computes is the one that
// the controller has written.
func TestPluginSaysWhatTheControllerSays(t *testing.T) {
	s := newStory(t)
	p := s.Plugin()
	s.Apply(shop)
	s.Apply(fmt.Sprintf(readyPod, true))
	s.Apply(`apiVersion: v1
kind: Service
metadata: {name: bare, namespace: NS}
spec: {ports: [{port: 80}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: idle, namespace: NS}
spec: {targetRefs: [{group: "", kind: Service, name: bare}], rules: [{}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: broken, namespace: NS}
spec:
  parentRefs: [{group: "", kind: Service, name: cart}]
  rules: [{backendRefs: [{name: gone, port: 80}]}]`)
	s.gatewaySays("Programmed True Programmed", "")
	s.Eventually("the controller says of the route what the plugin says", func() error {
		var route gatewayv1.HTTPRoute
		if err := s.Get("broken", &route); err != nil {
			return err
		}
		return p.agrees(&route)
	})
	p.ok([]string{"status"}, "Waypoint "+s.ns+"/waypoint of class waypoint", "Programmed", "Service "+s.ns+"/cart", "bound",
		"HTTPRoute "+s.ns+"/broken", "BackendNotFound", "AuthorizationPolicy "+s.ns+"/cart", "In force on Service "+s.ns+"/cart",
		"Does nothing", "AuthorizationPolicy "+s.ns+"/idle", "Goes around it")
}

// agrees compares what the plugin says of a route with what the controller has
// written.
func (p plugin) agrees(written *gatewayv1.HTTPRoute) error {
	var status struct {
		Waypoints []struct {
			Routes []struct {
				Object     string
				Conditions []struct{ Type, Status, Reason, Message string }
			}
		}
	}
	if err := json.Unmarshal([]byte(p.ok([]string{"status", "waypoint", "-o", "json"}).out), &status); err != nil {
		return err
	}
	if len(written.Status.Parents) != 1 || len(status.Waypoints) != 1 {
		return fmt.Errorf("the controller says %+v, the plugin %+v", written.Status.Parents, status)
	}
	for _, r := range status.Waypoints[0].Routes {
		if r.Object != "HTTPRoute "+p.ns+"/"+written.Name {
			continue
		}
		for _, c := range r.Conditions {
			if err := expect(written.Status.Parents[0].Conditions, c.Type+" "+c.Status+" "+c.Reason, c.Message); err != nil {
				return fmt.Errorf("the plugin says something else: %w", err)
			}
		}
		return expect(written.Status.Parents[0].Conditions, "ResolvedRefs False BackendNotFound", "")
	}
	return errors.New("the plugin does not speak of the route")
}

// TestPluginWithFewRights: what somebody may not do is named, and what they may is
// done.
func TestPluginWithFewRights(t *testing.T) {
	s := newStory(t)
	s.Apply(shop)
	s.Apply(`apiVersion: v1
kind: ServiceAccount
metadata: {name: someone, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: some, namespace: NS}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: [gateways, httproutes, grpcroutes, tlsroutes, referencegrants], verbs: [get, list]}
- {apiGroups: [""], resources: [services, pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: some, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}
subjects: [{kind: ServiceAccount, name: someone, namespace: NS}]`)
	token, err := s.server.Token(s.Context(), s.ns, "someone", "", 3600)
	if err != nil {
		t.Fatal(err)
	}
	p := s.pluginOf("someone", token)
	s.Eventually("the rights are there", func() error {
		if got := p.run("list"); got.code != 0 {
			return errors.New(got.err)
		}
		return nil
	})
	p.ok([]string{"status"}, "Service "+s.ns+"/cart", "HTTPRoute "+s.ns+"/cart", "for want of rights", "AuthorizationPolicys")
	p.fails(1, []string{"list", "-A"}, "you may not list gateways.gateway.networking.k8s.io", "ClusterRole", "kubectl auth can-i")
	p.fails(1, []string{"apply", "--name", "more"}, "you may not patch gateways.gateway.networking.k8s.io", "ask for a Role", "-n "+s.ns)
	p.fails(1, []string{"explain", "--from", "spiffe://cluster.local/ns/x/sa/x", "--to", "cart:80"}, "has no pod")
}
