package files

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	good := docs(gatewayText, svc("a", "10.0.0.1"))
	tests := []struct {
		name, content      string
		rejected, warnings int
		words              string
	}{
		{"good", good, 0, 0, "2 objects in 1 file: 0 errors, 0 warnings"},
		{"rejected", docs(good, strings.Replace(svc("b", "10.0.0.2"), "ports", "prots", 1)), 1, 0, "error: "},
		{"unknown kind", docs(good, "\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"), 0, 1, "warning: "},
		{"not YAML", docs(good, "a: [\n"), 1, 0, "not YAML"},
		{"no gateway", svc("a", "10.0.0.1"), 0, 1, "no Gateway of class"},
		{"two gateways", docs(gatewayText, strings.Replace(gatewayText, "name: waypoint,", "name: other,", 1)), 0, 1, "choose one of default/other, default/waypoint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Validate(Options{Path: tree(t, "m.yaml="+tt.content)})
			if err != nil {
				t.Fatal(err)
			}
			if r.Rejected != tt.rejected || len(r.Problems)-r.Errors != tt.warnings {
				t.Errorf("%d errors, want %d; %d warnings, want %d: %v", r.Rejected, tt.rejected, len(r.Problems)-r.Errors, tt.warnings, r.Problems)
			}
			var text, js strings.Builder
			if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), tt.words) {
				t.Errorf("text %q, %v; want %q in it", text.String(), err, tt.words)
			}
			var back Report
			if err := r.WriteJSON(&js); err != nil || json.Unmarshal([]byte(js.String()), &back) != nil || len(back.Problems) != len(r.Problems) {
				t.Errorf("JSON %s, %v", js.String(), err)
			}
		})
	}
}

func TestValidateUnreadable(t *testing.T) {
	if _, err := Validate(Options{Path: t.TempDir() + "/no"}); err == nil {
		t.Error("a folder that is not there is valid")
	}
}
