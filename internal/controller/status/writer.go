package status

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Options of a [Writer].
type Options struct {
	Client client.Client
	// ControllerName marks our entries in the status of routes, FieldManager our
	// writes.
	ControllerName gatewayv1.GatewayController
	FieldManager   string
	// Report tells what there is to say of an object; false if it is gone.
	Report func(translate.Key) (feed.Report, bool)
	// Refusals lists what waypoints refuse of what was made of an object; nil:
	// nothing is known of it.
	Refusals func(translate.Key) []Refusal
	Log      *slog.Logger
}

// Writer writes statuses. Replicas that do not lead collect the names of objects,
// each once, and write what is due when they come to lead.
type Writer struct {
	o     Options
	queue workqueue.TypedRateLimitingInterface[translate.Key]

	mu         sync.Mutex // guards statements
	statements map[translate.Key]statement
}

// NewWriter makes a writer.
func NewWriter(o Options) *Writer {
	if o.Refusals == nil {
		o.Refusals = func(translate.Key) []Refusal { return nil }
	}
	limits := workqueue.NewTypedItemExponentialFailureRateLimiter[translate.Key](50*time.Millisecond, time.Minute)
	return &Writer{o: o, queue: workqueue.NewTypedRateLimitingQueue(limits), statements: make(map[translate.Key]statement)}
}

// kinds whose status we write.
var kinds = []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "AuthorizationPolicy", "Service", "ServiceEntry"}

// Touched has an object looked at, if it is of a kind whose status we write.
func (w *Writer) Touched(key translate.Key) {
	if slices.Contains(kinds, key.Kind) {
		w.queue.Add(key)
	}
}

// NeedLeaderElection has it write on the leader only.
func (w *Writer) NeedLeaderElection() bool { return true }

// workers write side by side: each write waits for the API server.
const workers = 8

// Start writes until ctx ends.
func (w *Writer) Start(ctx context.Context) error {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	all.Wait()
	return nil
}

func (w *Writer) next(ctx context.Context) bool {
	key, end := w.queue.Get()
	if end {
		return false
	}
	defer w.queue.Done(key)
	switch err := w.write(ctx, key); {
	case err == nil:
		w.queue.Forget(key)
	case ctx.Err() == nil:
		// A conflict is nothing special: somebody wrote in between, their version
		// is on its way here, and the next try is from that.
		w.o.Log.Debug("a status is to be written again", slog.String("object", key.String()), slog.Any("error", err))
		w.queue.AddRateLimited(key)
	}
	return true
}

// write brings the status of one object up to date.
func (w *Writer) write(ctx context.Context, key translate.Key) error {
	r, ok := w.o.Report(key)
	if !ok {
		w.forget(key)
		return nil
	}
	now, changed := Updated(w.o.ControllerName, r, w.o.Refusals(key))
	if !changed || !w.mayInsist(key, now) {
		return nil
	}
	patch := client.MergeFromWithOptions(r.Object, client.MergeFromWithOptimisticLock{})
	err := w.o.Client.Status().Patch(ctx, now, patch, client.FieldOwner(w.o.FieldManager))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("writing the status of %s: %w", key, err)
	}
	w.said(key, now)
	return nil
}

// Updated returns a copy of the object with the status that it has to have, and
// whether that is another than it has.
func Updated(name gatewayv1.GatewayController, r feed.Report, refusals []Refusal) (now translate.Object, changed bool) {
	now = r.Object.DeepCopyObject().(translate.Object)
	switch obj := now.(type) {
	case *securityv1.AuthorizationPolicy:
		ours := verdict(r, refusals)
		if ours == nil && r.Shared {
			return now, false // another revision of the controller may have something to say
		}
		return now, replace(&obj.Status.Conditions, PolicyCondition, ours, obj.Generation)
	case *networkingv1.ServiceEntry:
		return now, replace(&obj.Status.Conditions, BoundCondition, bound(r), obj.Generation)
	case *corev1.Service:
		serviceConditions(&obj.Status.Conditions, r)
		return now, !equality.Semantic.DeepEqual(r.Object.(*corev1.Service).Status.Conditions, obj.Status.Conditions)
	}
	_, status := RouteParts(now)
	status.Parents = parents(name, r, refusals)
	_, before := RouteParts(r.Object)
	return now, !equality.Semantic.DeepEqual(before.Parents, status.Parents)
}

// statement is what we said of one generation of a policy, and how often.
type statement struct {
	generation int64
	text       string
	times      int
}

func statementOn(obj translate.Object) (s statement, ok bool) {
	policy, ok := obj.(*securityv1.AuthorizationPolicy)
	if !ok {
		return s, false
	}
	s.generation = policy.Generation
	for _, c := range policy.Status.GetConditions() {
		if c.GetType() == PolicyCondition {
			s.text = c.GetStatus() + c.GetMessage()
		}
	}
	return s, true
}

// maxStatements ends what would be a fight: the conditions of a policy are one list,
// and a control plane that replaces the list takes away what we said. It is said
// anew as often as this, and then left until there is something else to say.
const maxStatements = 3

func (w *Writer) mayInsist(key translate.Key, now translate.Object) bool {
	s, ok := statementOn(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.statements[key]
	return !ok || old.generation != s.generation || old.text != s.text || old.times < maxStatements
}

// said counts a statement that was written.
func (w *Writer) said(key translate.Key, now translate.Object) {
	s, ok := statementOn(now)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.statements[key]; old.generation == s.generation && old.text == s.text {
		s.times = old.times
	}
	s.times++
	w.statements[key] = s
}

func (w *Writer) forget(key translate.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.statements, key)
}
