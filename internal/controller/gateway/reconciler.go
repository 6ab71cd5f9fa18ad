package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Reconciler makes running waypoints of Gateways. It is started by Setup, on the
// leader only.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	apply    *applier
	settings Settings
	roots    func() string
	findings func(client.ObjectKey) Findings
}

// Reconcile brings one Gateway's objects and status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var g gatewayv1.Gateway
	switch err := r.client.Get(ctx, req.NamespacedName, &g); {
	case apierrors.IsNotFound(err):
		r.apply.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	class, err := r.classOf(ctx, &g)
	if err != nil || class == nil || g.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	o, failed := r.bringAbout(ctx, &g, class)
	if apierrors.HasStatusCause(failed, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{}, nil // the Gateway goes with its namespace
	}
	return reconcile.Result{RequeueAfter: o.again}, errors.Join(failed, r.report(ctx, &g, o))
}

// foreignAgain is when a foreign object is looked for again: what is not ours is
// not watched.
const foreignAgain = 30 * time.Second

// classOf is the class of a Gateway, nil if it is not ours to serve.
func (r *Reconciler) classOf(ctx context.Context, g *gatewayv1.Gateway) (*gatewayv1.GatewayClass, error) {
	var class gatewayv1.GatewayClass
	if err := r.client.Get(ctx, client.ObjectKey{Name: string(g.Spec.GatewayClassName)}, &class); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if class.Spec.ControllerName != ControllerName {
		return nil, nil
	}
	var namespace corev1.Namespace
	if len(r.settings.Revisions) > 0 {
		if err := r.client.Get(ctx, client.ObjectKey{Name: g.Namespace}, &namespace); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
	}
	if !r.settings.Serves(g, namespace.Labels) {
		return nil, nil
	}
	return &class, nil
}

// bringAbout applies what belongs to a Gateway and finds its addresses. The error
// is one to try again after; what is the user's to mend is in the outcome alone.
func (r *Reconciler) bringAbout(ctx context.Context, g *gatewayv1.Gateway, class *gatewayv1.GatewayClass) (outcome, error) {
	o := outcome{found: r.findings(client.ObjectKeyFromObject(g))}
	if Managed(g) {
		if len(g.Spec.Addresses) > 0 {
			o.reason, o.unacceptable = gatewayv1.GatewayReasonUnsupportedAddress, "spec.addresses: a waypoint has the address of its Service, "+
				"which is not to be chosen; leave it out, or name the Hostname of a Service of your own"
			return o, nil
		}
		switch err := r.deploy(ctx, g, class); {
		case isParameterError(err):
			o.reason, o.unacceptable = gatewayv1.GatewayReasonInvalidParameters, err.Error()
			return o, nil
		case isForeign(err):
			o.hindered, o.again = err.Error(), foreignAgain
			return o, nil
		case err != nil:
			o.hindered = err.Error()
			return o, err
		}
	}
	addresses, fault, err := r.locate(ctx, g)
	if fault != "" {
		o.reason, o.unacceptable = gatewayv1.GatewayReasonUnsupportedAddress, fault
	}
	o.addresses = addresses
	return o, err
}

var errNoRoots = errors.New("the controller has no CA yet, by which waypoints could know it")

func isParameterError(err error) bool {
	_, ok := errors.AsType[*ParameterError](err)
	return ok
}

func isForeign(err error) bool {
	_, ok := errors.AsType[*ForeignError](err)
	return ok
}

func (r *Reconciler) deploy(ctx context.Context, g *gatewayv1.Gateway, class *gatewayv1.GatewayClass) error {
	in := Input{Gateway: g, Settings: r.settings}
	if in.Settings.Roots = r.roots(); in.Settings.Roots == "" {
		return errNoRoots // waypoints that start without would try for a minute in vain
	}
	objects, err := r.rendered(ctx, in, class)
	if isParameterError(err) {
		return cmp.Or(r.followRoots(ctx, in), err)
	}
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := r.apply.apply(ctx, g, obj); err != nil {
			return refusedOverlay(err, obj)
		}
	}
	return r.prune(ctx, g, objects)
}

