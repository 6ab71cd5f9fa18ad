package kubectl

import (
	"context"
	"fmt"
	"log/slog"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Mesh is what cannot be read off the objects of a cluster. Empty strings get the
// controller's defaults.
type Mesh struct {
	TrustDomain   string
	RootNamespace string
}

// world is what the controller would see, with the user's eyes.
type world struct {
	feed    *feed.Feed
	reports map[translate.Key]feed.Report // that were asked for
	objects []translate.Object            // in the order of their keys, kind by kind
	byKey   map[translate.Key]translate.Object
	classes map[string]*gatewayv1.GatewayClass // ours
	unseen  []string                           // what the user may not see, in words
}

// look lists the objects on which verdicts depend, and has the controller's code
// look at them. Where the user may not see a kind in all namespaces, it is that of
// the cluster's namespace.
func (c *Cluster) look(ctx context.Context, m Mesh) (*world, error) {
	w := &world{reports: make(map[translate.Key]feed.Report), byKey: make(map[translate.Key]translate.Object)}
	var err error
	if w.classes, err = c.classes(ctx); err != nil {
		return nil, err
	}
	for _, kind := range feed.Kinds() {
		if endpoints(kind) {
			continue
		}
		if err := c.see(ctx, w, kind); err != nil {
			return nil, err
		}
	}
	for _, obj := range w.objects {
		w.byKey[translate.KeyOf(obj)] = obj
	}
	w.feed = feed.Of(feed.Options{
		ControllerName: gateway.ControllerName, Sink: deaf{}, Log: slog.New(slog.DiscardHandler),
		Translate: translate.Options{TrustDomain: m.TrustDomain, RootNamespace: m.RootNamespace},
	}, w.objects)
	return w, nil
}

// report is what the controller has to say of one of the objects.
func (w *world) report(obj translate.Object) feed.Report {
	key := translate.KeyOf(obj)
	r, ok := w.reports[key]
	if !ok {
		r, _ = w.feed.Report(key) // it is there, as all objects are
		w.reports[key] = r
	}
	return r
}

// endpoints are most of the objects of a cluster, and no verdict depends on them.
func endpoints(kind translate.Object) bool {
	switch kind.(type) {
	case *corev1.Pod, *corev1.Node, *discoveryv1.EndpointSlice, *networkingv1.WorkloadEntry:
		return true
	}
	return false
}

// see adds all objects of a kind. A kind whose CRD is not installed has none.
func (c *Cluster) see(ctx context.Context, w *world, kind translate.Object) error {
	gvk, err := apiutil.GVKForObject(kind, c.Scheme())
	if err != nil {
		return err
	}
	gvk.Kind += "List"
	empty, err := c.Scheme().New(gvk)
	if err != nil {
		return err
	}
	list := empty.(client.ObjectList)
	err = c.List(ctx, list)
	if apierrors.IsForbidden(err) {
		w.unseen = append(w.unseen, fmt.Sprintf("%ss of other namespaces than %s", kindOf(kind), c.Namespace))
		err = c.List(ctx, list, client.InNamespace(c.Namespace))
	}
	switch {
	case apierrors.IsForbidden(err):
		w.unseen[len(w.unseen)-1] = kindOf(kind) + "s"
		if _, isClass := kind.(*gatewayv1.GatewayClass); isClass {
			w.assumeClass()
		}
		return nil
	case meta.IsNoMatchError(err) && gvk.Group != gatewayv1.GroupName, meta.IsNoMatchError(err) && optional(kind):
		return nil
	case err != nil:
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		w.objects = append(w.objects, obj.(translate.Object))
		return nil
	})
}

// optional kinds of the Gateway API are not in every channel of its releases.
func optional(kind translate.Object) bool {
	switch kind.(type) {
	case *gatewayv1.TCPRoute, *gatewayv1.TLSRoute:
		return true
	}
	return false
}

// assumeClass stands in for classes that the user may not see.
func (w *world) assumeClass() {
	class := &gatewayv1.GatewayClass{}
	class.Name, class.Spec.ControllerName = DefaultClass, gateway.ControllerName
	w.objects = append(w.objects, class)
}

func kindOf(obj translate.Object) string { return translate.KeyOf(obj).Kind }

// deaf is a sink: nobody is to be told of anything.
type deaf struct{}

func (deaf) Update(discovery.Gateway, translate.Changes) (int, error) { return 0, nil }
func (deaf) Forget(discovery.Gateway)                                 {}
func (deaf) Touched(translate.Key)                                    {}
