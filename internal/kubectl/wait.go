package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// lookEvery is how often a Gateway is looked at that is waited for. Looking needs
// no right to watch.
const lookEvery = 500 * time.Millisecond

// Wait waits until a waypoint is ready: Programmed, in the version that the Gateway
// has now. Whatever it is waiting for is written to progress as it changes. The
// error at the timeout has the conditions of the Gateway in it.
func (c *Cluster) Wait(ctx context.Context, key client.ObjectKey, timeout time.Duration, progress io.Writer) error {
	var g gatewayv1.Gateway
	said := ""
	err := wait.PollUntilContextTimeout(ctx, lookEvery, timeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, key, &g); err != nil {
			return false, err
		}
		if programmed(&g) {
			return true, nil
		}
		if now := c.lacks(ctx, &g); now != said {
			said = now
			fmt.Fprintf(progress, "waiting: %s\n", now)
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("waypoint %s/%s is not ready after %s; %s", key.Namespace, key.Name, timeout, conditionsText(&g))
	}
	return err
}

// programmed goes by conditions of the Gateway as it is, not as it was before.
func programmed(g *gatewayv1.Gateway) bool {
	c := meta.FindStatusCondition(g.Status.Conditions, string(gatewayv1.GatewayConditionProgrammed))
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= g.Generation
}

// lacks says what a waypoint is waiting for.
func (c *Cluster) lacks(ctx context.Context, g *gatewayv1.Gateway) string {
	p := meta.FindStatusCondition(g.Status.Conditions, string(gatewayv1.GatewayConditionProgrammed))
	if p == nil || p.Status == metav1.ConditionUnknown || p.ObservedGeneration < g.Generation {
		return "for the waypoint controller to look at the Gateway (is it running?)"
	}
	parts := []string{p.Message}
	pods, err := c.Pods(ctx, g)
	if err != nil {
		return p.Message // pods are not for everybody to see
	}
	for i := range pods {
		if !ready(&pods[i]) {
			parts = append(parts, pods[i].Name+": "+podState(&pods[i]))
		}
	}
	return strings.Join(parts, "; ")
}

// conditionsText tells the conditions of a Gateway, a line each.
func conditionsText(g *gatewayv1.Gateway) string {
	if len(g.Status.Conditions) == 0 {
		return "its Gateway has no conditions: nobody serves class " + string(g.Spec.GatewayClassName)
	}
	var b strings.Builder
	b.WriteString("its Gateway says:")
	for _, c := range byType(g.Status.Conditions) {
		fmt.Fprintf(&b, "\n  %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

func byType(conditions []metav1.Condition) []metav1.Condition {
	return slices.SortedFunc(slices.Values(conditions), func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
