package kubectl

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// Traffic lists what a waypoint can be for: the values of istio.io/waypoint-for.
var Traffic = []string{"service", "workload", "all", "none"}

// Wanted is the waypoint that somebody asks for.
type Wanted struct {
	Namespace string // empty: that of whoever applies the manifest
	Name      string
	Class     string
	For       string // one of Traffic; empty: the class says it, else it is for services
	Revision  string // of the control plane that is to serve it; empty: any
}

// Manifest is the Gateway, with the fields that are asked for and no others.
func (w Wanted) Manifest() *gatewayv1ac.GatewayApplyConfiguration {
	g := gatewayv1ac.Gateway(w.Name, w.Namespace)
	if w.Namespace == "" {
		g.Namespace = nil
	}
	if w.For != "" {
		g.WithLabels(map[string]string{labelFor: w.For})
	}
	if w.Revision != "" {
		g.WithLabels(map[string]string{labelRevision: w.Revision})
	}
	return g.WithSpec(gatewayv1ac.GatewaySpec().
		WithGatewayClassName(gatewayv1.ObjectName(w.Class)).
		WithListeners(gatewayv1ac.Listener().WithName("mesh").WithPort(15008).WithProtocol("HBONE")))
}

// Apply is how a waypoint is brought to the cluster.
type Apply struct {
	Wanted
	// Enroll labels the namespace, so that all its services use the waypoint;
	// Overwrite does so too where the namespace has another one.
	Enroll, Overwrite bool
	// Wait is for how long to wait until the waypoint is ready; 0: not at all.
	Wait time.Duration

	Out io.Writer // what was done
	Err io.Writer // progress, and what the user may have forgotten
}

// Run applies the Gateway, waits and enrolls, in this order: no traffic is sent to
// a waypoint that is known not to be there yet.
func (a Apply) Run(ctx context.Context, c *Cluster) error {
	if err := a.check(ctx, c); err != nil {
		return err
	}
	var ns *corev1.Namespace
	if a.Enroll {
		var err error
		if ns, err = a.enrollable(ctx, c); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, a.Manifest(), false); err != nil {
		return a.refused(err)
	}
	fmt.Fprintf(a.Out, "waypoint %s/%s applied\n", a.Namespace, a.Name)
	if a.Wait > 0 {
		if err := c.Wait(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Name}, a.Wait, a.Err); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "waypoint %s/%s is ready\n", a.Namespace, a.Name)
	}
	if ns == nil {
		fmt.Fprintf(a.Err, "Services use it once they, or their namespace, are labelled: 'kubectl label namespace %s %s=%s', or apply with --enroll-namespace.\n",
			a.Namespace, labelUse, a.Name)
		return nil
	}
	return a.enroll(ctx, c, ns)
}

func (c *Cluster) apply(ctx context.Context, what runtime.ApplyConfiguration, force bool) error {
	o := []client.ApplyOption{client.FieldOwner(FieldManager)}
	if force {
		o = append(o, client.ForceOwnership)
	}
	return c.Client.Apply(ctx, what, o...)
}

// check finds what would keep the waypoint from ever getting ready.
func (a Apply) check(ctx context.Context, c *Cluster) error {
	var class gatewayv1.GatewayClass
	switch err := c.Get(ctx, client.ObjectKey{Name: a.Class}, &class); {
	case apierrors.IsForbidden(err): // not for everybody to read
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no GatewayClass %s, so nobody would serve the waypoint: install the waypoint controller, or name another --class%s",
			a.Class, a.others(ctx, c))
	case err != nil:
		return err
	case class.Spec.ControllerName != gateway.ControllerName:
		return fmt.Errorf("GatewayClass %s is served by %s, not by %s: name another --class%s",
			a.Class, class.Spec.ControllerName, gateway.ControllerName, a.others(ctx, c))
	case !meta.IsStatusConditionTrue(class.Status.Conditions, string(gatewayv1.GatewayClassConditionStatusAccepted)):
		fmt.Fprintf(a.Err, "Warning: GatewayClass %s is not accepted yet; is the waypoint controller running?\n", a.Class)
	}
	var g gatewayv1.Gateway
	switch err := c.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Name}, &g); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case string(g.Spec.GatewayClassName) != a.Class:
		return fmt.Errorf("Gateway %s/%s exists and is of class %s: give the waypoint another --name, or delete that one first; it is not changed", //nolint:staticcheck // ST1005: it begins with a kind's name
			a.Namespace, a.Name, g.Spec.GatewayClassName)
	}
	return nil
}

func (a Apply) others(ctx context.Context, c *Cluster) string {
	if classes, err := c.classes(ctx); err == nil && len(classes) > 0 {
		return " (there is " + strings.Join(slices.Sorted(maps.Keys(classes)), ", ") + ")"
	}
	return ""
}

// refused tells what a refusal of the Gateway means.
func (a Apply) refused(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("somebody else has set what is asked for to another value, which stays: change it where it was set, or give the waypoint another --name (%w)", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no namespace %s: 'kubectl create namespace %[1]s' (%w)", a.Namespace, err)
	}
	return err
}

// enrollable looks at the namespace before anything is changed.
func (a Apply) enrollable(ctx context.Context, c *Cluster) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	switch err := c.Get(ctx, client.ObjectKey{Name: a.Namespace}, ns); {
	case apierrors.IsNotFound(err):
		return nil, a.refused(err)
	case err != nil:
		return nil, err
	}
	switch other := waypointOf(ns); {
	case a.Overwrite || other == "" || other == a.Namespace+"/"+a.Name:
	case other == "none":
		return nil, fmt.Errorf("namespace %s is labelled %s=none, so nothing was changed: --overwrite has it use %s", a.Namespace, labelUse, a.Name)
	default:
		return nil, fmt.Errorf("namespace %s uses waypoint %s already, so nothing was changed: --overwrite has it use %s", a.Namespace, other, a.Name)
	}
	if ns.Labels[labelDataplane] != ambient {
		fmt.Fprintf(a.Err, "Warning: namespace %s is not in the ambient mesh, so its pods do not use waypoints: 'kubectl label namespace %[1]s %s=%s'\n",
			a.Namespace, labelDataplane, ambient)
	}
	return ns, nil
}

// waypointOf is the waypoint that the labels of an object ask for: "namespace/name",
// "none", or "" where they do not speak of it.
func waypointOf(obj client.Object) string {
	name := obj.GetLabels()[labelUse]
	if name == "" || name == "none" {
		return name
	}
	namespace := obj.GetLabels()[labelUseNamespace]
	if _, cluster := obj.(*corev1.Namespace); namespace == "" && cluster {
		namespace = obj.GetName()
	} else if namespace == "" {
		namespace = obj.GetNamespace()
	}
	return namespace + "/" + name
}

func (a Apply) enroll(ctx context.Context, c *Cluster, ns *corev1.Namespace) error {
	wanted := map[string]string{labelUse: a.Name}
	if ns.Labels[labelUseNamespace] != "" {
		wanted[labelUseNamespace] = a.Namespace // not another one's any more
	}
	if err := c.apply(ctx, corev1ac.Namespace(a.Namespace).WithLabels(wanted), a.Overwrite); err != nil {
		return fmt.Errorf("the waypoint is applied, its namespace is not labelled: %w", err)
	}
	fmt.Fprintf(a.Out, "namespace %s labelled %s=%s\n", a.Namespace, labelUse, a.Name)
	return nil
}
