package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const waypointGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: NS}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}`

// readyPod stands in for what kubelet and the EndpointSlice controller would do.
const readyPod = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: waypoint-1, namespace: NS, labels: {kubernetes.io/service-name: waypoint}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.9], conditions: {ready: %t}}]
ports: [{name: mesh, port: 15008}]`

// gatewaySays waits for a condition of the story's Gateway.
func (s *story) gatewaySays(want, message string) gatewayv1.Gateway {
	s.Helper()
	var g gatewayv1.Gateway
	s.Eventually("the Gateway says "+want, func() error {
		if err := s.Get("waypoint", &g); err != nil {
			return err
		}
		return expect(g.Status.Conditions, want, message)
	})
	return g
}

func TestClassIsAccepted(t *testing.T) {
	s := newStory(t)
	s.Eventually("the class is accepted", func() error {
		var class gatewayv1.GatewayClass
		if err := s.server.Client.Get(s.Context(), client.ObjectKey{Name: "waypoint"}, &class); err != nil {
			return err
		}
		if len(class.Status.SupportedFeatures) == 0 {
			return errors.New("no supported features")
		}
		return expect(class.Status.Conditions, "Accepted True Accepted", "Served by")
	})
}

func TestGatewayIsDeployed(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	g := s.gatewaySays("Programmed False AddressNotAssigned", "Waiting for a pod")
	if err := expect(g.Status.Conditions, "Accepted True Accepted", "Served by"); err != nil {
		t.Error(err)
	}
	objects := map[string]client.Object{
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{},
	}
	for kind, obj := range objects {
		if err := s.Get("waypoint", obj); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if owner := metav1.GetControllerOf(obj); owner == nil || owner.UID != g.UID {
			t.Errorf("%s is owned by %v", kind, owner)
		}
	}
	var roots corev1.ConfigMap
	if err := s.Get("waypoint-controller-roots", &roots); err != nil || !strings.Contains(roots.Data["root.pem"], "BEGIN CERTIFICATE") {
		t.Errorf("the controller's roots: %v %v", roots.Data, err)
	}

	s.Apply(fmt.Sprintf(readyPod, true))
	g = s.gatewaySays("Programmed True Programmed", "waypoint."+s.ns+".svc.cluster.local")
	if len(g.Status.Addresses) != 2 || *g.Status.Addresses[0].Type != gatewayv1.HostnameAddressType ||
		g.Status.Addresses[1].Value != objects["Service"].(*corev1.Service).Spec.ClusterIP {
		t.Errorf("addresses %+v", g.Status.Addresses)
	}
	// The address stays without a ready pod: traffic is not to go around.
	s.Apply(fmt.Sprintf(readyPod, false))
	g = s.gatewaySays("Programmed False AddressNotUsable", "rather than go around")
	if len(g.Status.Addresses) != 2 {
		t.Errorf("addresses %+v", g.Status.Addresses)
	}
	if err := expect(g.Status.Listeners[0].Conditions, "Programmed True Programmed", ""); err != nil {
		t.Error(err)
	}
}

func TestDriftIsMended(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	s.gatewaySays("Programmed False AddressNotAssigned", "")
	s.Apply(`apiVersion: apps/v1
kind: Deployment
metadata: {name: waypoint, namespace: NS}
spec: {replicas: 3, template: {spec: {terminationGracePeriodSeconds: 1}}}`)
	var d appsv1.Deployment
	s.Eventually("what is ours comes back", func() error {
		if err := s.Get("waypoint", &d); err != nil {
			return err
		}
		if got := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; got == 1 {
			return fmt.Errorf("terminationGracePeriodSeconds is %d", got)
		}
		return nil
	})
	if *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas: their number is not ours to say", *d.Spec.Replicas)
	}
	s.Delete(&corev1.Service{}, "waypoint")
	s.Eventually("the Service is made again", func() error { return s.Get("waypoint", &corev1.Service{}) })
}

func TestForeignObjectsAreNotTouched(t *testing.T) {
	s := newStory(t)
	s.Apply(`apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: NS}
spec: {ports: [{port: 80}]}`)
	var before, after corev1.Service
	if err := s.Get("waypoint", &before); err != nil {
		t.Fatal(err)
	}
	s.Apply(waypointGateway)
	s.gatewaySays("Programmed False Invalid", "Service "+s.ns+"/waypoint exists and is not of this Gateway")
	if err := s.Get("waypoint", &after); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the foreign Service was written to: %v", err)
	}
	s.Delete(&corev1.Service{}, "waypoint")
	s.Apply(strings.Replace(waypointGateway, "namespace: NS", "namespace: NS, annotations: {again: now}", 1))
	s.gatewaySays("Programmed False AddressNotAssigned", "")
}

