package refusal

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Rejections are what the waypoints of Gateways refuse, as one replica knows.
type Rejections map[discovery.Gateway][]discovery.Rejection

// report is what one replica says, until it expires; zero: it does not, being what
// this replica knows itself.
type report struct {
	rejections Rejections
	until      time.Time
}

// Known is what is known. Its methods may be called from any goroutine.
type Known struct {
	// touched has an object looked at that something else is to be said of.
	touched func(translate.Key)

	mu sync.Mutex        // guards by
	by map[string]report // replica; our own is ""
}

// NewKnown makes one that knows nothing. touched is told of objects, Gateways among
// them, of which something else is to be said.
func NewKnown(touched func(translate.Key)) *Known {
	return &Known{touched: touched, by: make(map[string]report)}
}

// own is this replica.
const own = ""

// set takes what a replica says; without rejections it says nothing any more.
func (k *Known) set(replica string, now report) {
	k.mu.Lock()
	before := k.by[replica].rejections
	if len(now.rejections) > 0 {
		k.by[replica] = now
	} else {
		delete(k.by, replica)
	}
	k.mu.Unlock()
	for _, rejections := range []Rejections{before, now.rejections} {
		for g, list := range rejections {
			if same(before[g], now.rejections[g]) {
				continue
			}
			k.touched(gatewayKey(g))
			for _, r := range list {
				if key, ok := madeOf(r.Key); ok {
					k.touched(key)
				}
			}
		}
	}
}

// same compares what stands in a status.
func same(a, b []discovery.Rejection) bool {
	return slices.EqualFunc(a, b, func(a, b discovery.Rejection) bool { return a.Key == b.Key && a.Reason == b.Reason })
}

// setOwn takes what the waypoints of a Gateway that are connected to this replica
// refuse.
func (k *Known) setOwn(g discovery.Gateway, list []discovery.Rejection) {
	k.mu.Lock()
	now := maps.Clone(k.by[own].rejections)
	k.mu.Unlock()
	if now == nil {
		now = make(Rejections)
	}
	if now[g] = list; len(list) == 0 {
		delete(now, g)
	}
	k.set(own, report{rejections: now})
}

// mine is what this replica knows itself. It must not be changed.
func (k *Known) mine() Rejections {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[own].rejections
}

// expire forgets what has expired, and returns of which replicas that was and when
// the next will; zero: never.
func (k *Known) expire(now time.Time) (expired []string, next time.Time) {
	k.mu.Lock()
	for replica, r := range k.by {
		switch {
		case r.until.IsZero():
		case !now.Before(r.until):
			expired = append(expired, replica)
		case next.IsZero() || r.until.Before(next):
			next = r.until
		}
	}
	k.mu.Unlock()
	for _, replica := range expired {
		k.set(replica, report{})
	}
	return expired, next
}

// all calls f for what every replica says.
func (k *Known) all(f func(discovery.Gateway, discovery.Rejection)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.by {
		for g, list := range r.rejections {
			for _, rejection := range list {
				f(g, rejection)
			}
		}
	}
}

// Count returns how many resources the waypoints of each Gateway refuse.
func (k *Known) Count() map[discovery.Gateway]int {
	keys := make(map[discovery.Gateway]map[api.Key]bool)
	k.all(func(g discovery.Gateway, r discovery.Rejection) {
		if keys[g] == nil {
			keys[g] = make(map[api.Key]bool)
		}
		keys[g][r.Key] = true
	})
	counts := make(map[discovery.Gateway]int, len(keys))
	for g, set := range keys {
		counts[g] = len(set)
	}
	return counts
}

// Of lists what waypoints refuse of what was made of an object.
func (k *Known) Of(key translate.Key) (list []status.Refusal) {
	k.all(func(g discovery.Gateway, r discovery.Rejection) {
		if object, ok := madeOf(r.Key); ok && object == key {
			list = append(list, status.Refusal{Gateway: g, Reason: r.Reason})
		}
	})
	return list
}

// mostNamed bounds how many resources a Gateway's status names.
const mostNamed = 10

// At says what the waypoints of a Gateway refuse; empty: nothing.
func (k *Known) At(g discovery.Gateway) string {
	var texts []string
	k.all(func(of discovery.Gateway, r discovery.Rejection) {
		if of != g {
			return
		}
		name := r.Key.String()
		if object, ok := madeOf(r.Key); ok {
			name = object.String()
		}
		texts = append(texts, name+": "+r.Reason)
	})
	slices.Sort(texts)
	if texts = slices.Compact(texts); len(texts) > mostNamed {
		texts = append(texts[:mostNamed], "and others")
	}
	return strings.Join(texts, "; ")
}

func gatewayKey(g discovery.Gateway) translate.Key {
	return translate.Key{Kind: "Gateway", Namespace: g.Namespace, Name: g.Name}
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
