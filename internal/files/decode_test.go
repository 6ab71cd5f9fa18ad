package files

import (
	"errors"
	"strings"
	"testing"
)

// FuzzDecode: whatever a document says, it is decoded to something, and an object
// that is salvaged from one that cannot be parsed is always a rejected one.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		svc("a", "10.0.0.1"), policy("p", "a", "x"), gatewayText,
		strings.Replace(policy("p", "a", "x"), "rules:", "rules: [", 1),
		"kind: List\nitems:\n" + indent(svc("a", "10.0.0.1")),
		`{"kind": "List", "items": [{}, null, 1]}`,
		"a: &a [*a]", "kind: List", "\t", "- 1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		chunks, err := split(text, false)
		if err != nil {
			return
		}
		for _, c := range chunks {
			d := newDecoder(nil).decode(c)
			if len(d.objects) == 0 && len(d.ignored) == 0 && d.broken == nil && !strings.Contains(c.text, "List") {
				t.Fatalf("%q is lost", c.text)
			}
			for _, o := range d.objects {
				if (o.value == nil) == (o.rejected == nil) || o.key.Kind == "" || o.doc != d {
					t.Fatalf("%q gives %+v", c.text, o)
				}
			}
			if line, fault := d.faultLine(); d.broken != nil && (line < c.line || fault == "") {
				t.Fatalf("%q: fault %q in line %d", c.text, fault, line)
			}
		}
	})
}

func TestSalvage(t *testing.T) {
	good := policy("p", "a", "x")
	tests := []struct {
		name, text, cause, want string
	}{
		{"in the rules", strings.Replace(good, "rules:", "rules: [", 1), "line 9", "AuthorizationPolicy default/p"},
		{"before the name", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {\n", "line 4", ""},
		{"without a line", good, "control characters are not allowed", ""},
		{"line that is not there", good, "line 99999", "AuthorizationPolicy default/p"},
		{"number that is none", good, "line 99999999999999999999999", "AuthorizationPolicy default/p"},
		{"unknown kind", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nspec: [\n", "line 5", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if r := salvage(tt.text, errors.New(tt.cause)); r != nil {
				got = r.Key.String()
				if len(r.Problems) != 1 || r.Problems[0].Fault != tt.cause {
					t.Errorf("problems %v", r.Problems)
				}
			}
			if got != tt.want {
				t.Errorf("salvaged %q, want %q", got, tt.want)
			}
		})
	}
}

// TestSalvageIsBounded: a long document is not parsed once for each line.
func TestSalvageIsBounded(t *testing.T) {
	text := strings.Repeat("a: [\n", 10_000)
	if r := salvage(text, errors.New("line 9999")); r != nil {
		t.Errorf("salvaged %v", r.Key)
	}
}
