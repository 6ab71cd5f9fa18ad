package kubectl

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodState(t *testing.T) {
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}}
	for want, change := range map[string]func(*corev1.Pod){
		"ready": func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue },
		"ending": func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{}
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		},
		"not scheduled: Unschedulable: no node has room": func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node has room"})
		},
		"waiting: ImagePullBackOff: no such image": func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting} },
		"ended with code 2: 'kubectl logs w -n shop --previous' may tell why": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended}
		},
		"not ready: ContainersNotReady: probe fails": func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "ContainersNotReady", "probe fails"
		},
		"not ready: pending": func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
	} {
		p := podOf("w", corev1.ConditionFalse)
		change(p)
		if got := podState(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestReadyPod(t *testing.T) {
	c := clusterOf(t, anything, waypoint)
	g, err := c.Waypoint(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	fails := func(pod string, want ...string) {
		t.Helper()
		_, err := c.ReadyPod(t.Context(), g, pod)
		if err == nil {
			t.Fatalf("a pod, want %q", want)
		}
		contains(t, pod, err.Error(), want...)
	}
	add := func(p *corev1.Pod) {
		t.Helper()
		if err := c.Create(context.WithoutCancel(t.Context()), p); err != nil {
			t.Fatal(err)
		}
	}
	fails("", "has no pod: scaled to 0")
	add(podOf("a", corev1.ConditionFalse))
	fails("", "no pod of waypoint shop/waypoint is ready: a: not ready")
	add(podOf("b", corev1.ConditionTrue))
	if p, err := c.ReadyPod(t.Context(), g, ""); err != nil || p.Name != "b" {
		t.Errorf("%v, %v", p, err)
	}
	if p, err := c.ReadyPod(t.Context(), g, "a"); err != nil || p.Name != "a" {
		t.Errorf("the one that is named: %v, %v", p, err)
	}
	fails("z", "no pod z", "a: not ready", "b: ready")
	if pods, err := c.PodsOf(t.Context(), "waypoint", ""); err != nil || len(pods) != 2 || container(&pods[0]) != "waypoint" {
		t.Errorf("%v, %v", pods, err)
	}
}

// TestPodsThatTheUserDeploys: they are those of the Service that the Gateway names.
func TestPodsThatTheUserDeploys(t *testing.T) {
	c := clusterOf(t, anything, class+`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: own, namespace: shop}
spec: {gatewayClassName: waypoint, addresses: [{type: IPAddress, value: 10.0.0.1}, {type: Hostname, value: mine.shop.svc}], listeners: []}
---
apiVersion: v1
kind: Service
metadata: {name: mine, namespace: shop}
spec: {selector: {app: mine}}
---
apiVersion: v1
kind: Pod
metadata: {name: mine-1, namespace: shop, labels: {app: mine}}
spec: {containers: [{name: proxy}]}
`)
	pods, err := c.PodsOf(t.Context(), "own", "")
	if err != nil || len(pods) != 1 || container(&pods[0]) != "proxy" {
		t.Errorf("%v, %v", pods, err)
	}
}

func TestWaypoint(t *testing.T) {
	second := `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %s, namespace: shop}
spec: {gatewayClassName: waypoint, listeners: []}
---
`
	foreign := `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ingress, namespace: shop}
spec: {gatewayClassName: other, listeners: []}
---
`
	for name, c := range map[string]struct {
		manifests, ask string
		want           string // name, or a part of the error
	}{
		"the only one":     {waypoint + foreign, "", "waypoint"},
		"by its name":      {waypoint, "waypoint", "waypoint"},
		"the default one":  {waypoint + fmt.Sprintf(second, "strict"), "", "waypoint"},
		"several":          {class + fmt.Sprintf(second, "a") + fmt.Sprintf(second, "b"), "", "several waypoints: name one of a, b"},
		"none":             {class + foreign, "", "there is no waypoint in namespace shop"},
		"another's":        {waypoint + foreign, "ingress", "there is no waypoint shop/ingress; those of the namespace are: waypoint"},
		"none of the name": {waypoint, "x", "there is no waypoint shop/x"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := clusterOf(t, anything, c.manifests).Waypoint(t.Context(), c.ask)
			if err != nil {
				contains(t, name, err.Error(), c.want)
			} else if g.Name != c.want {
				t.Errorf("got %s, want %s", g.Name, c.want)
			}
		})
	}
}
