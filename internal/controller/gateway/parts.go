package gateway

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
)

// part is one of the objects that a Gateway may have.
type part struct {
	// key names it in a ConfigMap of overlays; empty: it cannot be overlaid.
	key  string
	kind schema.GroupVersionKind
	// typed is the Go type of the kind, which tells how lists are merged.
	typed any
	// onRequest: only where an overlay asks for it.
	onRequest bool
	base      func(renderer) any
}

const keyDeployment = "deployment"

// parts in the order in which they are applied: pods need their account and the
// roots, everything else needs the Deployment.
var parts = []part{
	{"serviceAccount", corev1.SchemeGroupVersion.WithKind("ServiceAccount"), corev1.ServiceAccount{}, false, renderer.serviceAccount},
	{"", corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.ConfigMap{}, false, renderer.rootsConfigMap},
	{keyDeployment, appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.Deployment{}, false, renderer.deployment},
	{"service", corev1.SchemeGroupVersion.WithKind("Service"), corev1.Service{}, false, renderer.service},
	{
		"horizontalPodAutoscaler",
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		autoscalingv2.HorizontalPodAutoscaler{},
		true, renderer.autoscaler,
	},
	{
		"podDisruptionBudget",
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		policyv1.PodDisruptionBudget{},
		true, renderer.disruptionBudget,
	},
}

func (r renderer) serviceAccount() any {
	ac := corev1ac.ServiceAccount(r.Gateway.Name, r.Gateway.Namespace).WithAutomountServiceAccountToken(false)
	ac.ObjectMetaApplyConfiguration = r.meta()
	return ac
}

// rootsConfigMap brings the controller's roots to the pods. A new root takes about
// a minute to reach them, the time that kubelets take over ConfigMaps.
func (r renderer) rootsConfigMap() any {
	ac := corev1ac.ConfigMap(r.rootsName(), r.Gateway.Namespace).WithData(map[string]string{rootsKey: r.Settings.Roots})
	ac.ObjectMetaApplyConfiguration = r.meta().WithName(r.rootsName())
	return ac
}

const rootsKey = "root.pem"

func (r renderer) rootsName() string { return r.Gateway.Name + "-controller-roots" }

func (r renderer) service() any {
	port := func(name string, number int32, protocol string) *corev1ac.ServicePortApplyConfiguration {
		return corev1ac.ServicePort().WithName(name).WithPort(number).WithTargetPort(intstr.FromInt32(number)).
			WithProtocol(corev1.ProtocolTCP).WithAppProtocol(protocol)
	}
	ac := corev1ac.Service(r.Gateway.Name, r.Gateway.Namespace).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithIPFamilyPolicy(corev1.IPFamilyPolicyPreferDualStack).
			WithSelector(r.selector()).
			WithPorts(port("status-port", portStatus, "tcp"), port("mesh", portTunnels, "hbone")))
	ac.ObjectMetaApplyConfiguration = r.meta().
		WithLabels(map[string]string{labelUseWaypoint: "none"}).
		WithAnnotations(map[string]string{annotationDistribution: "PreferClose"})
	return ac
}

// autoscaler is what an overlay starts from: it lacks the number of replicas.
func (r renderer) autoscaler() any {
	ac := autoscalingv2ac.HorizontalPodAutoscaler(r.Gateway.Name, r.Gateway.Namespace).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion(appsv1.SchemeGroupVersion.String()).WithKind("Deployment").WithName(r.Gateway.Name)))
	ac.ObjectMetaApplyConfiguration = r.meta()
	return ac
}

// disruptionBudget is what an overlay starts from: it lacks the budget.
func (r renderer) disruptionBudget() any {
	ac := policyv1ac.PodDisruptionBudget(r.Gateway.Name, r.Gateway.Namespace).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(r.selector())))
	ac.ObjectMetaApplyConfiguration = r.meta()
	return ac
}

func toJSON(obj any) ([]byte, error) {
	js, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("writing it as JSON: %w", err)
	}
	return js, nil
}
