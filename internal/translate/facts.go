package translate

import (
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// fact is something by which objects are found. Objects are filed under facts; units look under them.
type fact struct {
	kind      factKind
	namespace string
	name      string
	value     string
	// presence is set for the look of a unit that cares only whether there is something under the fact.
	presence bool
}

type factKind uint8

const (
	// The object of kind value called namespace/name.
	factObject factKind = iota
	// Pods and WorkloadEntries of the namespace with label name=value.
	factLabel
	// Services and ServiceEntries of the namespace whose selector asks for label name=value. Each is filed under one label
	// of its selector only, so that a pod finds it by one look and another label's change does not touch it.
	factSelector
	// EndpointSlices of Service namespace/name.
	factSlicesOfService
	// EndpointSlices with an endpoint that is Pod namespace/name.
	factSlicesOfPod
	// Pods of the namespace with address name.
	factPodAddress
	// Services and ServiceEntries that declare host name; with an empty namespace: in any.
	factHost
	// Routes of kind value with the parent namespace/name, where name is "group/kind/name".
	factRoute
	// ReferenceGrants of the namespace.
	factGrant
	// Objects that ask for a waypoint by label.
	factUsesWaypoint
	// Services of the namespace.
	factServiceOf
	// AuthorizationPolicies of the namespace that ztunnels enforce, having no targetRefs.
	factPolicyOfPods
)

func objectFact(key Key) fact {
	return fact{kind: factObject, namespace: key.Namespace, name: key.Name, value: key.Kind}
}

// anything is the look under f that cares for presence only.
func (f fact) anything() fact {
	f.presence = true
	return f
}

// entry is one object as it was last set.
type entry struct {
	key Key
	obj Object
	// rejected is why obj cannot be trusted beyond what it is attached to; it has no good version and fails closed.
	rejected string
	// blind: not even what the rejected object is attached to could be read.
	blind bool
	filed []*node // where it is found
	units []unit  // that it asks for
}

// unit is one output: what is computed, kept and computed again as a whole.
type unit struct {
	kind      unitKind
	namespace string
	name      string
	route     string // kind of a route unit
}

type unitKind uint8

const (
	unitGateway        unitKind = iota
	unitListeners               // what is attached to the listeners of the Gateway
	unitService                 // namespace/host
	unitPod                     // the pod's workload
	unitWorkloadEntry           // the entry's workload
	unitEntryEndpoints          // the workloads written into a ServiceEntry
	unitSliceEndpoints          // the workloads of a Service's EndpointSlices that are no pods
	unitRoute
	unitPolicy
)

// key is the object that a unit of one object belongs to.
func (u unit) key() Key {
	switch u.kind {
	case unitPod:
		return Key{kindPod, u.namespace, u.name}
	case unitWorkloadEntry:
		return Key{kindWorkloadEntry, u.namespace, u.name}
	case unitEntryEndpoints:
		return Key{kindServiceEntry, u.namespace, u.name}
	case unitPolicy:
		return Key{kindAuthorizationPolicy, u.namespace, u.name}
	}
	return Key{u.route, u.namespace, u.name}
}

// facts are what e is found by. A rejected object is found by its name and by what it is attached to, no more.
func (m *Mesh) facts(e *entry) []fact {
	facts := []fact{objectFact(e.key)}
	if labels := e.obj.GetLabels(); labels[labelUseWaypoint] != "" || labels[labelUseWaypointCanary] != "" {
		facts = append(facts, fact{kind: factUsesWaypoint})
	}
	if parents, ok := routeParents(e.obj); ok {
		return append(facts, routeFacts(e.key, parents)...)
	}
	if e.rejected != "" {
		return facts
	}
	switch obj := e.obj.(type) {
	case *gatewayv1.ReferenceGrant:
		facts = append(facts, fact{kind: factGrant, namespace: obj.Namespace})
	case *corev1.Pod:
		facts = append(facts, podFacts(obj)...)
	case *corev1.Service:
		facts = append(facts, m.serviceFacts(obj)...)
	case *discoveryv1.EndpointSlice:
		facts = append(facts, sliceFacts(obj)...)
	case *networkingv1.ServiceEntry:
		facts = append(facts, serviceEntryFacts(obj)...)
	case *networkingv1.WorkloadEntry:
		facts = append(facts, labelFacts(obj.Namespace, workloadEntryLabels(obj))...)
	case *securityv1.AuthorizationPolicy:
		if refs, _ := targetsOf(obj); len(refs) == 0 {
			facts = append(facts, fact{kind: factPolicyOfPods, namespace: obj.Namespace})
		}
	}
	return facts
}

// unitsOf are the outputs that e asks for.
func (m *Mesh) unitsOf(e *entry) []unit {
	ns, name := e.key.Namespace, e.key.Name
	if _, ok := routeParents(e.obj); ok {
		return []unit{{unitRoute, ns, name, e.key.Kind}}
	}
	if _, ok := e.obj.(*securityv1.AuthorizationPolicy); ok {
		return []unit{{kind: unitPolicy, namespace: ns, name: name}}
	}
	if e.rejected != "" {
		return nil
	}
	switch obj := e.obj.(type) {
	case *corev1.Pod:
		return []unit{{kind: unitPod, namespace: ns, name: name}}
	case *corev1.Service:
		return []unit{{kind: unitService, namespace: ns, name: m.serviceHost(ns, name)}}
	case *discoveryv1.EndpointSlice:
		if service := obj.Labels[discoveryv1.LabelServiceName]; service != "" {
			return []unit{{kind: unitSliceEndpoints, namespace: ns, name: service}}
		}
	case *networkingv1.WorkloadEntry:
		return []unit{{kind: unitWorkloadEntry, namespace: ns, name: name}}
	case *networkingv1.ServiceEntry:
		units := []unit{{kind: unitEntryEndpoints, namespace: ns, name: name}}
		for _, host := range obj.Spec.Hosts {
			units = append(units, unit{kind: unitService, namespace: ns, name: host})
		}
		return units
	}
	return nil
}
