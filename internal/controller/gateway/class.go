package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// supported lists the features that work, by the names of the Gateway API's
// conformance suite. The list of a GatewayClass is in alphabetical order.
var supported = []features.FeatureName{
	features.SupportMesh,
	features.SupportHTTPRoute,
	features.SupportGRPCRoute,
	features.SupportMeshClusterIPMatching,
	features.SupportMeshConsumerRoute,
	features.SupportMeshHTTPRouteRewritePath,
	features.SupportMeshHTTPRouteSchemeRedirect,
	features.SupportMeshHTTPRouteRedirectPort,
	features.SupportMeshHTTPRouteRedirectPath,
	features.SupportMeshHTTPRouteBackendRequestHeaderModification,
	features.SupportMeshHTTPRouteQueryParamMatching,
	features.SupportMeshHTTPRouteNamedRouteRule,
}

// ClassReconciler accepts the classes that name our controller.
type ClassReconciler struct {
	client client.Client
	// overlays reads those of a class; what is wrong with them is a *ParameterError.
	overlays func(context.Context, *gatewayv1.GatewayClass) (Overlays, error)
}

// Reconcile writes the status of one GatewayClass if it says anything new.
func (r *ClassReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var class gatewayv1.GatewayClass
	if err := r.client.Get(ctx, req.NamespacedName, &class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if class.Spec.ControllerName != ControllerName {
		return reconcile.Result{}, nil
	}
	accepted, err := r.accepted(ctx, &class)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := class.DeepCopy()
	meta.SetStatusCondition(&now.Status.Conditions, accepted)
	now.Status.SupportedFeatures = supportedFeatures()
	if equality.Semantic.DeepEqual(class.Status, now.Status) {
		return reconcile.Result{}, nil
	}
	patch := client.MergeFromWithOptions(&class, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, now, patch, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of GatewayClass %s: %w", class.Name, err)
	}
	return reconcile.Result{}, nil
}

// accepted: a class whose overlays cannot be used is one that no Gateway can have.
func (r *ClassReconciler) accepted(ctx context.Context, class *gatewayv1.GatewayClass) (metav1.Condition, error) {
	c := metav1.Condition{
		Type: string(gatewayv1.GatewayClassConditionStatusAccepted), Status: metav1.ConditionTrue,
		Reason: string(gatewayv1.GatewayClassReasonAccepted), Message: "Served by " + string(ControllerName),
		ObservedGeneration: class.Generation,
	}
	overlays, err := r.overlays(ctx, class)
	if err == nil {
		err = overlays.check()
	}
	if isParameterError(err) {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(gatewayv1.GatewayClassReasonInvalidParameters), err.Error()
		return c, nil
	}
	return c, err
}

func supportedFeatures() []gatewayv1.SupportedFeature {
	list := make([]gatewayv1.SupportedFeature, 0, len(supported))
	for _, name := range supported {
		list = append(list, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(name)})
	}
	slices.SortFunc(list, func(a, b gatewayv1.SupportedFeature) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return list
}
