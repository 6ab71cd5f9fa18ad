package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// Pods lists the pods of a waypoint, ordered by name.
func (c *Cluster) Pods(ctx context.Context, g *gatewayv1.Gateway) ([]corev1.Pod, error) {
	selector, err := c.podSelector(ctx, g)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	err = c.List(ctx, &list, client.InNamespace(g.Namespace), client.MatchingLabelsSelector{Selector: selector})
	return list.Items, err
}

// podSelector: pods that the controller makes carry the Gateway's name; those that
// the user deploys are whoever the Service selects that spec.addresses names.
func (c *Cluster) podSelector(ctx context.Context, g *gatewayv1.Gateway) (labels.Selector, error) {
	if gateway.Managed(g) {
		return labels.SelectorFromSet(labels.Set{gatewayv1.GatewayNameLabelKey: g.Name}), nil
	}
	i := slices.IndexFunc(g.Spec.Addresses, func(a gatewayv1.GatewaySpecAddress) bool {
		return a.Type != nil && *a.Type == gatewayv1.HostnameAddressType
	})
	name, _, _ := strings.Cut(g.Spec.Addresses[i].Value, ".")
	var s corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: name}, &s); err != nil {
		return nil, fmt.Errorf("the Service that spec.addresses of Gateway %s/%s names: %w", g.Namespace, g.Name, err)
	}
	if len(s.Spec.Selector) == 0 {
		return labels.Nothing(), nil
	}
	return labels.SelectorFromSet(s.Spec.Selector), nil
}

// ReadyPod finds a pod that can be asked: the one named, else the first that is
// ready. The error says what the pods lack.
func (c *Cluster) ReadyPod(ctx context.Context, g *gatewayv1.Gateway, name string) (*corev1.Pod, error) {
	pods, err := c.Pods(ctx, g)
	if err != nil {
		return nil, err
	}
	var states []string
	for i := range pods {
		p := &pods[i]
		if p.Name == name || name == "" && ready(p) {
			return p, nil
		}
		states = append(states, p.Name+": "+podState(p))
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("waypoint %s/%s has no pod %s; its pods are: %s", g.Namespace, g.Name, name, orNone(states))
	case len(pods) == 0:
		return nil, fmt.Errorf("waypoint %s/%s has no pod: scaled to 0, or not deployed; 'kubectl waypoint status %[2]s -n %[1]s' tells", g.Namespace, g.Name)
	}
	return nil, fmt.Errorf("no pod of waypoint %s/%s is ready: %s", g.Namespace, g.Name, strings.Join(states, "; "))
}

// PodsOf lists the pods of a waypoint of the cluster's namespace, or the one that
// is named; there is one at least.
func (c *Cluster) PodsOf(ctx context.Context, waypoint, name string) ([]corev1.Pod, error) {
	g, err := c.Waypoint(ctx, waypoint)
	if err != nil {
		return nil, err
	}
	if name == "" {
		if pods, err := c.Pods(ctx, g); err != nil || len(pods) > 0 {
			return pods, err
		}
	}
	p, err := c.ReadyPod(ctx, g, name)
	if err != nil {
		return nil, err
	}
	return []corev1.Pod{*p}, nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, "; ")
}

func ready(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// podState is what keeps a pod from being ready, in a few words.
func podState(p *corev1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "ending"
	case ready(p):
		return "ready"
	}
	if c := podCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return reasoned("not scheduled", c.Reason, c.Message)
	}
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			return reasoned("waiting", s.State.Waiting.Reason, s.State.Waiting.Message)
		case s.State.Terminated != nil:
			return fmt.Sprintf("ended with code %d: 'kubectl logs %s -n %s --previous' may tell why", s.State.Terminated.ExitCode, p.Name, p.Namespace)
		}
	}
	if c := podCondition(p, corev1.PodReady); c != nil && c.Message != "" {
		return reasoned("not ready", c.Reason, c.Message)
	}
	return "not ready: " + strings.ToLower(string(p.Status.Phase))
}

func reasoned(state, reason, message string) string {
	if message == "" {
		return state + ": " + reason
	}
	return state + ": " + reason + ": " + message
}
