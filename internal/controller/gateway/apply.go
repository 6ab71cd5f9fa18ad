package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// applier brings rendered objects to the API server.
type applier struct {
	client client.Client
	// live reads past the cache: whether an object is ours decides over whether it
	// is written to, so yesterday's answer does not do.
	live client.Reader

	mu   sync.Mutex                              // guards done
	done map[client.ObjectKey]map[string]applied // by Gateway and kind
}

// applied is what an object was made of, and its version after that. As long as
// both are the same there is nothing to be applied.
type applied struct {
	rendered [sha256.Size]byte
	version  string
}

// forget drops what is known of a Gateway that is gone.
func (a *applier) forget(g client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.done, g)
}

func (a *applier) isDone(g client.ObjectKey, kind string, now applied) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done[g][kind] == now
}

func (a *applier) setDone(g client.ObjectKey, kind string, now applied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done[g] == nil {
		a.done[g] = make(map[string]applied)
	}
	a.done[g][kind] = now
}

// ForeignError says that an object we need is there and somebody else's.
type ForeignError struct {
	Kind, Namespace, Name string
	Owner                 string // "Gateway waypoint"; empty: none
}

// Error says what to do about it.
func (e *ForeignError) Error() string {
	owner := "it has no owner"
	if e.Owner != "" {
		owner = "its owner is " + e.Owner
	}
	return fmt.Sprintf("%s %s/%s exists and is not of this Gateway (%s), so it is left alone: delete it, or name the Gateway otherwise",
		e.Kind, e.Namespace, e.Name, owner)
}

// apply makes the object be as rendered, unless it is not ours.
func (a *applier) apply(ctx context.Context, g *gatewayv1.Gateway, obj *unstructured.Unstructured) error {
	js, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	rendered, kind := sha256.Sum256(js), obj.GetKind()
	current, err := a.look(ctx, obj.GroupVersionKind(), client.ObjectKeyFromObject(obj))
	switch {
	case err != nil:
		return err
	case current == nil:
		// Not forced: where somebody makes an object of that name at this very
		// moment, what they say stands, and the conflict brings us back here.
		err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(FieldManager))
	case !owns(g, current):
		return foreign(kind, current)
	case a.isDone(client.ObjectKeyFromObject(g), kind, applied{rendered, current.ResourceVersion}):
		return nil
	default:
		obj.SetUID(current.UID) // the one we looked at, or none
		err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(FieldManager), client.ForceOwnership)
	}
	if err == nil {
		a.setDone(client.ObjectKeyFromObject(g), kind, applied{rendered, obj.GetResourceVersion()})
	}
	return err
}

// remove deletes an object that is no longer asked for, if it is there and ours.
func (a *applier) remove(ctx context.Context, g *gatewayv1.Gateway, kind schema.GroupVersionKind) error {
	current, err := a.look(ctx, kind, client.ObjectKeyFromObject(g))
	if err != nil || current == nil || !owns(g, current) || current.DeletionTimestamp != nil {
		return err
	}
	return client.IgnoreNotFound(a.client.Delete(ctx, current, client.Preconditions{UID: &current.UID}))
}

// look reads the metadata of an object; nil if there is none.
func (a *applier) look(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(kind)
	err := a.live.Get(ctx, key, current)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking whether %s %s is ours: %w", kind.Kind, key, err)
	}
	current.SetGroupVersionKind(kind)
	return current, nil
}

func owns(g *gatewayv1.Gateway, obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == g.UID })
}

func foreign(kind string, obj metav1.Object) error {
	e := &ForeignError{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		e.Owner = owners[0].Kind + " " + owners[0].Name
	}
	return e
}
