package gateway

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Where a waypoint's pod finds what is mounted.
const (
	mountXDSToken = "/var/run/secrets/waypoint/xds" //nolint:gosec // G101: a place, no token
	mountCAToken  = "/var/run/secrets/waypoint/ca"  //nolint:gosec // as above
	mountRoots    = "/var/run/waypoint/controller-roots"
	mountCARoots  = "/var/run/waypoint/ca-roots"
	mountState    = "/var/lib/waypoint"
)

const (
	// Kubelets replace tokens at 80 % of their life. Configuration goes on without
	// a valid one, so theirs is short; certificates do not, and istiod may be away.
	xdsTokenSeconds = 3600
	caTokenSeconds  = 12 * 3600
	// graceSeconds is what a waypoint takes to drain, --drain-timeout, and some to
	// end in.
	graceSeconds = 40
)

// deployment does not say how many replicas there are: an autoscaler or kubectl
// scale does.
func (r renderer) deployment() any {
	ac := appsv1ac.Deployment(r.Gateway.Name, r.Gateway.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(r.selector())).
			// A new pod is ready before an old one drains.
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxUnavailable(intstr.FromInt32(0)).WithMaxSurge(intstr.FromString("25%")))).
			WithTemplate(r.podTemplate()))
	ac.ObjectMetaApplyConfiguration = r.meta()
	return ac
}

func (r renderer) podTemplate() *corev1ac.PodTemplateSpecApplyConfiguration {
	return corev1ac.PodTemplateSpec().
		WithLabels(r.labels()).
		WithLabels(map[string]string{
			labelDataplaneMode: "none",
			labelInject:        "false",
			labelCanonicalName: r.Gateway.Name,
		}).
		WithAnnotations(r.annotations()).
		WithAnnotations(map[string]string{
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   "15020",
			"prometheus.io/path":   "/metrics",
		}).
		WithSpec(corev1ac.PodSpec().
			WithServiceAccountName(r.Gateway.Name).
			WithAutomountServiceAccountToken(false).
			WithTerminationGracePeriodSeconds(graceSeconds).
			WithSecurityContext(corev1ac.PodSecurityContext().
				WithRunAsNonRoot(true).
				WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
			// One node that fails should not take all of them.
			WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().
				WithMaxSkew(1).
				WithTopologyKey(corev1.LabelHostname).
				WithWhenUnsatisfiable(corev1.ScheduleAnyway).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(r.selector()))).
			WithContainers(r.container()).
			WithVolumes(r.volumes()...))
}

func (r renderer) container() *corev1ac.ContainerApplyConfiguration {
	port := func(name string, number int32) *corev1ac.ContainerPortApplyConfiguration {
		return corev1ac.ContainerPort().WithName(name).WithContainerPort(number).WithProtocol(corev1.ProtocolTCP)
	}
	probe := func(path string) *corev1ac.ProbeApplyConfiguration {
		return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(portStatus)))
	}
	return corev1ac.Container().
		WithName("waypoint").
		WithImage(r.Settings.Image).
		WithArgs(r.args()...).
		WithEnv(corev1ac.EnvVar().WithName("WAYPOINT_NODE").WithValueFrom(corev1ac.EnvVarSource().
			WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath("spec.nodeName")))).
		WithPorts(port("mesh", portTunnels), port("metrics", portMetrics), port("status-port", portStatus)).
		WithStartupProbe(probe("/healthz/ready").WithPeriodSeconds(1).WithFailureThreshold(60)).
		WithReadinessProbe(probe("/healthz/ready").WithPeriodSeconds(5).WithFailureThreshold(3)).
		WithLivenessProbe(probe("/healthz/live").WithPeriodSeconds(10).WithFailureThreshold(6)).
		WithResources(resources()).
		WithSecurityContext(corev1ac.SecurityContext().
			WithRunAsNonRoot(true).
			WithReadOnlyRootFilesystem(true).
			WithAllowPrivilegeEscalation(false).
			WithPrivileged(false).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(mount("xds-token", mountXDSToken), mount("ca-token", mountCAToken), mount("controller-roots", mountRoots),
			mount("ca-roots", mountCARoots), corev1ac.VolumeMount().WithName("state").WithMountPath(mountState))
}

func mount(name, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(name).WithMountPath(path).WithReadOnly(true)
}

// args are those of `waypoint run`, docs/flags.md.
func (r renderer) args() []string {
	s := r.Settings
	args := []string{
		"run",
		"--gateway=" + r.Gateway.Namespace + "/" + r.Gateway.Name,
		"--trust-domain=" + s.TrustDomain,
		"--xds=" + s.Controller,
		"--xds-root=" + mountRoots + "/" + rootsKey,
		"--token=" + mountXDSToken + "/token",
		"--state-dir=" + mountState,
		"--ca=" + s.CA,
		"--ca-token=" + mountCAToken + "/token",
		"--ca-root=" + mountCARoots + "/root-cert.pem",
		"--cluster-id=" + s.ClusterID,
	}
	if len(s.TrustDomainAliases) > 0 {
		args = append(args, "--trust-domain-aliases="+strings.Join(s.TrustDomainAliases, ","))
	}
	return args
}

// resources: as measured, a waypoint takes 9 MiB and no CPU when idle, 25 MiB beside
// controller and CA; 14 MiB and 0.13 cores more with 1,000 requests a second, 70 MiB
// more with 2,100 connections that begin at once, 44 MiB more with 5,000 routes. So
// the requests do for a few hundred requests a second. The memory limit
// is what it takes its limit of connections from, 512 KiB for each. There is no CPU
// limit: a throttled waypoint is one that adds latency.
func resources() *corev1ac.ResourceRequirementsApplyConfiguration {
	return corev1ac.ResourceRequirements().
		WithRequests(corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("50m"),
			corev1.ResourceMemory: resource.MustParse("64Mi"),
		}).
		WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")})
}

func (r renderer) volumes() []*corev1ac.VolumeApplyConfiguration {
	return []*corev1ac.VolumeApplyConfiguration{
		tokenVolume("xds-token", TokenAudience, xdsTokenSeconds),
		tokenVolume("ca-token", "istio-ca", caTokenSeconds),
		configMapVolume("controller-roots", r.rootsName()),
		configMapVolume("ca-roots", r.Settings.CARoots),
		corev1ac.Volume().WithName("state").
			WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse("256Mi"))),
	}
}

func tokenVolume(name, audience string, seconds int64) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).
		WithProjected(corev1ac.ProjectedVolumeSource().
			WithSources(corev1ac.VolumeProjection().
				WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
					WithPath("token").WithAudience(audience).WithExpirationSeconds(seconds))))
}

func configMapVolume(name, configMap string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).
		WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(configMap))
}
