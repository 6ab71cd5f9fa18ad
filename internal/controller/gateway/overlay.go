package gateway

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Keys lists the keys that a ConfigMap of overlays may have, each with a strategic
// merge patch in YAML. For horizontalPodAutoscaler and podDisruptionBudget a key
// is also what makes the object: without it there is none.
func Keys() []string {
	var keys []string
	for _, p := range parts {
		if p.key != "" {
			keys = append(keys, p.key)
		}
	}
	return keys
}

func (o Overlays) check() error {
	for key := range o {
		if !slices.Contains(Keys(), key) {
			return faultf("the key %q means nothing here; keys are %s", key, strings.Join(Keys(), ", "))
		}
	}
	return nil
}

// overlay lays one patch over an object. What makes the object ours cannot be
// changed by it.
func overlay(p part, base []byte, patch string) ([]byte, error) {
	js, err := yaml.YAMLToJSONStrict([]byte(patch))
	if err != nil {
		return nil, faultf("%s: not YAML: %v", p.key, err)
	}
	merged, err := strategicpatch.StrategicMergePatch(base, js, p.typed)
	if err != nil {
		return nil, faultf("%s: not a strategic merge patch for a %s: %v", p.key, p.kind.Kind, err)
	}
	if err := checkFields(p, merged); err != nil {
		return nil, err
	}
	return merged, checkIdentity(p, base, merged)
}

// checkFields finds fields that the kind does not have and values of wrong types.
func checkFields(p part, merged []byte) error {
	obj := reflect.New(reflect.TypeOf(p.typed)).Interface()
	strict, err := strictjson.UnmarshalStrict(merged, obj)
	if err := errors.Join(append(strict, err)...); err != nil {
		return faultf("%s: %s", p.key, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// checkIdentity refuses an overlay that would make another object of it, or one
// that is not found again.
func checkIdentity(p part, base, merged []byte) error {
	var before, after unstructured.Unstructured
	if err := errors.Join(before.UnmarshalJSON(base), after.UnmarshalJSON(merged)); err != nil {
		return faultf("%s: %v", p.key, err)
	}
	for _, field := range [][]string{
		{"apiVersion"},
		{"kind"},
		{"metadata", "name"},
		{"metadata", "namespace"},
		{"metadata", "ownerReferences"},
		{"metadata", "finalizers"},
		{"metadata", "labels", LabelManagedBy},
		{"metadata", "labels", labelGatewayName},
		{"spec", "selector"},
		{"spec", "template", "metadata", "labels", labelGatewayName},
		{"spec", "scaleTargetRef"},
		// A waypoint is known by its account, and that of another is not for who may
		// write a ConfigMap; neither are addresses of others, CVE-2020-8554.
		{"spec", "template", "spec", "serviceAccountName"},
		{"spec", "template", "spec", "serviceAccount"},
		{"spec", "externalIPs"},
	} {
		was, _, _ := unstructured.NestedFieldNoCopy(before.Object, field...)
		is, _, _ := unstructured.NestedFieldNoCopy(after.Object, field...)
		if !reflect.DeepEqual(was, is) {
			return faultf("%s: %s is not to be changed", p.key, strings.Join(field, "."))
		}
	}
	return nil
}
