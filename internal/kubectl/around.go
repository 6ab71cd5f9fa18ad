package kubectl

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/status"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// labelIngress has Istio's ingress gateways send requests for a service to its
// waypoint.
const labelIngress = "istio.io/ingress-use-waypoint"

// around says what goes around a waypoint, and how it could be had not to.
func (w *world) around(g *gatewayv1.Gateway, ws *WaypointStatus) []string {
	if len(g.Status.Addresses) == 0 {
		return []string{"everything: the Gateway has no address as long as no pod of it has been ready, so services are reached without it"}
	}
	var list []string
	add := func(sentence string) {
		if sentence != "" && !slices.Contains(list, sentence) {
			list = append(list, sentence)
		}
	}
	us := gatewayOf(g)
	for _, obj := range w.objects {
		add(w.optOut(obj, us.String()))
		if s, ok := obj.(*corev1.Service); ok {
			if c, asks := w.asks(s, us); asks && c.Status {
				add(headless(s, ws.Traffic))
			}
		}
		for _, t := range w.report(obj).Targets {
			if t.Gateway == us && t.Around != "" {
				add(t.Around)
			}
		}
		for _, s := range w.ingress(obj, ws) {
			add(s)
		}
	}
	if len(ws.Services) > 0 {
		add(w.strangers())
	}
	return list
}

// optOut tells of a service that wants no waypoint, where its namespace has this
// one.
func (w *world) optOut(obj translate.Object, us string) string {
	if _, ok := obj.(*corev1.Service); !ok {
		return ""
	}
	ns := w.namespace(obj.GetNamespace())
	if ns == nil || waypointOf(ns) != us || waypointOf(obj) != "none" || obj.GetLabels()[gatewayv1.GatewayNameLabelKey] != "" {
		return ""
	}
	return fmt.Sprintf("%s, which is labelled %s=none", translate.KeyOf(obj), labelUse)
}

func (w *world) namespace(name string) *corev1.Namespace {
	ns, _ := w.byKey[translate.Key{Kind: "Namespace", Name: name}].(*corev1.Namespace)
	return ns // nil where there is none, or it may not be seen
}

// headless: clients of a service without an address of its own call its pods, which
// only a waypoint for workloads takes.
func headless(s *corev1.Service, traffic string) string {
	if s.Spec.ClusterIP != corev1.ClusterIPNone || traffic == "all" || traffic == "workload" {
		return ""
	}
	return fmt.Sprintf("calls to %s, which is headless, so that clients call its pods: a waypoint with %s=all takes these", translate.KeyOf(s), labelFor)
}

// ingress tells of a route by which another gateway sends requests to a service of
// the waypoint.
func (w *world) ingress(obj translate.Object, ws *WaypointStatus) (list []string) {
	refs, _ := status.RouteParts(obj)
	var gateways []string
	for _, ref := range refs {
		if name := w.otherGateway(ref, obj.GetNamespace()); name != "" {
			gateways = append(gateways, name)
		}
	}
	if len(gateways) == 0 {
		return nil
	}
	for _, b := range backendRefs(obj) {
		namespace := obj.GetNamespace()
		if b.Namespace != nil {
			namespace = string(*b.Namespace)
		}
		key := translate.Key{Kind: "Service", Namespace: namespace, Name: string(b.Name)}
		bound := slices.ContainsFunc(ws.Services, func(s Service) bool { return s.Bound && s.Object == key.String() })
		if bound && !w.ingressUses(key) {
			list = append(list, fmt.Sprintf("requests for %s that Gateway %s lets in by %s: where it is of Istio, "+
				"'kubectl label service %s -n %s %s=true' has it use the waypoint",
				key, strings.Join(gateways, " and "), translate.KeyOf(obj), key.Name, key.Namespace, labelIngress))
		}
	}
	return list
}

// otherGateway is the Gateway that a parentRef names, "namespace/name", if it is
// none for the mesh.
func (w *world) otherGateway(ref gatewayv1.ParentReference, namespace string) string {
	if ref.Kind != nil && *ref.Kind != "Gateway" {
		return ""
	}
	if ref.Namespace != nil {
		namespace = string(*ref.Namespace)
	}
	g, ok := w.byKey[translate.Key{Kind: "Gateway", Namespace: namespace, Name: string(ref.Name)}].(*gatewayv1.Gateway)
	if !ok || isWaypoint(g) {
		return ""
	}
	return namespace + "/" + g.Name
}

// isWaypoint goes by the protocol that clients in the mesh speak to it.
func isWaypoint(g *gatewayv1.Gateway) bool {
	return slices.ContainsFunc(g.Spec.Listeners, func(l gatewayv1.Listener) bool { return l.Protocol == "HBONE" })
}

// ingressUses reads the label of a Service, else of its Namespace.
func (w *world) ingressUses(key translate.Key) bool {
	value := ""
	if ns := w.namespace(key.Namespace); ns != nil {
		value = ns.Labels[labelIngress]
	}
	if s := w.byKey[key]; s != nil && s.GetLabels()[labelIngress] != "" {
		value = s.GetLabels()[labelIngress]
	}
	return value == "true"
}

// backendRefs are all of a route, whatever its kind.
func backendRefs(obj translate.Object) (refs []gatewayv1.BackendObjectReference) {
	switch obj := obj.(type) {
	case *gatewayv1.HTTPRoute:
		for _, rule := range obj.Spec.Rules {
			for _, b := range rule.BackendRefs {
				refs = append(refs, b.BackendObjectReference)
			}
		}
	case *gatewayv1.GRPCRoute:
		for _, rule := range obj.Spec.Rules {
			for _, b := range rule.BackendRefs {
				refs = append(refs, b.BackendObjectReference)
			}
		}
	case *gatewayv1.TCPRoute:
		for _, rule := range obj.Spec.Rules {
			for _, b := range rule.BackendRefs {
				refs = append(refs, b.BackendObjectReference)
			}
		}
	case *gatewayv1.TLSRoute:
		for _, rule := range obj.Spec.Rules {
			for _, b := range rule.BackendRefs {
				refs = append(refs, b.BackendObjectReference)
			}
		}
	}
	return refs
}

// strangers tells of clients outside of the mesh, and of those that have a sidecar,
// which does not use waypoints.
func (w *world) strangers() string {
	var names []string
	for _, obj := range w.objects {
		ns, ok := obj.(*corev1.Namespace)
		if ok && ns.Labels[labelDataplane] != ambient && !strings.HasPrefix(ns.Name, "kube-") {
			names = append(names, ns.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	const most = 5
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return fmt.Sprintf("calls from pods that are not in the ambient mesh or have a sidecar: namespaces without the label %s=%s are %s%s",
		labelDataplane, ambient, strings.Join(names, ", "), more)
}
