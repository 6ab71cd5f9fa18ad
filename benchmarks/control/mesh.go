package control

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// namespace is that of the waypoint and its services: the one that
	// certificates of the benchmark's network are for.
	namespace = "default"
	// elsewhere is a namespace without a waypoint.
	elsewhere = "elsewhere"
	// waypoint is the name of the Gateway.
	waypoint = "waypoint"

	port = 8080
	// atOnce is how many requests are made to the API server at a time.
	atOnce = 16
)

func service(ns string, i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name(i)},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name(i)},
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, AppProtocol: new("http")}},
		},
	}
}

func name(i int) string { return fmt.Sprintf("s%d", i) }

// pod is the endpoint of a service. All stand for the one that the benchmark's
// network has.
func pod(ns string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name(i), Labels: map[string]string{"app": name(i)},
			Annotations: map[string]string{"ambient.istio.io/redirection": "enabled"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, NodeName: "node-1", AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "app", Image: "example.invalid/app"}},
		},
	}
}

// account is the service account that the node proxy has a certificate of.
const account = "reviews"

func ready(p *corev1.Pod, ip string) {
	p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func slice(ns string, i int, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: ns, Name: name(i), Labels: map[string]string{discoveryv1.LabelServiceName: name(i)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(port))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: name(i)},
		}},
	}
}

func route(routeName string, serviceNumber int, match gatewayv1.HTTPRouteMatch) *gatewayv1.HTTPRoute {
	parent := gatewayv1.ParentReference{Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")), Name: gatewayv1.ObjectName(name(serviceNumber))}
	backend := gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name(serviceNumber)), Port: new(gatewayv1.PortNumber(port))}
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: routeName},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}},
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches:     []gatewayv1.HTTPRouteMatch{match},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: backend}}},
			}},
		},
	}
}

// numbered is route i of the mesh: one of its service, by path and a header.
func numbered(i, services int) *gatewayv1.HTTPRoute {
	return route(fmt.Sprintf("r%d", i), i%services, gatewayv1.HTTPRouteMatch{
		Path:    &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(fmt.Sprintf("/r%d/items", i))},
		Headers: []gatewayv1.HTTPHeaderMatch{{Name: "x-tenant", Value: fmt.Sprintf("t%d", i)}},
	})
}

// versioned is the route that is changed: it has requests for /version carry
// x-version: n.
func versioned(n int) *gatewayv1.HTTPRoute {
	r := route("version", 0, gatewayv1.HTTPRouteMatch{
		Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchExact), Value: new("/version")},
	})
	r.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{
		Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier,
		RequestHeaderModifier: &gatewayv1.HTTPHeaderFilter{
			Set: []gatewayv1.HTTPHeader{{Name: "x-version", Value: fmt.Sprint(n)}},
		},
	}}
	return r
}

func gatewayOf(ns string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: waypoint},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "waypoint",
			Listeners:        []gatewayv1.Listener{{Name: "mesh", Port: 15008, Protocol: "HBONE"}},
		},
	}
}

// create makes an object that may be there already.
func create(ctx context.Context, c client.Client, obj client.Object) error {
	err := c.Create(ctx, obj)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// each calls fn for 0 to n-1, some at a time, and returns the first error.
func each(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
