package translate

import (
	"fmt"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// Labels by which a Service, ServiceEntry, WorkloadEntry or Pod, or its Namespace, asks for a waypoint. The canary is a second
// waypoint of a service, to which clients send a share of their connections; how large a share is for them to read.
const (
	labelUseWaypoint                = "istio.io/use-waypoint"
	labelUseWaypointNamespace       = "istio.io/use-waypoint-namespace"
	labelUseWaypointCanary          = "istio.io/use-waypoint-canary"
	labelUseWaypointCanaryNamespace = "istio.io/use-waypoint-canary-namespace"
	optOut                          = "none"
)

// waypointOf is the address of our gateway if it fronts obj, a Service, ServiceEntry (services) or Pod, WorkloadEntry
// (workloads), else nil.
func (v *view) waypointOf(obj Object, services bool) *workload.GatewayAddress {
	if !v.attached(obj, services) {
		return nil
	}
	return &workload.GatewayAddress{
		Destination: &workload.GatewayAddress_Hostname{Hostname: &workload.NamespacedHostname{
			Namespace: v.options.GatewayNamespace,
			Hostname:  v.gatewayHost(),
		}},
		HboneMtlsPort: hbonePort,
	}
}

func (v *view) attached(obj Object, services bool) bool {
	g := v.gateway()
	if g == nil || !v.servesThat(g, services) || obj.GetLabels()[labelGatewayName] != "" {
		return false
	}
	if v.unlabelled() {
		return obj.GetNamespace() == g.Namespace
	}
	return v.asksForUs(obj) && v.mayAttach(g, obj.GetNamespace())
}

// unlabelled: nothing asks for a waypoint, and that is to mean that everything does.
func (v *view) unlabelled() bool {
	return v.options.UnlabelledMeansAll && !v.any(fact{kind: factUsesWaypoint})
}

func (v *view) servesThat(g *gatewayv1.Gateway, services bool) bool {
	what, _ := v.waypointFor(g)
	switch serves[what] {
	case waypointv1.Gateway_SERVICES:
		return services
	case waypointv1.Gateway_WORKLOADS:
		return !services
	case waypointv1.Gateway_SERVICES_AND_WORKLOADS:
		return true
	}
	return false
}

// choice is what labels ask for: a Gateway, or none if the name is empty.
type choice struct{ namespace, name string }

func (c choice) String() string { return c.namespace + "/" + c.name }

func (v *view) asksForUs(obj Object) bool {
	us := choice{v.options.GatewayNamespace, v.options.GatewayName}
	waypoint, canary := v.chosen(obj)
	return waypoint == us || canary == us
}

// chosen is what the labels of obj, else of its Namespace, ask for. An object's label that names a waypoint which is not
// there does not fall back to the Namespace's. The Namespace's canary goes with the Namespace's waypoint.
func (v *view) chosen(obj Object) (waypoint, canary choice) {
	own, namespace := obj.GetLabels(), obj.GetNamespace()
	waypoint = choiceIn(own, labelUseWaypoint, labelUseWaypointNamespace, namespace)
	if canBeSplit(obj) {
		canary = choiceIn(own, labelUseWaypointCanary, labelUseWaypointCanaryNamespace, namespace)
	}
	if own[labelUseWaypoint] != "" {
		return waypoint, canary
	}
	n := v.get(kindNamespace, "", namespace)
	if n == nil {
		return waypoint, canary
	}
	inherited := n.obj.GetLabels()
	waypoint = choiceIn(inherited, labelUseWaypoint, labelUseWaypointNamespace, namespace)
	if canBeSplit(obj) && own[labelUseWaypointCanary] == "" {
		canary = choiceIn(inherited, labelUseWaypointCanary, labelUseWaypointCanaryNamespace, namespace)
	}
	return waypoint, canary
}

// canBeSplit: only services have canaries, workloads do not.
func canBeSplit(obj Object) bool {
	switch obj.(type) {
	case *corev1.Service, *networkingv1.ServiceEntry:
		return true
	}
	return false
}

func choiceIn(labels map[string]string, nameLabel, namespaceLabel, namespace string) choice {
	name := labels[nameLabel]
	if name == "" || name == optOut {
		return choice{}
	}
	if ns := labels[namespaceLabel]; ns != "" {
		namespace = ns
	}
	return choice{namespace, name}
}

// Reasons why a service has no waypoint, or not the one that it asks for. Those that Istio has are called as there.
const (
	reasonNoLabel     = "MissingUseWaypointLabel"
	reasonNotFound    = "WaypointNotFound"
	reasonDenied      = "AttachmentDenied"
	reasonTrafficType = "UnsupportedTrafficType"
)

// detour is why calls to a service go around the waypoint that it asks for, or around all.
type detour struct {
	reason      string // empty: they do not, or it is for another gateway to say
	fault, cure string
	// ours: it is our gateway that they go around. What is nobody's every gateway finds alike.
	ours bool
}

// problem is a detour told of an object, with what follows from it.
func (d detour) problem(object Key, at path, consequence string) Problem {
	return Problem{object, string(at), d.fault + consequence, d.cure, Warning}
}

// detourOf looks for the reason why a service is not attached to us.
func (v *view) detourOf(obj Object) detour {
	if v.attached(obj, true) || obj.GetLabels()[labelGatewayName] != "" {
		return detour{}
	}
	waypoint, canary := v.chosen(obj)
	if waypoint.name == "" && canary.name == "" {
		return detour{reason: reasonNoLabel, fault: KeyOf(obj).String() + " has no waypoint", cure: "label it " + labelUseWaypoint}
	}
	d := v.detourAround(obj, waypoint)
	if canary.name != "" && (d.reason == "" || !d.ours && v.get(kindGateway, canary.namespace, canary.name) != nil) {
		return v.detourAround(obj, canary) // whose gateway speaks
	}
	return d
}

func (v *view) detourAround(obj Object, c choice) detour {
	if c.name == "" {
		return detour{}
	}
	e := v.get(kindGateway, c.namespace, c.name)
	switch {
	case e == nil && v.options.UnlabelledMeansAll && obj.GetLabels()[labelUseWaypoint] == "":
		return detour{} // what the Namespace asks for may be in another folder
	case e == nil:
		return detour{
			reason: reasonNotFound,
			fault:  fmt.Sprintf("Gateway %s, which %s asks for by label, does not exist", c, KeyOf(obj)),
		}
	case e.rejected != "" || c != choice{v.options.GatewayNamespace, v.options.GatewayName}:
		return detour{}
	}
	g := e.obj.(*gatewayv1.Gateway)
	if !v.mayAttach(g, obj.GetNamespace()) {
		return detour{
			reason: reasonDenied, ours: true,
			fault: fmt.Sprintf("Gateway %s does not let namespace %s use it", c, obj.GetNamespace()),
			cure:  "allow it in allowedRoutes of the Gateway's listener",
		}
	}
	what, _ := v.waypointFor(g)
	return detour{
		reason: reasonTrafficType, ours: true,
		fault: fmt.Sprintf("Gateway %s has %s=%s and does not serve Services", c, labelWaypointFor, what),
		cure:  "set " + labelWaypointFor + "=service, or all",
	}
}

// mayAttach tells whether objects of a namespace may use the gateway or attach routes to it.
func (v *view) mayAttach(g *gatewayv1.Gateway, namespace string) bool {
	return v.listenerAllows(g, hboneListener(g), namespace)
}

// bind says whether a service has the waypoint that it asks for. Nothing is said of one that asks for none, or for that of
// another gateway.
func (v *view) bind(obj Object, r *report) {
	d := v.detourOf(obj)
	if waypoint, canary := v.chosen(obj); d.reason == "" && canary.name != "" {
		d = v.detourAround(obj, waypoint) // the canary gets its share, the rest goes around
	}
	switch {
	case d.reason == "" && v.attached(obj, true):
		v.statement().bound = append(v.statement().bound, BoundStatus{KeyOf(obj), Condition{
			true, "WaypointAccepted", "Served by the waypoint " + v.options.GatewayNamespace + "/" + v.options.GatewayName,
		}})
	case d.reason == "" || d.reason == reasonNoLabel:
	default:
		p := d.problem(r.object, path("metadata.labels").key(labelUseWaypoint), ", so it has no waypoint")
		r.add(p)
		v.statement().bound = append(v.statement().bound, BoundStatus{KeyOf(obj), Condition{false, d.reason, p.because()}})
	}
}