func TestOverlays(t *testing.T) {
	s := newStory(t)
	overlay := func(data string) {
		t.Helper()
		s.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: overlay, namespace: NS}\ndata: " + data)
	}
	s.Apply(strings.Replace(waypointGateway, "spec: {", `spec: {infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: overlay}}, `, 1))
	s.gatewaySays("Accepted False InvalidParameters", "there is no ConfigMap")
	overlay(`{podDisruptionBudget: "spec: {minAvailable: 1}", deployment: "spec: {template: {spec: {priorityClassName: high}}}"}`)
	s.gatewaySays("Accepted True Accepted", "")
	var d appsv1.Deployment
	if err := s.Get("waypoint", &d); err != nil || d.Spec.Template.Spec.PriorityClassName != "high" {
		t.Errorf("priority class %q, %v", d.Spec.Template.Spec.PriorityClassName, err)
	}
	if err := s.Get("waypoint", &policyv1.PodDisruptionBudget{}); err != nil {
		t.Error(err)
	}
	overlay(`{deployment: "spec: {template: {spec: {priorityClassName: high}}}"}`)
	s.Eventually("the budget goes with its key", func() error {
		if err := s.Get("waypoint", &policyv1.PodDisruptionBudget{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	overlay(`{deployment: "spec: {replicas: many}"}`)
	s.gatewaySays("Accepted False InvalidParameters", "deployment: ")
	overlay(`{deployment: "spec: {template: {spec: {dnsPolicy: Sometimes}}}"}`)
	s.gatewaySays("Accepted False InvalidParameters", "refused by the API server")
}

func TestUserDeploysTheWaypoint(t *testing.T) {
	s := newStory(t)
	s.Apply(strings.Replace(waypointGateway, "spec: {", "spec: {addresses: [{type: Hostname, value: own}], ", 1))
	s.gatewaySays("Programmed False AddressNotAssigned", "")
	s.Apply(strings.ReplaceAll(fmt.Sprintf(readyPod, true), "service-name: waypoint", "service-name: own"))
	s.Apply("apiVersion: v1\nkind: Service\nmetadata: {name: own, namespace: NS}\nspec: {ports: [{port: 15008}]}")
	// The order of events is the API server's: the slice alone is looked at again.
	s.Apply(strings.ReplaceAll(strings.Replace(fmt.Sprintf(readyPod, true), "10.244.0.9", "10.244.0.10", 1), "service-name: waypoint", "service-name: own"))
	g := s.gatewaySays("Programmed True Programmed", "own."+s.ns+".svc.cluster.local")
	if err := s.Get("waypoint", &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Deployment was made: %v", err)
	}
	s.Apply(strings.Replace(waypointGateway, "spec: {", "spec: {addresses: [{type: Hostname, value: own.other.svc}], ", 1))
	if g = s.gatewaySays("Accepted False UnsupportedAddress", "of namespace "+s.ns); len(g.Status.Addresses) == 0 {
		t.Error("the address is gone")
	}
}

// TestNothingIsWrittenWhenNothingChanges: after everything is said, events that
// change nothing leave every object at the version it has.
func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	s := newStory(t)
	s.Apply(waypointGateway)
	s.Apply(fmt.Sprintf(readyPod, true))
	s.gatewaySays("Programmed True Programmed", "")
	versions := func() string {
		var list strings.Builder
		for _, obj := range []client.Object{
			&gatewayv1.Gateway{}, &appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{},
		} {
			if err := s.Get("waypoint", obj); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&list, "%T %s\n", obj, obj.GetResourceVersion())
		}
		return list.String()
	}
	before := versions()
	for n := range 5 {
		s.Apply(strings.Replace(fmt.Sprintf(readyPod, true), "10.244.0.9", fmt.Sprintf("10.244.0.%d", 20+n), 1))
	}
	// A change that is answered tells that those before it have been looked at.
	s.Apply(strings.ReplaceAll(waypointGateway, "name: waypoint", "name: second"))
	s.Eventually("the second Gateway is deployed", func() error { return s.Get("second", &corev1.Service{}) })
	if after := versions(); after != before {
		t.Errorf("was written:\n%sbefore:\n%s", after, before)
	}
	var slice discoveryv1.EndpointSlice
	if err := s.Get("waypoint-1", &slice); err != nil {
		t.Fatal(err)
	}
}
