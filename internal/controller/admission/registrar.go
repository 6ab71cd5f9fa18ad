package admission

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ConfigurationName is that of the ValidatingWebhookConfiguration, which is
// installed with the controller. Where there is none, there is no admission.
const ConfigurationName = "waypoint-controller"

// Registrar tells the API server by which roots to know the webhook. It runs on the
// leader.
type Registrar struct {
	client       client.Client
	fieldManager string
	roots        func() string
}

// Register adds a registrar to a manager. again is sent to when the roots are
// others.
func Register(m manager.Manager, fieldManager string, roots func() string, again <-chan event.GenericEvent) error {
	r := &Registrar{m.GetClient(), fieldManager, roots}
	ours := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: ConfigurationName}}}
	}
	return builder.ControllerManagedBy(m).Named("admission").
		For(&admissionregistrationv1.ValidatingWebhookConfiguration{}).
		WatchesRawSource(source.Channel(again, handler.EnqueueRequestsFromMapFunc(ours))).
		Complete(r)
}

// Reconcile writes the roots into every webhook of the configuration.
func (r *Registrar) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var c admissionregistrationv1.ValidatingWebhookConfiguration
	if err := r.client.Get(ctx, req.NamespacedName, &c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	roots := []byte(r.roots())
	if c.Name != ConfigurationName || len(roots) == 0 {
		return reconcile.Result{}, nil
	}
	now, changed := c.DeepCopy(), false
	for i := range now.Webhooks {
		if w := &now.Webhooks[i]; !bytes.Equal(w.ClientConfig.CABundle, roots) {
			w.ClientConfig.CABundle, changed = roots, true
		}
	}
	if !changed {
		return reconcile.Result{}, nil
	}
	patch := client.MergeFromWithOptions(&c, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, now, patch, client.FieldOwner(r.fieldManager)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("writing the roots into ValidatingWebhookConfiguration %s: %w", c.Name, err)
	}
	return reconcile.Result{}, nil
}
