package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// cluster is a Kubernetes API with a mesh behind it. What is created through it
// becomes pods, addresses and configuration at once.
type cluster struct {
	client.WithWatch

	t        *testing.T
	mesh     *meshtest.Mesh
	waypoint *meshtest.Waypoint
	log      *meshtest.Buffer // of the controller

	mu      sync.Mutex // guards all below
	pods    byte       // how many there have been
	vips    byte       // likewise, of Services
	clients map[string]*meshtest.Client
}

// TestMeshConformance is the suite against a waypoint in this process.
func TestMeshConformance(t *testing.T) {
	c := newCluster(t)
	Run(t, Mesh{API: c, Dial: c.dial})
}

// newCluster makes a cluster with a controller, and a waypoint that has its
// configuration from there.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, mesh: meshtest.New(t), log: new(meshtest.Buffer), clients: make(map[string]*meshtest.Client)}
	c.WithWatch = interceptor.NewClient(fake.NewClientBuilder().
		WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).
		WithStatusSubresource(&gatewayv1.HTTPRoute{}, &gatewayv1.GRPCRoute{}, &gatewayv1.TCPRoute{}, &gatewayv1.TLSRoute{}, &securityv1.AuthorizationPolicy{}).
		Build(), interceptor.Funcs{Create: c.create})
	controller := c.startController()
	c.mustCreate(
		&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "waypoint"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gateway.ControllerName}},
		&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: Waypoint, Namespace: Namespace}, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "waypoint",
			Listeners:        []gatewayv1.Listener{{Name: "mesh", Port: 15008, Protocol: "HBONE"}},
		}},
	)
	c.startWaypoint(controller)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller's log:\n%s\nthe waypoint's log:\n%.20000s", c.log, c.waypoint.Log)
		}
	})
	return c
}

func (c *cluster) mustCreate(objects ...client.Object) {
	c.t.Helper()
	for _, obj := range objects {
		if err := c.Create(c.t.Context(), obj); err != nil {
			c.t.Fatal(err)
		}
	}
}

// create does what the API server and the controllers of a cluster do beside
// storing an object.
func (c *cluster) create(ctx context.Context, api client.WithWatch, obj client.Object, options ...client.CreateOption) error {
	obj, err := typed(api.Scheme(), obj)
	if err != nil {
		return err
	}
	obj.SetUID(uuid.NewUUID()) // by which one that comes after one of the same name is told from it
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now()))
	service, isService := obj.(*corev1.Service)
	if isService {
		c.complete(service)
	}
	if err := api.Create(ctx, obj, options...); err != nil {
		return err
	}
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return api.Create(ctx, c.startPod(obj))
	case *corev1.Service:
		return c.createSlice(ctx, api, obj)
	}
	return nil
}

// typed gives the Go type of an object that the suite read from YAML.
func typed(scheme *runtime.Scheme, obj client.Object) (client.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	empty, err := scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return empty.(client.Object), runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, empty)
}

// complete fills in what the API server does.
func (c *cluster) complete(s *corev1.Service) {
	c.mu.Lock()
	c.vips++
	s.Spec.ClusterIP = fmt.Sprintf("10.96.0.%d", c.vips)
	c.mu.Unlock()
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
}

// startPod is a Deployment's one pod, with an application and a node proxy at its
// address.
func (c *cluster) startPod(d *appsv1.Deployment) *corev1.Pod {
	c.mu.Lock()
	c.pods++
	host := c.pods
	c.mu.Unlock()
	name := fmt.Sprintf("%s-%s-%05d", d.Name, "6d4b8c7f9d", host) // the suite takes the last two parts off
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: d.Namespace, Labels: d.Spec.Template.Labels,
			Annotations: map[string]string{"ambient.istio.io/redirection": "enabled"},
		},
		Spec: d.Spec.Template.Spec,
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: c.mesh.IP(host), PodIPs: []corev1.PodIP{{IP: c.mesh.IP(host)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	pod.Spec.ServiceAccountName, pod.Spec.NodeName = "default", "node"
	c.mesh.HTTP(name, c.mesh.Addr(host, httpPort)).Handle(echo)
	c.serveGRPC(name, c.mesh.Addr(host, grpcPort))
	c.mesh.NodeProxy(c.mesh.IP(host), identityOf(pod))
	return pod
}

func identityOf(pod *corev1.Pod) string {
	return "spiffe://cluster.local/ns/" + pod.Namespace + "/sa/" + pod.Spec.ServiceAccountName
}

// createSlice makes the EndpointSlice of a Service. The pods that it selects are
// those that there are already: the suite's Deployments come before their Services.
func (c *cluster) createSlice(ctx context.Context, api client.WithWatch, s *corev1.Service) error {
	var pods corev1.PodList
	selector := client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(s.Spec.Selector)}
	if err := api.List(ctx, &pods, client.InNamespace(s.Namespace), selector); err != nil {
		return err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: s.Name + "-1", Namespace: s.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, p := range s.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: new(p.TargetPort.IntVal), Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	for _, pod := range pods.Items {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod.Status.PodIP}, NodeName: &pod.Spec.NodeName,
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
		})
	}
	return api.Create(ctx, slice)
}

// dial is what the node proxy of a pod does: to the address of a Service it opens a
// stream through the Service's waypoint, to that of a pod one through the pod's node
// proxy.
func (c *cluster) dial(ctx context.Context, from *corev1.Pod, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return c.workload(from).Dial(ctx, net.JoinHostPort(host, "15008"), target)
	}
	name, in, qualified := strings.Cut(host, ".")
	if !qualified {
		in = from.Namespace
	}
	var service corev1.Service
	var owner corev1.Namespace
	if err := errors.Join(c.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, &service), c.Get(ctx, client.ObjectKey{Name: in}, &owner)); err != nil {
		return nil, err
	}
	if owner.Labels[labelUseWaypoint] != Waypoint {
		return nil, fmt.Errorf("namespace %s does not use the waypoint", in)
	}
	return c.workload(from).Dial(ctx, c.waypoint.Addr, net.JoinHostPort(service.Spec.ClusterIP, port))
}

// workload is the client of a pod, whose tunnels are kept.
func (c *cluster) workload(pod *corev1.Pod) *meshtest.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.clients[pod.Status.PodIP]
	if w == nil {
		w = c.mesh.Client(identityOf(pod))
		w.From = pod.Status.PodIP
		c.clients[pod.Status.PodIP] = w
	}
	return w
}
