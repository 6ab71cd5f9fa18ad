package kubectl

import (
	"context"
	"fmt"
	"slices"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Status is what became of waypoints, and of what was meant for them.
type Status struct {
	Waypoints []WaypointStatus `json:"waypoints"`
	// Idle does nothing: routes and policies of the namespaces concerned that no
	// waypoint has, and services that ask for one which is not there.
	Idle []Finding `json:"idle"`
	// Unseen is what the user may not see, so that some of this may be wrong.
	Unseen []string `json:"unseen,omitempty"`
}

// WaypointStatus is what became of one waypoint.
type WaypointStatus struct {
	Listed
	Conditions []Condition `json:"conditions"`
	NotReady   []Finding   `json:"notReady,omitempty"` // pods
	Services   []Service   `json:"services"`
	Routes     []Route     `json:"routes"`
	Policies   []Policy    `json:"policies"`
	// Around says in sentences what goes around the waypoint.
	Around []string `json:"around,omitempty"`
}

// Condition is one condition of a status, in the words of the controller.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Service is a Service or ServiceEntry that asks for the waypoint.
type Service struct {
	Object  string `json:"object"` // "Service shop/cart"
	Bound   bool   `json:"bound"`
	Message string `json:"message"` // why it is not
}

// Route is a route at one parent whose waypoint it is.
type Route struct {
	Object     string      `json:"object"` // "HTTPRoute shop/cart"
	Parent     string      `json:"parent"` // "Service shop/cart"
	Conditions []Condition `json:"conditions"`
}

// Policy is an AuthorizationPolicy that the waypoint enforces, at one of its targets
// at least.
type Policy struct {
	Object    string    `json:"object"` // "AuthorizationPolicy shop/cart"
	Condition Condition `json:"condition"`
}

// Finding is a sentence about an object.
type Finding struct {
	Object  string `json:"object"`
	Message string `json:"message"`
}

// Status tells what became of waypoints: of those given, as Waypoints lists them.
// What is said of objects is what the controller says of them as they are now.
func (c *Cluster) Status(ctx context.Context, gateways []gatewayv1.Gateway, m Mesh) (*Status, error) {
	w, err := c.look(ctx, m)
	if err != nil {
		return nil, err
	}
	s := &Status{Waypoints: []WaypointStatus{}, Idle: []Finding{}, Unseen: w.unseen}
	concerned := make(map[string]bool)
	for i := range gateways {
		g := &gateways[i]
		ws := w.waypoint(g)
		switch pods, err := c.Pods(ctx, g); {
		case apierrors.IsForbidden(err):
			s.Unseen = append(s.Unseen, "Pods of "+g.Namespace)
		case err != nil:
			return nil, err
		default:
			ws.count(pods)
		}
		s.Waypoints = append(s.Waypoints, ws)
		concerned[g.Namespace] = true
		for _, obj := range w.objects {
			if _, ok := w.asks(obj, gatewayOf(g)); ok {
				concerned[obj.GetNamespace()] = true
			}
		}
	}
	for _, obj := range w.objects {
		if concerned[obj.GetNamespace()] {
			s.Idle = append(s.Idle, w.idle(obj)...)
		}
	}
	return s, nil
}

func gatewayOf(g *gatewayv1.Gateway) discovery.Gateway {
	return discovery.Gateway{Namespace: g.Namespace, Name: g.Name}
}

// count takes over what is to be said of pods.
func (ws *WaypointStatus) count(pods []corev1.Pod) {
	ws.Pods = len(pods)
	for i := range pods {
		if ready(&pods[i]) {
			ws.Ready++
		} else {
			ws.NotReady = append(ws.NotReady, Finding{"Pod " + pods[i].Namespace + "/" + pods[i].Name, podState(&pods[i])})
		}
	}
}

// waypoint is what there is to say of one waypoint, its pods apart.
func (w *world) waypoint(g *gatewayv1.Gateway) WaypointStatus {
	ws := WaypointStatus{
		Listed: summary(g, w.classes[string(g.Spec.GatewayClassName)]), Conditions: conditionsOf(byType(g.Status.Conditions)),
		Services: []Service{}, Routes: []Route{}, Policies: []Policy{},
	}
	us := gatewayOf(g)
	for _, obj := range w.objects {
		key := translate.KeyOf(obj)
		r := w.report(obj)
		switch obj.(type) {
		case *corev1.Service, *networkingv1.ServiceEntry:
			if c, ok := w.asks(obj, us); ok {
				ws.Services = append(ws.Services, Service{key.String(), c.Status, c.Message})
			}
		case *securityv1.AuthorizationPolicy:
			if slices.ContainsFunc(r.Targets, func(t feed.Target) bool { return t.Gateway == us && t.Enforced() }) {
				ws.Policies = append(ws.Policies, Policy{key.String(), said(r)})
			}
		default:
			ws.Routes = append(ws.Routes, routesAt(us, r)...)
		}
	}
	ws.Around = w.around(g, &ws)
	return ws
}

// notFound is the reason, Istio's, of a service that asks for what is not there.
// All Gateways say it alike.
const notFound = "WaypointNotFound"

// asks tells whether a service has the waypoint that it asks for; false if it does
// not ask for this one.
func (w *world) asks(obj translate.Object, us discovery.Gateway) (translate.Condition, bool) {
	c, ok := w.report(obj).Asks[us]
	return c, ok && c.Reason != notFound
}

// routesAt lists the parents of a route that are the waypoint's.
func routesAt(us discovery.Gateway, r feed.Report) (list []Route) {
	refs, entries := status.RouteParts(r.Object)
	if len(r.Parents) == 0 {
		return nil
	}
	now, _ := status.Updated(gateway.ControllerName, r, nil)
	_, updated := status.RouteParts(now)
	for _, p := range r.Parents {
		if p.Gateway != us || p.Nobodys {
			continue
		}
		said := entryAt(updated, refs[p.Ref])
		if before := entryAt(entries, refs[p.Ref]); refusedByWaypoint(before, r.Object) {
			said = before // which is not for us to know better
		}
		list = append(list, Route{translate.KeyOf(r.Object).String(), parentName(refs[p.Ref], r.Object.GetNamespace()), conditionsOf(said)})
	}
	return list
}

// entryAt gives our conditions for a parent.
func entryAt(s *gatewayv1.RouteStatus, ref gatewayv1.ParentReference) []metav1.Condition {
	for _, p := range s.Parents {
		if p.ControllerName == gateway.ControllerName && parentName(p.ParentRef, "") == parentName(ref, "") {
			return p.Conditions
		}
	}
	return nil
}

func refusedByWaypoint(conditions []metav1.Condition, obj translate.Object) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Reason == status.ReasonByWaypoint && c.ObservedGeneration == obj.GetGeneration()
	})
}

