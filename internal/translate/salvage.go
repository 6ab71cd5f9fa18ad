package translate

import (
	"encoding/json"

	typeapi "istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// salvage reads from an object that was refused what it must fail closed on: its metadata and what it is attached to.
// Nothing else of it is used.
func salvage(k *Kind, key Key, problems []Problem, js []byte) *Rejected {
	r := &Rejected{Key: key, Problems: problems, salvaged: k.new()}
	var meta struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(js, &meta) == nil {
		r.salvaged.SetLabels(meta.Metadata.Labels)
		r.salvaged.SetAnnotations(meta.Metadata.Annotations)
	}
	r.salvaged.SetNamespace(key.Namespace)
	r.salvaged.SetName(key.Name)
	switch obj := r.salvaged.(type) {
	case *gatewayv1.HTTPRoute:
		obj.Spec.ParentRefs = salvageParents(js)
	case *gatewayv1.GRPCRoute:
		obj.Spec.ParentRefs = salvageParents(js)
	case *gatewayv1.TCPRoute:
		obj.Spec.ParentRefs = salvageParents(js)
	case *gatewayv1.TLSRoute:
		obj.Spec.ParentRefs = salvageParents(js)
	case *securityv1.AuthorizationPolicy:
		r.blind = !salvageTargets(obj, js)
	}
	return r
}

// salvagedParent is a parentRef of which port and section may be of any type: left out where they are of the wrong one,
// they widen the reference to the whole parent.
type salvagedParent struct {
	Group       *gatewayv1.Group     `json:"group"`
	Kind        *gatewayv1.Kind      `json:"kind"`
	Namespace   *gatewayv1.Namespace `json:"namespace"`
	Name        gatewayv1.ObjectName `json:"name"`
	SectionName any                  `json:"sectionName"`
	Port        any                  `json:"port"`
}

// salvageParents reads the parentRefs that name something.
func salvageParents(js []byte) []gatewayv1.ParentReference {
	var doc struct {
		Spec struct {
			ParentRefs []json.RawMessage `json:"parentRefs"`
		} `json:"spec"`
	}
	if json.Unmarshal(js, &doc) != nil {
		return nil
	}
	var refs []gatewayv1.ParentReference
	for _, raw := range doc.Spec.ParentRefs {
		var p salvagedParent
		if json.Unmarshal(raw, &p) != nil || p.Name == "" {
			continue
		}
		ref := gatewayv1.ParentReference{Group: p.Group, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}
		if section, ok := p.SectionName.(string); ok {
			ref.SectionName = (*gatewayv1.SectionName)(&section)
		}
		if number, ok := p.Port.(float64); ok && number >= 1 && number <= 65535 {
			port := gatewayv1.PortNumber(number)
			ref.Port = &port
		}
		refs = append(refs, ref)
	}
	return refs
}

// salvageTargets reads the targets of a policy; false if they cannot be known. A policy that has a selector, or of which
// every field of the spec is a known one and none a target, has none for certain.
func salvageTargets(p *securityv1.AuthorizationPolicy, js []byte) bool {
	type ref struct{ Group, Kind, Name, Namespace string }
	var doc struct {
		Spec struct {
			TargetRef  *ref  `json:"targetRef"`
			TargetRefs []ref `json:"targetRefs"`
		} `json:"spec"`
	}
	var raw struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	if json.Unmarshal(js, &doc) != nil || json.Unmarshal(js, &raw) != nil {
		return false
	}
	refs := doc.Spec.TargetRefs
	if doc.Spec.TargetRef != nil {
		refs = append(refs, *doc.Spec.TargetRef)
	}
	for _, t := range refs {
		p.Spec.TargetRefs = append(p.Spec.TargetRefs,
			&typeapi.PolicyTargetReference{Group: t.Group, Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})
	}
	if len(refs) > 0 || raw.Spec["selector"] != nil {
		return true
	}
	fields := p.Spec.ProtoReflect().Descriptor().Fields()
	for name := range raw.Spec {
		if fields.ByJSONName(name) == nil {
			return false
		}
	}
	return true
}
