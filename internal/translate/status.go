package translate

import (
	"slices"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
)

// Condition is one condition of a status, without its time.
type Condition struct {
	Status  bool
	Reason  string
	Message string
}

// ParentStatus is what a route's status says of one of its parents (Gateway API, RouteParentStatus).
type ParentStatus struct {
	Ref int // which of spec.parentRefs
	// Accepted: the route is in effect there.
	Accepted Condition
	// ResolvedRefs: all that its rules refer to can be used. Empty where no parent accepts the route.
	ResolvedRefs Condition
	// Waypoint: the parent has a waypoint, which is our gateway.
	Waypoint Condition
	// Nobodys: the parent asks for no waypoint or for one that does not exist, which every gateway finds alike. The status is
	// for us to write only where nobody else speaks for services without a waypoint.
	Nobodys bool
}

// TargetStatus is what became of a policy at one of its targets.
type TargetStatus struct {
	Ref    int // which of spec.targetRefs; of a policy without, one is for each service that it seems to be meant for
	Target Key
	// Fault is why our gateway does not enforce the policy there; the zero Problem: it does.
	Fault Problem
	// Around is how clients get around the policy nevertheless; empty: they do not, as far as can be seen.
	Around string
}

// Enforced reports whether our gateway enforces the policy at the target.
func (s TargetStatus) Enforced() bool { return s.Fault == Problem{} }

// BoundStatus says whether a service has the waypoint that it asks for.
type BoundStatus struct {
	Object Key
	Bound  Condition
}

// ListenerRoutes counts the routes whose parent one of our listeners is.
type ListenerRoutes struct {
	Listener string
	Routes   int
}

// statement is what a unit has to say in statuses. Few units have anything.
type statement struct {
	parents   []ParentStatus
	targets   []TargetStatus
	bound     []BoundStatus
	listeners []ListenerRoutes
}

func (s *statement) equal(other *statement) bool {
	if s == nil || other == nil {
		return s == other
	}
	return slices.Equal(s.parents, other.parents) && slices.Equal(s.targets, other.targets) && slices.Equal(s.bound, other.bound) &&
		slices.Equal(s.listeners, other.listeners)
}

// on lists the objects that the unit's statement is about.
func (s *statement) on(t *Translator, u unit) []Key {
	if s == nil {
		return nil
	}
	var keys []Key
	if s.parents != nil || s.targets != nil {
		keys = append(keys, u.key())
	}
	if s.listeners != nil {
		keys = append(keys, Key{kindGateway, t.options.GatewayNamespace, t.options.GatewayName})
	}
	for _, b := range s.bound {
		keys = append(keys, b.Object)
	}
	return keys
}

// statementOf gives what a unit has to say, never nil.
func (t *Translator) statementOf(u unit) *statement {
	if s := t.units[u]; s != nil && s.says != nil {
		return s.says
	}
	return &statement{}
}

// RouteStatus gives the status of a route as of the last Update: of those parents that ask for this gateway, since others
// are for others to speak of, and of those that are nobody's.
func (t *Translator) RouteStatus(key Key) []ParentStatus {
	return slices.Clone(t.statementOf(unit{kind: unitRoute, namespace: key.Namespace, name: key.Name, route: key.Kind}).parents)
}

// PolicyStatus gives the status of an AuthorizationPolicy as of the last Update, of those targets that are for us to speak
// of.
func (t *Translator) PolicyStatus(key Key) []TargetStatus {
	return slices.Clone(t.statementOf(unit{kind: unitPolicy, namespace: key.Namespace, name: key.Name}).targets)
}

// ServiceStatus tells, as of the last Update, whether a Service or ServiceEntry has the waypoint that it asks for; false if it
// asks for none, or for another gateway.
func (t *Translator) ServiceStatus(key Key) (Condition, bool) {
	e := t.objects[key]
	if e == nil {
		return Condition{}, false
	}
	var hosts []string
	switch obj := e.obj.(type) {
	case *corev1.Service:
		hosts = []string{t.serviceHost(key.Namespace, key.Name)}
	case *networkingv1.ServiceEntry:
		hosts = obj.Spec.Hosts
	}
	for _, host := range hosts {
		for _, b := range t.statementOf(unit{kind: unitService, namespace: key.Namespace, name: host}).bound {
			if b.Object == key {
				return b.Bound, true
			}
		}
	}
	return Condition{}, false
}

// ListenerRoutes counts the routes at each listener of our Gateway as of the last Update, in its order.
func (t *Translator) ListenerRoutes() []ListenerRoutes {
	return slices.Clone(t.statementOf(unit{kind: unitListeners}).listeners)
}
