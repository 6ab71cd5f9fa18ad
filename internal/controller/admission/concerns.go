package admission

import (
	"slices"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// concerns reports whether a Gateway of ours uses the object, so that its faults are
// for us to refuse. ServiceEntries and the like are for the whole mesh.
func (h *Handler) concerns(obj translate.Object) bool {
	switch obj := obj.(type) {
	case *gatewayv1.Gateway:
		return h.Gateway(discovery.Gateway{Namespace: obj.Namespace, Name: obj.Name})
	case *gatewayv1.HTTPRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *gatewayv1.GRPCRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *gatewayv1.TLSRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *gatewayv1.TCPRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *securityv1.AuthorizationPolicy:
		return h.enforces(obj)
	}
	return false
}

func (h *Handler) anyOurs(namespace string, refs []gatewayv1.ParentReference) bool {
	return slices.ContainsFunc(refs, func(ref gatewayv1.ParentReference) bool {
		in := namespace
		if ref.Namespace != nil {
			in = string(*ref.Namespace)
		}
		kind := "Gateway"
		if ref.Kind != nil {
			kind = string(*ref.Kind)
		}
		return h.ours(kind, in, string(ref.Name))
	})
}

func (h *Handler) enforces(p *securityv1.AuthorizationPolicy) bool {
	refs := p.Spec.GetTargetRefs()
	if ref := p.Spec.GetTargetRef(); ref != nil {
		refs = append(slices.Clip(refs), ref)
	}
	for _, ref := range refs {
		in := p.Namespace
		if ref.GetNamespace() != "" {
			in = ref.GetNamespace()
		}
		if h.ours(ref.GetKind(), in, ref.GetName()) {
			return true
		}
	}
	return false
}

// ours reports whether what an object is attached to is a Gateway of ours, has one
// of them in front, or is a whole class of them.
func (h *Handler) ours(kind, namespace, name string) bool {
	switch kind {
	case "Gateway":
		return h.Gateway(discovery.Gateway{Namespace: namespace, Name: name})
	case "Service", "ServiceEntry":
		return h.Fronts(translate.Key{Kind: kind, Namespace: namespace, Name: name})
	}
	return h.Any()
}
