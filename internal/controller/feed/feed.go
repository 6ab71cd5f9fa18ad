package feed

import (
	"context"
	"log/slog"
	"sync"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Sink is told what became different. Its methods are called from one goroutine.
type Sink interface {
	// Update and Forget are those of discovery.Server.
	Update(discovery.Gateway, translate.Changes) (int, error)
	Forget(discovery.Gateway)
	// Touched names an object of which something may be said in its status that
	// was not before, or about which somebody else has written.
	Touched(translate.Key)
}

// Options of a [Feed].
type Options struct {
	// ControllerName is what a GatewayClass has to name for its Gateways to be ours.
	ControllerName gatewayv1.GatewayController
	// Serves tells whether a Gateway of such a class is this controller's, by the
	// labels of its namespace too; nil: each is.
	Serves func(g *gatewayv1.Gateway, namespace map[string]string) bool
	// Standalone: whether there is no istiod; nil: none as long as its GatewayClass
	// is not there.
	Standalone *bool
	// Translate holds for every Gateway; which one is filled in.
	Translate translate.Options
	Sink      Sink
	Log       *slog.Logger
}

// Feed keeps the translators. Follow and Run start it.
type Feed struct {
	o      Options
	inbox  *inbox
	synced chan struct{} // closed once everything has been translated

	mu          sync.Mutex // guards all below; written by the goroutine of Run
	objects     map[translate.Key]translate.Object
	mesh        *translate.Mesh // of all translators
	translators map[discovery.Gateway]*translate.Translator
	shared      bool // some Gateway of our class is of another revision
}

// New makes a feed without objects.
func New(o Options) *Feed {
	return &Feed{
		o: o, inbox: newInbox(), synced: make(chan struct{}),
		objects:     make(map[translate.Key]translate.Object),
		mesh:        translate.NewMesh(o.Translate),
		translators: make(map[discovery.Gateway]*translate.Translator),
	}
}

// Synced returns a channel that is closed once all that there was at the start has
// been translated and handed on.
func (f *Feed) Synced() <-chan struct{} { return f.synced }

// Run translates until ctx ends. listed tells when every object that there is has
// been put into the inbox.
func (f *Feed) Run(ctx context.Context, listed <-chan struct{}) {
	select {
	case <-listed:
	case <-ctx.Done():
		return
	}
	for first := true; ; first = false {
		f.turn(f.inbox.take())
		if first {
			close(f.synced)
		}
		select {
		case <-f.inbox.wake:
		case <-ctx.Done():
			return
		}
	}
}

// turn brings a batch of changes into force.
func (f *Feed) turn(batch map[translate.Key]translate.Object) {
	touched := make(map[translate.Key]bool)
	f.mu.Lock()
	f.set(batch, touched)
	f.choose(touched)
	for g, t := range f.translators {
		c := t.Update()
		if _, err := f.o.Sink.Update(g, c); err != nil {
			f.o.Log.Error("a resource cannot be sent, so its last version stays", slog.Any("error", err))
		}
		for _, key := range c.Statuses {
			touched[key] = true
		}
		for key := range c.Problems {
			touched[key] = true
		}
	}
	f.mu.Unlock()
	for key := range touched {
		f.o.Sink.Touched(key)
	}
}

// set takes over the objects of a batch.
func (f *Feed) set(batch map[translate.Key]translate.Object, touched map[translate.Key]bool) {
	alone := f.alone()
	for key, obj := range batch {
		touched[key] = true
		before := f.objects[key]
		if obj == nil {
			delete(f.objects, key)
		} else {
			f.objects[key] = obj
		}
		if hasAddress(before) != hasAddress(obj) {
			f.touchAll(touched)
		}
		switch {
		case obj == nil:
			f.mesh.Delete(key)
		case matters(before, obj):
			f.mesh.Set(obj)
		}
	}
	if f.alone() != alone {
		f.touchAll(touched)
	}
}

// touchAll touches everything that may have a status, for what is rare and would
// otherwise be remembered for each: that a Gateway gets its first address or goes,
// that istiod comes or goes.
func (f *Feed) touchAll(touched map[translate.Key]bool) {
	for key := range f.objects {
		touched[key] = true
	}
}

// istiodClass is made by istiod as it starts.
var istiodClass = translate.Key{Kind: "GatewayClass", Name: "istio-waypoint"}

func (f *Feed) alone() bool {
	if f.o.Standalone != nil {
		return *f.o.Standalone
	}
	return f.objects[istiodClass] == nil
}

// hasAddress tells whether a Gateway, if it is one, has an address that calls are
// sent to.
func hasAddress(obj translate.Object) bool {
	g, ok := obj.(*gatewayv1.Gateway)
	return ok && len(g.Status.Addresses) > 0
}

func (f *Feed) hasAddress(g discovery.Gateway) bool { return hasAddress(f.objects[gatewayKey(g)]) }

// choose makes translators for the Gateways that are ours, and drops those of
// others. It looks at all Gateways in each turn: they are few.
func (f *Feed) choose(touched map[translate.Key]bool) {
	ours := make(map[discovery.Gateway]bool)
	shared := f.shared
	f.shared = false
	for _, obj := range f.objects {
		g, ok := obj.(*gatewayv1.Gateway)
		switch {
		case !ok || !f.isOurClass(g):
		case f.serves(g):
			ours[discovery.Gateway{Namespace: g.Namespace, Name: g.Name}] = true
		default:
			f.shared = true
		}
	}
	if f.shared != shared {
		f.touchAll(touched)
	}
	for g, t := range f.translators {
		if !ours[g] {
			t.Close()
			delete(f.translators, g)
			f.touchAll(touched)
			f.o.Sink.Forget(g)
		}
	}
	for g := range ours {
		if f.translators[g] == nil {
			f.translators[g] = f.mesh.Translator(g.Namespace, g.Name)
		}
	}
}

func (f *Feed) isOurClass(g *gatewayv1.Gateway) bool {
	class, ok := f.objects[translate.Key{Kind: "GatewayClass", Name: string(g.Spec.GatewayClassName)}].(*gatewayv1.GatewayClass)
	return ok && class.Spec.ControllerName == f.o.ControllerName
}

func (f *Feed) serves(g *gatewayv1.Gateway) bool {
	if f.o.Serves == nil {
		return true
	}
	var labels map[string]string
	if n := f.objects[translate.Key{Kind: "Namespace", Name: g.Namespace}]; n != nil {
		labels = n.GetLabels()
	}
	return f.o.Serves(g, labels)
}
