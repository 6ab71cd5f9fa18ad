package feed

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/api"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
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
	translators map[discovery.Gateway]*translate.Translator
	policies    map[translate.Key]map[discovery.Gateway]bool // that enforce it
}

// New makes a feed without objects.
func New(o Options) *Feed {
	return &Feed{
		o: o, inbox: newInbox(), synced: make(chan struct{}),
		objects:     make(map[translate.Key]translate.Object),
		translators: make(map[discovery.Gateway]*translate.Translator),
		policies:    make(map[translate.Key]map[discovery.Gateway]bool),
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
	f.choose()
	for g, t := range f.translators {
		c := t.Update()
		if _, err := f.o.Sink.Update(g, c); err != nil {
			f.o.Log.Error("a resource cannot be sent, so its last version stays", slog.Any("error", err))
		}
		f.enforced(g, c, touched)
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

// enforced notes which policies a Gateway's waypoints have.
func (f *Feed) enforced(g discovery.Gateway, c translate.Changes, touched map[translate.Key]bool) {
	for _, r := range c.Upserted {
		if p, ok := r.Message.(*waypointv1.AuthorizationPolicy); ok {
			key := policyKey(p.GetNamespace(), p.GetName())
			if f.policies[key] == nil {
				f.policies[key] = make(map[discovery.Gateway]bool)
			}
			f.policies[key][g] = true
			touched[key] = true
		}
	}
	for _, key := range c.Removed {
		if namespace, name, ok := strings.Cut(key.Name, "/"); ok && key.Type == api.AuthorizationPolicyType {
			key := policyKey(namespace, name)
			if delete(f.policies[key], g); len(f.policies[key]) == 0 {
				delete(f.policies, key)
			}
			touched[key] = true
		}
	}
}

func policyKey(namespace, name string) translate.Key {
	return translate.Key{Kind: "AuthorizationPolicy", Namespace: namespace, Name: name}
}

// set takes over the objects of a batch.
func (f *Feed) set(batch map[translate.Key]translate.Object, touched map[translate.Key]bool) {
	for key, obj := range batch {
		touched[key] = true
		before := f.objects[key]
		if obj == nil {
			delete(f.objects, key)
		} else {
			f.objects[key] = obj
		}
		switch {
		case obj == nil:
			for _, t := range f.translators {
				t.Delete(key)
			}
		case matters(before, obj):
			for _, t := range f.translators {
				t.Set(obj)
			}
		}
	}
}

// choose makes translators for the Gateways that are ours, and drops those of
// others. It looks at all Gateways in each turn: they are few.
func (f *Feed) choose() {
	ours := make(map[discovery.Gateway]bool)
	for _, obj := range f.objects {
		if g, ok := obj.(*gatewayv1.Gateway); ok && f.isOurs(g) {
			ours[discovery.Gateway{Namespace: g.Namespace, Name: g.Name}] = true
		}
	}
	for g := range f.translators {
		if !ours[g] {
			delete(f.translators, g)
			for _, by := range f.policies {
				delete(by, g)
			}
			f.o.Sink.Forget(g)
		}
	}
	for g := range ours {
		if f.translators[g] == nil {
			f.translators[g] = f.translator(g)
		}
	}
}

func (f *Feed) isOurs(g *gatewayv1.Gateway) bool {
	class, ok := f.objects[translate.Key{Kind: "GatewayClass", Name: string(g.Spec.GatewayClassName)}].(*gatewayv1.GatewayClass)
	return ok && class.Spec.ControllerName == f.o.ControllerName
}

func (f *Feed) translator(g discovery.Gateway) *translate.Translator {
	o := f.o.Translate
	o.GatewayNamespace, o.GatewayName = g.Namespace, g.Name
	t := translate.New(o)
	for _, obj := range f.objects {
		t.Set(obj)
	}
	return t
}
