package translate

import (
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"
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
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if json.Unmarshal(js, &meta) == nil {
		r.salvaged.SetLabels(meta.Metadata.Labels)
	}
	r.salvaged.SetNamespace(key.Namespace)
	r.salvaged.SetName(key.Name)
	var parents struct {
		Spec struct {
			ParentRefs []gatewayv1.ParentReference `json:"parentRefs"`
		} `json:"spec"`
	}
	switch obj := r.salvaged.(type) {
	case *gatewayv1.HTTPRoute:
		r.blind = json.Unmarshal(js, &parents) != nil
		obj.Spec.ParentRefs = parents.Spec.ParentRefs
	case *gatewayv1.GRPCRoute:
		r.blind = json.Unmarshal(js, &parents) != nil
		obj.Spec.ParentRefs = parents.Spec.ParentRefs
	case *gatewayv1.TCPRoute:
		r.blind = json.Unmarshal(js, &parents) != nil
		obj.Spec.ParentRefs = parents.Spec.ParentRefs
	case *gatewayv1.TLSRoute:
		r.blind = json.Unmarshal(js, &parents) != nil
		obj.Spec.ParentRefs = parents.Spec.ParentRefs
	case *securityv1.AuthorizationPolicy:
		r.blind = !salvageTargets(obj, js)
	}
	return r
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

// unknownFields reports the fields of a JSON value that its message does not have, with their paths, and counts them.
// protojson would name the first one only, and not where it is.
func unknownFields(r *report, at path, m protoreflect.MessageDescriptor, value any) (n int) {
	object, ok := value.(map[string]any)
	if !ok || m.FullName().Parent() == "google.protobuf" {
		return 0
	}
	for name, v := range object {
		f := m.Fields().ByJSONName(name)
		if f == nil {
			f = m.Fields().ByTextName(name)
		}
		if f == nil {
			r.errorf(at.at(name), "unknown field")
			n++
			continue
		}
		n += unknownInField(r, at.at(name), f, v)
	}
	return n
}

func unknownInField(r *report, at path, f protoreflect.FieldDescriptor, value any) (n int) {
	switch {
	case f.IsMap():
		values, _ := value.(map[string]any)
		for k, v := range values {
			if f.MapValue().Message() != nil {
				n += unknownFields(r, at.key(k), f.MapValue().Message(), v)
			}
		}
	case f.Message() == nil:
	case f.IsList():
		values, _ := value.([]any)
		for i, v := range values {
			n += unknownFields(r, at.index(i), f.Message(), v)
		}
	default:
		n = unknownFields(r, at, f.Message(), value)
	}
	return n
}
