package controller

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/util/workqueue"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// refusals knows what waypoints refuse, and has the status of the objects that it
// was made of written when that becomes something else.
type refusals struct {
	// rejections asks the discovery server, touched has an object looked at.
	rejections func(discovery.Gateway) []discovery.Rejection
	touched    func(translate.Key)
	due        workqueue.TypedInterface[discovery.Gateway]

	mu sync.Mutex // guards by
	by map[discovery.Gateway][]discovery.Rejection
}

func newRefusals(touched func(translate.Key)) *refusals {
	return &refusals{
		touched: touched, due: workqueue.NewTyped[discovery.Gateway](), by: make(map[discovery.Gateway][]discovery.Rejection),
	}
}

// changed notes that the waypoints of a Gateway may refuse something else. It does
// not block, since the discovery server calls it.
func (r *refusals) changed(g discovery.Gateway) { r.due.Add(g) }

// run looks at what has changed until ctx ends.
func (r *refusals) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.due.ShutDown)
	defer stop()
	for {
		g, end := r.due.Get()
		if end {
			return nil
		}
		r.refresh(g)
		r.due.Done(g)
	}
}

func (r *refusals) refresh(g discovery.Gateway) {
	now := r.rejections(g)
	r.mu.Lock()
	before := r.by[g]
	if r.by[g] = now; len(now) == 0 {
		delete(r.by, g)
	}
	r.mu.Unlock()
	for _, rejection := range append(slices.Clone(before), now...) {
		r.touched(translate.Key{Kind: "Gateway", Namespace: g.Namespace, Name: g.Name})
		if key, ok := madeOf(rejection.Key); ok {
			r.touched(key)
		}
	}
}

// count returns how many resources the waypoints of each Gateway refuse.
func (r *refusals) count() map[discovery.Gateway]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[discovery.Gateway]int, len(r.by))
	for g, list := range r.by {
		counts[g] = len(list)
	}
	return counts
}

// of lists what waypoints refuse of what was made of an object.
func (r *refusals) of(key translate.Key) []status.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []status.Refusal
	for g, rejections := range r.by {
		for _, rejection := range rejections {
			if object, ok := madeOf(rejection.Key); ok && object == key {
				list = append(list, status.Refusal{Gateway: g, Reason: rejection.Reason})
			}
		}
	}
	return list
}

// mostNamed bounds how many resources a Gateway's status names.
const mostNamed = 10

// at lists what the waypoints of a Gateway refuse; empty: nothing.
func (r *refusals) at(g discovery.Gateway) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, rejection := range r.by[g] {
		name := rejection.Key.String()
		if object, ok := madeOf(rejection.Key); ok {
			name = object.String()
		}
		texts = append(texts, name+": "+rejection.Reason)
	}
	slices.Sort(texts)
	if texts = slices.Compact(texts); len(texts) > mostNamed {
		texts = append(texts[:mostNamed], "and others")
	}
	return strings.Join(texts, "; ")
}

// madeOf names the object that a resource was made of, if it is one that can say
// so in its status.
func madeOf(key api.Key) (translate.Key, bool) {
	kind, rest := "AuthorizationPolicy", key.Name
	switch key.Type {
	case api.AuthorizationPolicyType:
	case api.RouteType:
		kind, rest, _ = strings.Cut(key.Name, "/")
	default:
		return translate.Key{}, false
	}
	namespace, name, ok := strings.Cut(rest, "/")
	return translate.Key{Kind: kind, Namespace: namespace, Name: name}, ok
}
