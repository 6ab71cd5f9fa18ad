package feed

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networkingapi "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Kinds gives an empty object of each kind that is followed: those of
// translate.Kinds.
func Kinds() []translate.Object {
	return []translate.Object{
		&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &discoveryv1.EndpointSlice{},
		&gatewayv1.GatewayClass{}, &gatewayv1.Gateway{},
		&gatewayv1.HTTPRoute{}, &gatewayv1.GRPCRoute{}, &gatewayv1.TCPRoute{}, &gatewayv1.TLSRoute{}, &gatewayv1.ReferenceGrant{},
		&networkingv1.ServiceEntry{}, &networkingv1.WorkloadEntry{}, &securityv1.AuthorizationPolicy{},
	}
}

// matters reports whether a change of an object can change what is translated.
// Kubelets touch Nodes and controllers statuses all the time.
func matters(before, after translate.Object) bool {
	if before == nil || before.GetUID() != after.GetUID() || !maps.Equal(before.GetLabels(), after.GetLabels()) {
		return true
	}
	switch after := after.(type) {
	case *corev1.Namespace, *corev1.Node:
		return false // nothing but labels is read
	case *corev1.Pod, *discoveryv1.EndpointSlice:
		return before.GetResourceVersion() != after.GetResourceVersion()
	case *corev1.Service: // has no generation, and conditions that we write ourselves
		return !equality.Semantic.DeepEqual(before.(*corev1.Service).Spec, after.Spec) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
	case *networkingv1.ServiceEntry: // istiod allocates addresses in the status
		if !slices.EqualFunc(before.(*networkingv1.ServiceEntry).Status.GetAddresses(), after.Status.GetAddresses(), sameAddress) {
			return true
		}
	}
	return before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

func sameAddress(a, b *networkingapi.ServiceEntryAddress) bool { return proto.Equal(a, b) }

// Trim drops from a Pod what nobody reads, which is most of it. It has the form of
// a transform of informers.
func Trim(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	p.ManagedFields = nil
	p.Spec = corev1.PodSpec{
		ServiceAccountName: p.Spec.ServiceAccountName, NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork,
		Containers: portsOf(p.Spec.Containers), InitContainers: portsOf(p.Spec.InitContainers),
	}
	p.Status = corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, Conditions: p.Status.Conditions}
	return p, nil
}

func portsOf(containers []corev1.Container) []corev1.Container {
	var trimmed []corev1.Container
	for _, c := range containers {
		trimmed = append(trimmed, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
	}
	return trimmed
}
