package feed

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Follower puts what informers tell into the inbox of a feed.
type Follower struct {
	Feed   *Feed
	Cache  cache.Cache
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
	Log    *slog.Logger

	missing []translate.Object // kinds whose CRD is not installed
}

// Start follows the API server and translates, until ctx ends. It does so on every
// replica.
func (f *Follower) Start(ctx context.Context) error {
	installed, err := f.watchCRDs(ctx)
	if err != nil {
		return err
	}
	var synced []toolscache.InformerSynced
	f.missing = Kinds()
	if synced, err = f.join(ctx); err != nil {
		return err
	}
	listed := make(chan struct{})
	go f.Feed.Run(ctx, listed)
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx has ended
	}
	close(listed)
	for len(f.missing) > 0 {
		select {
		case <-installed:
			if _, err := f.join(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection has it run on every replica.
func (f *Follower) NeedLeaderElection() bool { return false }

// join starts informers for the missing kinds that the API server serves by now.
func (f *Follower) join(ctx context.Context) (synced []toolscache.InformerSynced, err error) {
	var still []translate.Object
	for _, kind := range f.missing {
		gvk, err := apiutil.GVKForObject(kind, f.Scheme)
		if err != nil {
			return nil, err
		}
		switch _, err := f.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version); {
		case meta.IsNoMatchError(err):
			still = append(still, kind)
			f.Log.Warn("a kind is left out until its CRD is installed", slog.String("kind", gvk.Kind), slog.String("version", gvk.GroupVersion().String()))
			continue
		case err != nil:
			return nil, fmt.Errorf("whether there is a %s: %w", gvk.Kind, err)
		}
		informer, err := f.Cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("following %ss: %w", gvk.Kind, err)
		}
		registration, err := informer.AddEventHandler(f.handler())
		if err != nil {
			return nil, fmt.Errorf("following %ss: %w", gvk.Kind, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	f.missing = still
	return synced, nil
}

func (f *Follower) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { f.note(obj, false) },
		UpdateFunc: func(before, obj any) {
			if before.(metav1.Object).GetResourceVersion() != obj.(metav1.Object).GetResourceVersion() {
				f.note(obj, false)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			f.note(obj, true)
		},
	}
}

func (f *Follower) note(obj any, gone bool) {
	o, ok := obj.(translate.Object)
	switch {
	case !ok:
		f.Log.Error("an informer told of something that is no object", slog.String("type", fmt.Sprintf("%T", obj)))
	case gone:
		f.Feed.inbox.put(translate.KeyOf(o), nil)
	default:
		f.Feed.inbox.put(translate.KeyOf(o), o)
	}
}

// groups of the CRDs that are followed.
var groups = []string{"gateway.networking.k8s.io", "networking.istio.io", "security.istio.io"}

// watchCRDs sends whenever one of the CRDs that may be ours was installed or
// changed.
func (f *Follower) watchCRDs(ctx context.Context) (<-chan struct{}, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	informer, err := f.Cache.GetInformer(ctx, crd, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("following CRDs: %w", err)
	}
	installed := make(chan struct{}, 1)
	note := func(obj any) {
		if o, ok := obj.(metav1.Object); !ok || !slices.ContainsFunc(groups, func(g string) bool { return hasGroup(o.GetName(), g) }) {
			return
		}
		select {
		case installed <- struct{}{}:
		default: // it was not noticed yet
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) }})
	return installed, err
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// hasGroup goes by the name of a CRD, "plural.group".
func hasGroup(name, group string) bool {
	_, of, _ := strings.Cut(name, ".")
	return of == group
}
