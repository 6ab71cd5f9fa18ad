package gateway

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Settings are what all waypoints of a controller have in common.
type Settings struct {
	// Image is that of the waypoint's container.
	Image string
	// Controller is where waypoints get their configuration: "host:port", the
	// host being a name in the controller's certificate.
	Controller string
	// CA is where they get their certificates, Istio's CA service: "host:port".
	CA string
	// ClusterID is how that service calls the cluster.
	ClusterID string
	// CARoots is the ConfigMap in each namespace that holds the roots to trust for
	// it, under the key root-cert.pem; istiod writes it.
	CARoots string
	// TrustDomain of the mesh, its further names, and the domain of its Services'
	// names.
	TrustDomain        string
	TrustDomainAliases []string
	ClusterDomain      string
	// Revisions are the values of istio.io/rev whose Gateways we serve: the revision
	// that we are, and its tags; empty: every Gateway, whatever its revision.
	Revisions []string
	// Roots are the controller's own, PEM: waypoints know the controller by them.
	Roots string
}

// Overlays are the data of a ConfigMap that changes what is rendered: strategic
// merge patches by the keys of [Keys].
type Overlays map[string]string

// Input is all that the objects of a Gateway are made of.
type Input struct {
	Gateway  *gatewayv1.Gateway
	Settings Settings
	// Class are the overlays for all Gateways of the class, Own those of this
	// Gateway, which come after them. Both may be nil.
	Class, Own Overlays
}

// ParameterError says that the objects cannot be made of what the user wrote.
type ParameterError struct{ Fault string }

// Error is the fault.
func (e *ParameterError) Error() string { return e.Fault }

func faultf(format string, args ...any) error {
	return &ParameterError{fmt.Sprintf(format, args...)}
}

// Render makes the objects of a Gateway, in the order in which they are to be
// applied. An error that is the user's to mend is a *ParameterError.
func Render(in Input) ([]*unstructured.Unstructured, error) {
	if err := checkName(in.Gateway); err != nil {
		return nil, err
	}
	for _, overlays := range []Overlays{in.Class, in.Own} {
		if err := overlays.check(); err != nil {
			return nil, err
		}
	}
	r := renderer{in}
	var objects []*unstructured.Unstructured
	for _, p := range parts {
		if p.onRequest && !in.asksFor(p.key) {
			continue
		}
		obj, err := r.render(p)
		if err != nil {
			return nil, fmt.Errorf("%s of Gateway %s/%s: %w", p.kind.Kind, in.Gateway.Namespace, in.Gateway.Name, err)
		}
		objects = append(objects, obj)
	}
	return objects, nil
}

// renderRoots makes the one object that no overlay changes.
func renderRoots(in Input) (*unstructured.Unstructured, error) {
	i := slices.IndexFunc(parts, func(p part) bool { return p.key == "" })
	return renderer{in}.render(parts[i])
}

// checkName: the Service is called like the Gateway, since its host name is what
// clients are sent to, and that takes names of a stricter form.
func checkName(g *gatewayv1.Gateway) error {
	if faults := validation.IsDNS1035Label(g.Name); len(faults) > 0 {
		return faultf("metadata.name: a waypoint's Service is called like its Gateway, and %q cannot be the name of a Service: %s; "+
			"make a Gateway of another name", g.Name, faults[0])
	}
	return nil
}

func (in Input) asksFor(key string) bool {
	_, class := in.Class[key]
	_, own := in.Own[key]
	return class || own
}

type renderer struct{ Input }

// render makes one object and lays the overlays over it.
func (r renderer) render(p part) (*unstructured.Unstructured, error) {
	base, err := toJSON(p.base(r))
	if err != nil {
		return nil, err
	}
	if patch, ok := r.Own[p.key]; ok && p.key == keyDeployment {
		if err := checkConfined(p, base, patch); err != nil {
			return nil, err
		}
	}
	for _, overlays := range []Overlays{r.Class, r.Own} {
		if patch, ok := overlays[p.key]; ok {
			if base, err = overlay(p, base, patch); err != nil {
				return nil, err
			}
		}
	}
	obj := &unstructured.Unstructured{}
	return obj, obj.UnmarshalJSON(base)
}

// meta is what the metadata of every object begins with.
func (r renderer) meta() *metav1ac.ObjectMetaApplyConfiguration {
	g := r.Gateway
	m := metav1ac.ObjectMeta().
		WithName(g.Name).
		WithNamespace(g.Namespace).
		WithLabels(r.labels()).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(gatewayv1.GroupVersion.String()).
			WithKind("Gateway").
			WithName(g.Name).
			WithUID(g.UID).
			WithController(true).
			WithBlockOwnerDeletion(false))
	return m.WithAnnotations(r.annotations())
}

// labels of all objects: what the user wants on them, and what they are known by,
// which the user cannot change.
func (r renderer) labels() map[string]string {
	all := map[string]string{}
	if infra := r.Gateway.Spec.Infrastructure; infra != nil {
		for k, v := range infra.Labels {
			all[string(k)] = string(v)
		}
	}
	maps.Copy(all, r.selector())
	// The name of a class may be longer than a label.
	if class := string(r.Gateway.Spec.GatewayClassName); len(class) <= validation.LabelValueMaxLength {
		all[labelGatewayClass] = class
	}
	all[LabelManagedBy] = ManagedBy
	all[labelAppName] = "waypoint"
	return all
}

func (r renderer) annotations() map[string]string {
	all := map[string]string{}
	if infra := r.Gateway.Spec.Infrastructure; infra != nil {
		for k, v := range infra.Annotations {
			all[string(k)] = string(v)
		}
	}
	return all
}

// selector finds the pods of the Gateway. It also tells istiod that they are a
// waypoint's, which has no waypoint itself.
func (r renderer) selector() map[string]string {
	return map[string]string{labelGatewayName: r.Gateway.Name}
}

// Managed reports whether we deploy the waypoint. Where spec.addresses names
// Services that exist, the user does.
func Managed(g *gatewayv1.Gateway) bool {
	return !slices.ContainsFunc(g.Spec.Addresses, func(a gatewayv1.GatewaySpecAddress) bool {
		return a.Type != nil && *a.Type == gatewayv1.HostnameAddressType
	})
}
