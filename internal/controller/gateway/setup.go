package gateway

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Options of the reconcilers.
type Options struct {
	Settings Settings // without Roots
	// Roots gives the controller's roots of the moment, PEM.
	Roots func() string
	// Findings tells what is known of a Gateway elsewhere; nil: nothing is.
	Findings func(client.ObjectKey) Findings
	// Again has the Gateway looked at again whose findings are others, and all of
	// them if it has no name, when the roots are others. It is read until the
	// manager ends; nil: never.
	Again <-chan event.GenericEvent
}

// Setup adds the reconcilers to a manager. They run on the leader.
func Setup(m manager.Manager, o Options) error {
	if o.Findings == nil {
		o.Findings = func(client.ObjectKey) Findings { return Findings{} }
	}
	r := &Reconciler{
		client: m.GetClient(), live: m.GetAPIReader(),
		apply:    &applier{client: m.GetClient(), live: m.GetAPIReader(), done: make(map[client.ObjectKey]map[string]applied)},
		settings: o.Settings, roots: o.Roots, findings: o.Findings,
	}
	err := builder.ControllerManagedBy(m).Named("gatewayclass").
		For(&gatewayv1.GatewayClass{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.classesOf), builder.OnlyMetadata).
		Complete(&ClassReconciler{m.GetClient(), r.classOverlays})
	if err != nil {
		return err
	}
	changes := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{}))
	b := builder.ControllerManagedBy(m).Named("gateway").
		For(&gatewayv1.Gateway{}).
		Watches(&gatewayv1.GatewayClass{}, handler.EnqueueRequestsFromMapFunc(r.ofClass)).
		Owns(&corev1.Service{}).
		Owns(&appsv1.Deployment{}, changes, builder.OnlyMetadata).
		Owns(&corev1.ServiceAccount{}, builder.OnlyMetadata).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, changes, builder.OnlyMetadata).
		Owns(&policyv1.PodDisruptionBudget{}, changes, builder.OnlyMetadata).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.ofConfigMap), builder.OnlyMetadata).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.ofEndpoints))
	if o.Again != nil {
		b = b.WatchesRawSource(source.Channel(o.Again, handler.EnqueueRequestsFromMapFunc(r.again)))
	}
	if len(o.Settings.Revisions) > 0 {
		b = b.Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	return b.Complete(r)
}

// ofClass: a class may become ours, or cease to be, or have other parameters.
func (r *Reconciler) ofClass(ctx context.Context, class client.Object) []reconcile.Request {
	return r.gateways(ctx, func(g *gatewayv1.Gateway) bool { return string(g.Spec.GatewayClassName) == class.GetName() })
}

// ofConfigMap finds the Gateways whose overlays or roots a ConfigMap holds, and all
// if it is in use for a class.
func (r *Reconciler) ofConfigMap(ctx context.Context, c client.Object) []reconcile.Request {
	inUse := map[gatewayv1.ObjectName]bool{}
	for _, class := range r.classesOf(ctx, c) {
		inUse[gatewayv1.ObjectName(class.Name)] = true
	}
	return r.gateways(ctx, func(g *gatewayv1.Gateway) bool {
		if inUse[g.Spec.GatewayClassName] || owns(g, c) {
			return true
		}
		infra := g.Spec.Infrastructure
		return g.Namespace == c.GetNamespace() && infra != nil && infra.ParametersRef != nil && infra.ParametersRef.Name == c.GetName()
	})
}

// classesOf finds the classes whose overlays a ConfigMap holds.
func (r *Reconciler) classesOf(ctx context.Context, c client.Object) (requests []reconcile.Request) {
	var classes gatewayv1.GatewayClassList
	if err := r.client.List(ctx, &classes); err != nil {
		return nil // the cache is ending, and so are we
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		ref := class.Spec.ParametersRef
		if ref != nil && ref.Name == c.GetName() && ref.Namespace != nil && string(*ref.Namespace) == c.GetNamespace() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(class)})
		}
	}
	return requests
}

// ofEndpoints finds the Gateway whose pods may be the ready ones, or no longer.
func (r *Reconciler) ofEndpoints(ctx context.Context, slice client.Object) []reconcile.Request {
	service := slice.GetLabels()[discoveryv1.LabelServiceName]
	return r.gateways(ctx, func(g *gatewayv1.Gateway) bool {
		if g.Namespace != slice.GetNamespace() || Managed(g) {
			return g.Namespace == slice.GetNamespace() && g.Name == service
		}
		names, _ := r.servicesNamed(g)
		for _, name := range names {
			if name == service {
				return true
			}
		}
		return false
	})
}

// ofNamespace: another revision may be meant.
func (r *Reconciler) ofNamespace(ctx context.Context, n client.Object) []reconcile.Request {
	return r.gateways(ctx, func(g *gatewayv1.Gateway) bool { return g.Namespace == n.GetName() })
}

func (r *Reconciler) again(ctx context.Context, g client.Object) []reconcile.Request {
	if g.GetName() != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(g)}}
	}
	return r.gateways(ctx, func(*gatewayv1.Gateway) bool { return true })
}

func (r *Reconciler) gateways(ctx context.Context, match func(*gatewayv1.Gateway) bool) []reconcile.Request {
	var list gatewayv1.GatewayList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is ending, and so are we
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
