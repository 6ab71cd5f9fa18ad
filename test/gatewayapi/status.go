package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// unresolved is the reason of ResolvedRefs in those tests whose routes refer to
// something that is not there.
var unresolved = map[string]gatewayv1.RouteConditionReason{
	"MeshGRPCRouteWeight": gatewayv1.RouteReasonBackendNotFound, // echo-v3, with weight 0
}

// checkStatuses waits until the status of every route of the suite says for each of
// its parents that it is accepted, and whether its references are resolved.
func (r *runner) checkStatuses(t *testing.T, test string) {
	t.Helper()
	resolved := gatewayv1.RouteReasonResolvedRefs
	if reason, ok := unresolved[test]; ok {
		resolved = reason
	}
	awaitStatus(t, func(ctx context.Context) error {
		routes, err := listRoutes(ctx, r.API)
		for _, route := range routes {
			for parent := range route.parents {
				err = errors.Join(err, route.check(parent, gatewayv1.RouteReasonAccepted, resolved))
			}
		}
		return err
	})
}

// awaitStatus waits until a check finds nothing wrong any more.
func awaitStatus(t *testing.T, check func(context.Context) error) {
	t.Helper()
	var wrong error
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		wrong = check(ctx)
		return wrong == nil, nil
	})
	if err != nil {
		t.Error(wrong)
	}
}

// route is one of any kind.
type route struct {
	name       string
	generation int64
	parents    []gatewayv1.ParentReference
	status     []gatewayv1.RouteParentStatus
}

// listRoutes lists those of the suite's namespaces.
func listRoutes(ctx context.Context, api client.Client) (all []route, err error) {
	for _, namespace := range []string{Namespace, ConsumerNamespace} {
		var https gatewayv1.HTTPRouteList
		var grpcs gatewayv1.GRPCRouteList
		err = errors.Join(err, api.List(ctx, &https, client.InNamespace(namespace)), api.List(ctx, &grpcs, client.InNamespace(namespace)))
		for _, r := range https.Items {
			all = append(all, route{"HTTPRoute " + r.Name, r.Generation, r.Spec.ParentRefs, r.Status.Parents})
		}
		for _, r := range grpcs.Items {
			all = append(all, route{"GRPCRoute " + r.Name, r.Generation, r.Spec.ParentRefs, r.Status.Parents})
		}
	}
	return all, err
}

// check fails unless there is one entry of ours for a parent, with these reasons of
// the conditions Accepted and ResolvedRefs.
func (r route) check(parent int, accepted, resolved gatewayv1.RouteConditionReason) error {
	var ours []gatewayv1.RouteParentStatus
	for _, p := range r.status {
		if p.ControllerName == gateway.ControllerName && equality.Semantic.DeepEqual(p.ParentRef, r.parents[parent]) {
			ours = append(ours, p)
		}
	}
	if len(ours) != 1 {
		return fmt.Errorf("%s: %d entries of ours for parent %d: %+v", r.name, len(ours), parent, r.status)
	}
	return errors.Join(
		r.checkCondition(ours[0].Conditions, gatewayv1.RouteConditionAccepted, accepted),
		r.checkCondition(ours[0].Conditions, gatewayv1.RouteConditionResolvedRefs, resolved),
	)
}

// checkCondition compares a condition with its reason, which is the condition's name
// exactly where it is true; "": there must be no such condition.
func (r route) checkCondition(conditions []metav1.Condition, kind gatewayv1.RouteConditionType, reason gatewayv1.RouteConditionReason) error {
	status := metav1.ConditionFalse
	if string(reason) == string(kind) {
		status = metav1.ConditionTrue
	}
	c := meta.FindStatusCondition(conditions, string(kind))
	if reason == "" && c == nil {
		return nil
	}
	if c == nil || c.Status != status || c.Reason != string(reason) || c.ObservedGeneration != r.generation {
		return fmt.Errorf("%s: %s is %+v, want %s %s of generation %d", r.name, kind, c, status, reason, r.generation)
	}
	return nil
}