// rendered are the objects of a Gateway with the overlays that it and its class
// name.
func (r *Reconciler) rendered(ctx context.Context, in Input, class *gatewayv1.GatewayClass) ([]*unstructured.Unstructured, error) {
	var err error
	if in.Class, err = r.classOverlays(ctx, class); err != nil {
		return nil, err
	}
	if in.Own, err = r.ownOverlays(ctx, in.Gateway); err != nil {
		return nil, err
	}
	return Render(in)
}

// followRoots brings the controller's roots to waypoints that run already, while
// their overlays cannot be used: a rotation would else cut them off from us.
func (r *Reconciler) followRoots(ctx context.Context, in Input) error {
	roots, err := renderRoots(in)
	if err != nil {
		return err
	}
	running, err := r.apply.look(ctx, roots.GroupVersionKind(), client.ObjectKeyFromObject(roots))
	if err != nil || running == nil {
		return err
	}
	return r.apply.apply(ctx, in.Gateway, roots)
}

// refusedOverlay: what the API server finds invalid in what we render cannot be
// our own part of it, so trying again is of no use.
func refusedOverlay(err error, obj *unstructured.Unstructured) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return faultf("the %s, with its overlays, is refused by the API server: %v", obj.GetKind(), err)
	}
	return err
}

// prune removes objects that nobody asks for any more.
func (r *Reconciler) prune(ctx context.Context, g *gatewayv1.Gateway, rendered []*unstructured.Unstructured) error {
	for _, p := range parts {
		if !p.onRequest || slices.ContainsFunc(rendered, func(o *unstructured.Unstructured) bool { return o.GetKind() == p.kind.Kind }) {
			continue
		}
		if err := r.apply.remove(ctx, g, p.kind); err != nil {
			return err
		}
	}
	return nil
}

// classOverlays are the class-wide ones: of the ConfigMap that the GatewayClass
// names.
func (r *Reconciler) classOverlays(ctx context.Context, class *gatewayv1.GatewayClass) (Overlays, error) {
	ref := class.Spec.ParametersRef
	if ref == nil {
		return nil, nil
	}
	if ref.Group != "" || ref.Kind != "ConfigMap" || ref.Namespace == nil {
		return nil, faultf("GatewayClass %s, spec.parametersRef: must be a ConfigMap with its namespace, got %s", class.Name, ref.Kind)
	}
	return r.overlays(ctx, client.ObjectKey{Namespace: string(*ref.Namespace), Name: ref.Name}, "GatewayClass "+class.Name+", spec.parametersRef")
}

func (r *Reconciler) ownOverlays(ctx context.Context, g *gatewayv1.Gateway) (Overlays, error) {
	if g.Spec.Infrastructure == nil || g.Spec.Infrastructure.ParametersRef == nil {
		return nil, nil
	}
	ref := g.Spec.Infrastructure.ParametersRef
	if ref.Group != "" || ref.Kind != "ConfigMap" {
		return nil, faultf(`spec.infrastructure.parametersRef: must be a ConfigMap (group ""), got %s of group %q`, ref.Kind, ref.Group)
	}
	return r.overlays(ctx, client.ObjectKey{Namespace: g.Namespace, Name: ref.Name}, "spec.infrastructure.parametersRef")
}

// overlays reads past the cache, which holds the metadata of ConfigMaps only.
func (r *Reconciler) overlays(ctx context.Context, key client.ObjectKey, field string) (Overlays, error) {
	var c corev1.ConfigMap
	switch err := r.live.Get(ctx, key, &c); {
	case apierrors.IsNotFound(err):
		return nil, faultf("%s: there is no ConfigMap %s", field, key)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return c.Data, nil
}

// report writes the status if it says anything new.
func (r *Reconciler) report(ctx context.Context, g *gatewayv1.Gateway, o outcome) error {
	now := g.DeepCopy()
	o.fill(g, &now.Status)
	if equality.Semantic.DeepEqual(g.Status, now.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(g, client.MergeFromWithOptimisticLock{})
	err := r.client.Status().Patch(ctx, now, patch, client.FieldOwner(FieldManager))
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // what overtook us, our own last write as a rule, brings us back
	}
	return fmt.Errorf("writing the status of Gateway %s: %w", client.ObjectKeyFromObject(g), err)
}
