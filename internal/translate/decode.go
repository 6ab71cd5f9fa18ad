package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ErrUnknownKind is the cause of Decode's error for an object of a kind that is not read.
var ErrUnknownKind = errors.New("not a kind that is read")

// Rejected is the error for an object of a known kind and name that does not decode. Translator.Reject takes it.
type Rejected struct {
	Key      Key
	Problems []Problem

	// salvaged holds the metadata, and what a route or policy is attached to, as far as they could be read.
	salvaged Object
	// blind: what it is attached to could not be read.
	blind bool
}

// Error is the first problem.
func (r *Rejected) Error() string { return r.Problems[0].String() }

// Decode reads one YAML or JSON document strictly: fields that the kind does not have, and values of the wrong type, are
// errors that name the field. The error is a *Rejected where kind and name could be read, wraps ErrUnknownKind for a kind
// that is not read, and is a plain one for what is no Kubernetes object at all. An object of a namespaced kind without a
// namespace belongs to "default".
func Decode(doc []byte) (Object, error) {
	js := doc
	if !json.Valid(js) { // JSON is YAML too, but the YAML parser is ten times slower
		var err error
		if js, err = yaml.YAMLToJSONStrict(doc); err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(js, &head); err != nil {
		return nil, fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if head.Kind == "" || head.APIVersion == "" {
		return nil, errors.New("not a Kubernetes object: it needs apiVersion and kind")
	}
	k := lookupKind(head.APIVersion, head.Kind)
	if k == nil {
		return nil, fmt.Errorf("%s %s %s/%s: %w", head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name, ErrUnknownKind)
	}
	if head.Metadata.Name == "" {
		return nil, fmt.Errorf("%s: metadata.name must be set", head.Kind)
	}
	key := Key{k.Name, head.Metadata.Namespace, head.Metadata.Name}
	switch {
	case k.ClusterScoped:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = metav1.NamespaceDefault
	}
	return decodeKind(k, key, js)
}

func lookupKind(apiVersion, kind string) *Kind {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = groupCore, apiVersion
	}
	for i := range kinds {
		if k := &kinds[i]; k.Name == kind && k.Group == group && slices.Contains(k.Versions, version) {
			return k
		}
	}
	return nil
}

func decodeKind(k *Kind, key Key, js []byte) (Object, error) {
	obj := k.new()
	r := &report{object: key}
	if k.istio {
		decodeIstio(r, obj, js)
	} else {
		decodeTyped(r, obj, js)
	}
	if len(r.problems) > 0 {
		slices.SortFunc(r.problems, compareProblems)
		return nil, salvage(k, key, r.problems, js)
	}
	obj.SetNamespace(key.Namespace)
	return obj, nil
}

// decodeTyped reads a kind whose Go type carries its JSON form.
func decodeTyped(r *report, obj any, js []byte) {
	strict, err := strictjson.UnmarshalStrict(js, obj)
	if err != nil {
		if !r.wrongTypes(obj, js) {
			r.errorf("", "%v", err)
		}
		return
	}
	for _, err := range strict {
		fault, at := err.Error(), path("")
		var field strictjson.FieldError
		if errors.As(err, &field) {
			at = path(field.FieldPath())
			fault, _, _ = strings.Cut(fault, " \"") // the path again
		}
		r.errorf(at, "%s", fault)
	}
}

// istioObject is an Istio object with its protobuf halves still to be read.
type istioObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              json.RawMessage `json:"spec,omitempty"`
	Status            json.RawMessage `json:"status,omitempty"`
}

// decodeIstio reads a kind whose spec is a protobuf message. The generated UnmarshalJSON of the Go types is not used: it
// ignores fields it does not know.
func decodeIstio(r *report, obj Object, js []byte) {
	var raw istioObject
	decodeTyped(r, &raw, js)
	spec, status := istioParts(obj, raw.TypeMeta, raw.ObjectMeta)
	decodeMessage(r, "spec", spec, raw.Spec, true)
	decodeMessage(r, "status", status, raw.Status, false)
}

// istioParts fills in the metadata of an Istio object and gives its messages.
func istioParts(obj Object, t metav1.TypeMeta, m metav1.ObjectMeta) (spec, status proto.Message) {
	switch obj := obj.(type) {
	case *networkingv1.ServiceEntry:
		obj.TypeMeta, obj.ObjectMeta = t, m
		return &obj.Spec, &obj.Status
	case *networkingv1.WorkloadEntry:
		obj.TypeMeta, obj.ObjectMeta = t, m
		return &obj.Spec, &obj.Status
	case *securityv1.AuthorizationPolicy:
		obj.TypeMeta, obj.ObjectMeta = t, m
		return &obj.Spec, &obj.Status
	}
	panic(fmt.Sprintf("translate: %T is not an Istio object", obj))
}

// decodeMessage: a status is written by control planes, newer ones than ours too, so its unknown fields are no fault.
func decodeMessage(r *report, at path, m proto.Message, raw json.RawMessage, strict bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if strict {
		var fields any
		if err := json.Unmarshal(raw, &fields); err != nil {
			r.errorf(at, "%v", err)
			return
		}
		before := len(r.problems)
		if r.message(at, m.ProtoReflect().Descriptor(), fields); len(r.problems) > before {
			return
		}
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: !strict}).Unmarshal(raw, m); err != nil {
		r.errorf(at, "%s", protoFault(err))
	}
}

// protoFault drops the library's prefix and the position, which is one in our JSON and not in the user's file.
func protoFault(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(text, "proto: ")
	if strings.HasPrefix(text, "(line ") || strings.HasPrefix(text, "syntax error (line ") {
		if _, rest, ok := strings.Cut(text, "): "); ok {
			return rest
		}
	}
	return text
}
