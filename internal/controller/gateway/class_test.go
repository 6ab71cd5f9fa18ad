package gateway

import (
	"slices"
	"testing"

	"sigs.k8s.io/gateway-api/pkg/features"
)

// TestFeatures: what a class says to support are the features of the Gateway API's
// conformance suite for meshes, each once and in order. One that is left out, or new
// to the suite, is to be decided on here.
func TestFeatures(t *testing.T) {
	want := features.SetsToNamesSet(features.MeshCoreFeatures, features.MeshExtendedFeatures, features.HTTPRouteCoreFeatures, features.GRPCRouteCoreFeatures)
	var got []features.FeatureName
	for _, f := range supportedFeatures() {
		got = append(got, features.FeatureName(f.Name))
	}
	if !slices.IsSorted(got) {
		t.Errorf("not in order: %v", got)
	}
	for _, name := range got {
		if !want.Has(name) {
			t.Errorf("%s is no feature for meshes", name)
		}
		want.Delete(name)
	}
	if want.Len() > 0 {
		t.Errorf("nothing is said of %v", want.UnsortedList())
	}
}
