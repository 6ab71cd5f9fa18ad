package translate

import (
	"fmt"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Object is a typed Kubernetes object of one of Kinds.
type Object interface {
	metav1.Object
	runtime.Object
}

// Names of the kinds that are read.
const (
	kindNamespace           = "Namespace"
	kindNode                = "Node"
	kindPod                 = "Pod"
	kindService             = "Service"
	kindEndpointSlice       = "EndpointSlice"
	kindGatewayClass        = "GatewayClass"
	kindGateway             = "Gateway"
	kindHTTPRoute           = "HTTPRoute"
	kindGRPCRoute           = "GRPCRoute"
	kindTCPRoute            = "TCPRoute"
	kindTLSRoute            = "TLSRoute"
	kindReferenceGrant      = "ReferenceGrant"
	kindServiceEntry        = "ServiceEntry"
	kindWorkloadEntry       = "WorkloadEntry"
	kindAuthorizationPolicy = "AuthorizationPolicy"
)

// API groups of the kinds that are read, and of references between them.
const (
	groupCore       = ""
	groupDiscovery  = "discovery.k8s.io"
	groupGateway    = gatewayv1.GroupName
	groupNetworking = "networking.istio.io"
	groupSecurity   = "security.istio.io"
)

// Kind is a kind of object that is read.
type Kind struct {
	Group string
	Name  string
	// Versions whose fields are those of the Go type; an older version is read as the newest.
	Versions      []string
	ClusterScoped bool

	new func() Object
	// istio marks kinds whose spec is a protobuf message and follows the protobuf JSON rules.
	istio bool
}

var kinds = []Kind{
	{groupCore, kindNamespace, []string{"v1"}, true, func() Object { return &corev1.Namespace{} }, false},
	{groupCore, kindNode, []string{"v1"}, true, func() Object { return &corev1.Node{} }, false},
	{groupCore, kindPod, []string{"v1"}, false, func() Object { return &corev1.Pod{} }, false},
	{groupCore, kindService, []string{"v1"}, false, func() Object { return &corev1.Service{} }, false},
	{groupDiscovery, kindEndpointSlice, []string{"v1"}, false, func() Object { return &discoveryv1.EndpointSlice{} }, false},
	{groupGateway, kindGatewayClass, []string{"v1", "v1beta1"}, true, func() Object { return &gatewayv1.GatewayClass{} }, false},
	{groupGateway, kindGateway, []string{"v1", "v1beta1"}, false, func() Object { return &gatewayv1.Gateway{} }, false},
	{groupGateway, kindHTTPRoute, []string{"v1", "v1beta1"}, false, func() Object { return &gatewayv1.HTTPRoute{} }, false},
	{groupGateway, kindGRPCRoute, []string{"v1", "v1alpha2"}, false, func() Object { return &gatewayv1.GRPCRoute{} }, false},
	{groupGateway, kindTCPRoute, []string{"v1", "v1alpha2"}, false, func() Object { return &gatewayv1.TCPRoute{} }, false},
	{groupGateway, kindTLSRoute, []string{"v1", "v1alpha3", "v1alpha2"}, false, func() Object { return &gatewayv1.TLSRoute{} }, false},
	{
		groupGateway, kindReferenceGrant,
		[]string{"v1", "v1beta1", "v1alpha2"},
		false,
		func() Object { return &gatewayv1.ReferenceGrant{} }, false,
	},
	{
		groupNetworking, kindServiceEntry,
		[]string{"v1", "v1beta1", "v1alpha3"},
		false,
		func() Object { return &networkingv1.ServiceEntry{} }, true,
	},
	{
		groupNetworking, kindWorkloadEntry,
		[]string{"v1", "v1beta1", "v1alpha3"},
		false,
		func() Object { return &networkingv1.WorkloadEntry{} }, true,
	},
	{
		groupSecurity, kindAuthorizationPolicy,
		[]string{"v1", "v1beta1"},
		false,
		func() Object { return &securityv1.AuthorizationPolicy{} }, true,
	},
}

// Kinds lists the kinds that are read.
func Kinds() []Kind { return append([]Kind(nil), kinds...) }

// KeyOf is the key of a typed object. It panics for a type that is not among Kinds: a fault of the program.
func KeyOf(obj Object) Key {
	k := Key{Kind: kindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if k.Kind == "" {
		panic(fmt.Sprintf("translate: %T is not a kind that is read", obj))
	}
	return k
}

// kindOf goes by the Go type: objects from a cache carry no TypeMeta.
func kindOf(obj Object) string {
	switch obj.(type) {
	case *corev1.Namespace:
		return kindNamespace
	case *corev1.Node:
		return kindNode
	case *corev1.Pod:
		return kindPod
	case *corev1.Service:
		return kindService
	case *discoveryv1.EndpointSlice:
		return kindEndpointSlice
	case *gatewayv1.GatewayClass:
		return kindGatewayClass
	case *gatewayv1.Gateway:
		return kindGateway
	case *gatewayv1.HTTPRoute:
		return kindHTTPRoute
	case *gatewayv1.GRPCRoute:
		return kindGRPCRoute
	case *gatewayv1.TCPRoute:
		return kindTCPRoute
	case *gatewayv1.TLSRoute:
		return kindTLSRoute
	case *gatewayv1.ReferenceGrant:
		return kindReferenceGrant
	case *networkingv1.ServiceEntry:
		return kindServiceEntry
	case *networkingv1.WorkloadEntry:
		return kindWorkloadEntry
	case *securityv1.AuthorizationPolicy:
		return kindAuthorizationPolicy
	}
	return ""
}
