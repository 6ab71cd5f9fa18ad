package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// Labels of Istio and Kubernetes that steer a waypoint.
const (
	labelWaypointFor = "istio.io/waypoint-for"
	labelGatewayName = "gateway.networking.k8s.io/gateway-name"

	hbonePort                            = 15008
	hboneProtocol gatewayv1.ProtocolType = "HBONE"
)

// serves maps the values of istio.io/waypoint-for.
var serves = map[string]waypointv1.Gateway_Serves{
	"":         waypointv1.Gateway_SERVICES,
	"service":  waypointv1.Gateway_SERVICES,
	"workload": waypointv1.Gateway_WORKLOADS,
	"all":      waypointv1.Gateway_SERVICES_AND_WORKLOADS,
	"none":     waypointv1.Gateway_NOTHING,
}

// gateway is our own Gateway object; nil while there is none.
func (v *view) gateway() *gatewayv1.Gateway {
	e := v.get(kindGateway, v.options.GatewayNamespace, v.options.GatewayName)
	if e == nil || e.rejected != "" {
		return nil
	}
	return e.obj.(*gatewayv1.Gateway)
}

func (v *view) computeGateway() {
	g := v.gateway()
	if g == nil {
		return
	}
	r := v.about(KeyOf(g))
	if hboneListener(g) == nil {
		r.warnf("spec.listeners", `want one listener with port 15008 and protocol "HBONE"; served as if it were there`)
	}
	what, field := v.waypointFor(g)
	if _, ok := serves[what]; !ok {
		r.warnf(field, "must be service, workload, all or none, got %q; taken as service", what)
	}
	v.keep(r)
	v.emit(&waypointv1.Gateway{
		Namespace:          g.Namespace,
		Name:               g.Name,
		ClassName:          string(g.Spec.GatewayClassName),
		Hostname:           v.gatewayHost(),
		TrustDomain:        v.options.TrustDomain,
		TrustDomainAliases: v.options.TrustDomainAliases,
		Serves:             serves[what],
		Locality:           v.locality(v.options.Node),
		Node:               v.options.Node,
	})
}

// waypointFor is what the Gateway, else its class, says in istio.io/waypoint-for, and where it was said.
func (v *view) waypointFor(g *gatewayv1.Gateway) (value string, field path) {
	field = path("metadata.labels").key(labelWaypointFor)
	if value, ok := g.Labels[labelWaypointFor]; ok {
		return value, field
	}
	if class := v.get(kindGatewayClass, "", string(g.Spec.GatewayClassName)); class != nil {
		return class.obj.GetLabels()[labelWaypointFor], field
	}
	return "", field
}

func (v *view) gatewayHost() string {
	return v.serviceHost(v.options.GatewayNamespace, v.options.GatewayName)
}

// hboneListener is the listener whose allowedRoutes tell who may attach; nil if there is none.
func hboneListener(g *gatewayv1.Gateway) *gatewayv1.Listener {
	i := slices.IndexFunc(g.Spec.Listeners, func(l gatewayv1.Listener) bool {
		return l.Port == hbonePort && l.Protocol == hboneProtocol
	})
	if i < 0 {
		return nil
	}
	return &g.Spec.Listeners[i]
}

// listenerAllows applies allowedRoutes.namespaces; a nil listener has the default, which is Same.
func (v *view) listenerAllows(g *gatewayv1.Gateway, l *gatewayv1.Listener, namespace string) bool {
	from := gatewayv1.NamespacesFromSame
	var selector *metav1.LabelSelector
	if l != nil && l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil {
		selector = l.AllowedRoutes.Namespaces.Selector
		if l.AllowedRoutes.Namespaces.From != nil {
			from = *l.AllowedRoutes.Namespaces.From
		}
	}
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == g.Namespace
	case gatewayv1.NamespacesFromSelector:
		return v.namespaceMatches(selector, namespace)
	}
	return false
}

func (v *view) namespaceMatches(selector *metav1.LabelSelector, namespace string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false // refused by validation already
	}
	set := labels.Set{corev1.LabelMetadataName: namespace}
	if n := v.get(kindNamespace, "", namespace); n != nil {
		for k, value := range n.obj.GetLabels() {
			set[k] = value
		}
	}
	return s.Matches(set)
}

// locality reads the topology labels of a Node; nil if nothing is known of it.
func (v *view) locality(node string) *workload.Locality {
	if node == "" {
		return nil
	}
	n := v.get(kindNode, "", node)
	if n == nil {
		return nil
	}
	l := n.obj.GetLabels()
	return localityOf(l[corev1.LabelTopologyRegion], l[corev1.LabelTopologyZone], l["topology.istio.io/subzone"])
}

// parseLocality reads Istio's "region/zone/subzone".
func parseLocality(s string) *workload.Locality {
	parts := append(strings.SplitN(s, "/", 3), "", "")
	return localityOf(parts[0], parts[1], parts[2])
}

func localityOf(region, zone, subzone string) *workload.Locality {
	if region == "" && zone == "" && subzone == "" {
		return nil
	}
	return &workload.Locality{Region: region, Zone: zone, Subzone: subzone}
}