// parentName is a parentRef in words: "Service shop/cart:80".
func parentName(ref gatewayv1.ParentReference, namespace string) string {
	kind := "Gateway"
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if ref.Namespace != nil {
		namespace = string(*ref.Namespace)
	}
	text := kind + " " + namespace + "/" + string(ref.Name)
	if ref.Port != nil {
		text += fmt.Sprintf(":%d", *ref.Port)
	}
	if ref.SectionName != nil {
		text += " (" + string(*ref.SectionName) + ")"
	}
	return text
}

// said is our condition for a policy, empty where we have none.
func said(r feed.Report) Condition {
	now, _ := status.Updated(gateway.ControllerName, r, nil)
	c := policyCondition(now)
	if before := policyCondition(r.Object); before.Reason == status.ReasonByWaypoint && before.generation == r.Object.GetGeneration() {
		c = before // as for routes
	}
	return c.Condition
}

type policyCond struct {
	Condition
	generation int64
}

func policyCondition(obj translate.Object) (p policyCond) {
	for _, c := range obj.(*securityv1.AuthorizationPolicy).Status.GetConditions() {
		if c.GetType() == status.PolicyCondition {
			p = policyCond{Condition{c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage()}, c.GetObservedGeneration()}
		}
	}
	return p
}

func conditionsOf(list []metav1.Condition) []Condition {
	out := make([]Condition, 0, len(list))
	for _, c := range list {
		out = append(out, Condition{c.Type, string(c.Status), c.Reason, c.Message})
	}
	return out
}

// idle says what an object was meant to do that nobody does.
func (w *world) idle(obj translate.Object) (findings []Finding) {
	r := w.report(obj)
	add := func(message string) { findings = append(findings, Finding{translate.KeyOf(obj).String(), message}) }
	switch obj := obj.(type) {
	case *corev1.Service, *networkingv1.ServiceEntry:
		if r.Bound != nil && r.Bound.Reason == notFound {
			add(r.Bound.Message)
		}
	case *securityv1.AuthorizationPolicy:
		if !slices.ContainsFunc(r.Targets, func(t feed.Target) bool { return t.Enforced() }) {
			if c := said(r); c.Message != "" {
				add(c.Message)
			}
		}
		for _, c := range obj.Status.GetConditions() {
			if c.GetType() == "ZtunnelAccepted" && c.GetReason() == "UnsupportedValue" {
				add("istiod: " + c.GetMessage()) // it has no targetRefs, so ztunnels have it, without what they cannot do
			}
		}
	default:
		refs, _ := status.RouteParts(obj)
		for _, p := range r.Parents {
			if p.Nobodys {
				add(parentName(refs[p.Ref], obj.GetNamespace()) + ": " + p.Accepted.Message)
			}
		}
	}
	return findings
}
