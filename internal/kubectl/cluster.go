package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
)

// FieldManager owns the fields that we apply.
const FieldManager = "kubectl-waypoint"

// DefaultClass and DefaultName are what a waypoint gets that is told neither.
const (
	DefaultClass = "waypoint"
	DefaultName  = "waypoint"
)

// Cluster is an API server as a user reaches it.
type Cluster struct {
	client.Client
	// Namespace is that of the command line, else of the kubeconfig's context.
	Namespace string

	config *rest.Config
	core   corev1client.CoreV1Interface // logs and port-forwards
}

// Connect reads the kubeconfig. Nothing is asked of the API server yet. What the API
// server warns of, such as a deprecated version, is written to warnings.
func Connect(getter genericclioptions.RESTClientGetter, userAgent string, warnings io.Writer) (*Cluster, error) {
	config, err := getter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := getter.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	mapper, err := getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	config.QPS = -1 // the API server has limits of its own
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	scheme, err := feed.NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: c, Namespace: namespace, config: config, core: core}, nil
}

// classes are the GatewayClasses of our controller, by name. A user who may not
// read classes is taken to use the default one.
func (c *Cluster) classes(ctx context.Context) (map[string]*gatewayv1.GatewayClass, error) {
	var list gatewayv1.GatewayClassList
	err := c.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		return map[string]*gatewayv1.GatewayClass{DefaultClass: {}}, nil
	}
	ours := make(map[string]*gatewayv1.GatewayClass)
	for i := range list.Items {
		if class := &list.Items[i]; class.Spec.ControllerName == gateway.ControllerName {
			ours[class.Name] = class
		}
	}
	return ours, err
}

// Waypoints lists the Gateways of our controller's classes, ordered by namespace
// and name. An empty namespace is all of them.
func (c *Cluster) Waypoints(ctx context.Context, namespace string) ([]gatewayv1.Gateway, error) {
	classes, err := c.classes(ctx)
	if err != nil {
		return nil, err
	}
	var list gatewayv1.GatewayList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var ours []gatewayv1.Gateway
	for _, g := range list.Items {
		if classes[string(g.Spec.GatewayClassName)] != nil {
			ours = append(ours, g)
		}
	}
	return ours, nil
}

// Waypoint finds a waypoint of the cluster's namespace. An empty name is the only
// one there is, or the one of the default name.
func (c *Cluster) Waypoint(ctx context.Context, name string) (*gatewayv1.Gateway, error) {
	list, err := c.Waypoints(ctx, c.Namespace)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		if g := &list[i]; g.Name == name || name == "" && (len(list) == 1 || g.Name == DefaultName) {
			return g, nil
		}
		names = append(names, list[i].Name)
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("there is no waypoint in namespace %s (another --namespace?); 'kubectl waypoint list -A' shows all, "+
			"'kubectl waypoint apply -n %[1]s' makes one", c.Namespace)
	case name == "":
		return nil, fmt.Errorf("namespace %s has several waypoints: name one of %s", c.Namespace, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("there is no waypoint %s/%s; those of the namespace are: %s", c.Namespace, name, strings.Join(names, ", "))
}

// Chosen finds the waypoints that a command is about: the one that is named, else
// those of the cluster's namespace or of all. There is one at least.
func (c *Cluster) Chosen(ctx context.Context, name string, everywhere bool) ([]gatewayv1.Gateway, error) {
	namespace := c.Namespace
	if everywhere {
		namespace = ""
	}
	list, err := c.Waypoints(ctx, namespace)
	if err != nil || name == "" && len(list) > 0 {
		return list, err
	}
	if everywhere && name == "" {
		return nil, errors.New("there is no waypoint in any namespace; 'kubectl waypoint apply -n NAMESPACE' makes one")
	}
	g, err := c.Waypoint(ctx, name)
	if err != nil {
		return nil, err
	}
	return []gatewayv1.Gateway{*g}, nil
}

// Namespaces lists the names of all namespaces.
func (c *Cluster) Namespaces(ctx context.Context) ([]string, error) {
	var list corev1.NamespaceList
	err := c.List(ctx, &list)
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

// Services lists the Services of the cluster's namespace, "namespace/name".
func (c *Cluster) Services(ctx context.Context) ([]string, error) {
	var list corev1.ServiceList
	err := c.List(ctx, &list, client.InNamespace(c.Namespace))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	return names, err
}

// servesWhat is the value of istio.io/waypoint-for that holds for a Gateway.
func servesWhat(g *gatewayv1.Gateway, class *gatewayv1.GatewayClass) string {
	if what := g.Labels[labelFor]; what != "" {
		return what
	}
	if class != nil && class.Labels[labelFor] != "" {
		return class.Labels[labelFor]
	}
	return "service"
}

// Labels of Istio that steer waypoints.
const (
	labelFor          = "istio.io/waypoint-for"
	labelRevision     = "istio.io/rev"
	labelUse          = "istio.io/use-waypoint"
	labelUseNamespace = "istio.io/use-waypoint-namespace"
	labelDataplane    = "istio.io/dataplane-mode"
	ambient           = "ambient"
)
