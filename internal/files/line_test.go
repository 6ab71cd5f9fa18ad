package files

import (
	"strings"
	"testing"
)

// TestLines: problems name the line of the field, or of what of it is there.
func TestLines(t *testing.T) {
	const route = `# a comment
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: a}]
  rules:
  - name: first
    matches:
    - path: {type: Exact,
        value: /x}
    backendRefs:
    - name: a
      port: 80
`
	for _, tt := range []struct{ name, was, is, want string }{
		{"a value", "/x", "x", "m.yaml:11: HTTPRoute default/r: spec.rules[0].matches[0].path.value: must start"},
		{"a field that is not known", "backendRefs:", "backends:", "m.yaml:12: HTTPRoute default/r: spec.rules[0].backends: unknown"},
		{"a field that is missing", "      port: 80\n", "", "m.yaml:13: HTTPRoute default/r: spec.rules[0].backendRefs[0].port: must be set"},
		{"behind an alias", "[{group: \"\", kind: Service, name: a}]", "&p\n  - {group: \"\", kind: Service, name: a}\n  - {kind: Service, name: a}\n  useDefaultGateways: None", "m.yaml:8: HTTPRoute default/r: spec.parentRefs[1].group"},
		{"text that is not YAML", "  - name: first", "  - name: [first", "m.yaml:8: HTTPRoute default/r: not YAML"},
		{"a key twice", "  rules:", "  rules: []\n  rules:", `: HTTPRoute default/r: not YAML: yaml: key "rules" already set in map`},
		{"a template", "name: first", "name: {{ .Values.name }}", "(a template? It has to be rendered first)"},
	} {
		content := strings.Replace(route, tt.was, tt.is, 1)
		list := "apiVersion: v1\nkind: List\nitems:\n" + indent(svc("a", "10.0.0.1")) + indent(strings.TrimPrefix(content, "# a comment\n"))
		r, err := Validate(Options{Path: tree(t, "g.yaml="+gatewayText, "m.yaml="+content)})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, p := range r.Problems {
			if !p.Warning && (p.Object == "HTTPRoute default/r" || p.Object == "") && !strings.Contains(p.Fault, "does not exist") {
				told++
				if !strings.Contains(p.String(), tt.want) || strings.Contains(p.String(), "\n") {
					t.Errorf("%s: %s, want %s", tt.name, p, tt.want)
				}
			}
		}
		if told != 1 {
			t.Errorf("%s: told %d times: %v", tt.name, told, r.Problems)
		}
		if tt.name != "a value" {
			continue
		}
		r, err = Validate(Options{Path: tree(t, "g.yaml="+gatewayText, "m.yaml="+list)})
		if err != nil || len(r.Problems) != 1 || !strings.HasSuffix(r.Problems[0].Where(), "m.yaml:21") {
			t.Errorf("in a list: %v, %v", r, err)
		}
	}
}

// TestSameAddress: what cannot be in a cluster is easily in files.
func TestSameAddress(t *testing.T) {
	r, err := Validate(Options{Path: tree(t, "m.yaml="+docs(gatewayText, svc("a", "10.0.0.1"), svc("b", "10.0.0.1")))})
	if err != nil || len(r.Problems) != 1 || !r.Problems[0].Warning {
		t.Fatalf("%v, %v", r, err)
	}
	const want = "address 10.0.0.1 is claimed by default/a.default.svc.cluster.local, default/b.default.svc.cluster.local: the first has it"
	if got := r.Problems[0].String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestGatewayRemoved: a waypoint whose Gateway goes serves nothing, and says so.
func TestGatewayRemoved(t *testing.T) {
	f := load(t, "m.yaml="+svc("a", "10.0.0.1"))
	f.remove("0-gateway.yaml")
	f.look()
	f.wantProblem()
	f.after(2 * grace)
	f.wantProblem("Gateway default/waypoint", "was removed", "nothing is served")
	if snap := f.store.Load(); snap.Services["default/a.default.svc.cluster.local"].Attached || len(snap.Rejected) != 1 {
		t.Errorf("served, or not told of: %v", snap.Rejected)
	}
	f.write("0-gateway.yaml", gatewayText)
	f.after(2 * grace)
	f.wantProblem()
	if !f.store.Load().Services["default/a.default.svc.cluster.local"].Attached {
		t.Error("not served again")
	}
}
