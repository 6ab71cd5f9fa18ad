package translate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/api"
)

var update = flag.Bool("update", false, "rewrite golden files and generated pages")

// TestGolden translates each testdata/golden/*.yaml for Gateway default/waypoint and compares resources and problems.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden inputs: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			input, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tr := New(testOptions)
			changes := load(t, tr, string(input))
			checkGolden(t, strings.TrimSuffix(file, ".yaml")+".golden", describe(t, changes.Upserted, tr.AllProblems()))
		})
	}
}

var testOptions = Options{GatewayNamespace: "default", GatewayName: "waypoint", UnlabelledMeansAll: true}

// load sets every document and updates.
func load(t testing.TB, tr *Translator, docs string) Changes {
	t.Helper()
	for _, doc := range strings.Split(docs, "\n---\n") {
		obj, err := Decode([]byte(doc))
		var rejected *Rejected
		switch {
		case errors.As(err, &rejected):
			tr.Reject(rejected)
		case err != nil:
			t.Fatalf("%v in\n%s", err, doc)
		default:
			tr.Set(obj)
		}
	}
	return tr.Update()
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", file, got)
	}
}

func describe(t *testing.T, resources []api.Resource, problems []Problem) string {
	t.Helper()
	var b strings.Builder
	for _, r := range resources {
		fmt.Fprintf(&b, "# %s\n%s\n", r.Key, asYAML(t, r))
	}
	for _, p := range problems {
		fmt.Fprintf(&b, "%s: %s\n", p.Severity, p)
	}
	return b.String()
}

// asYAML prints a message for people: sorted, and with addresses in their usual form.
func asYAML(t *testing.T, r api.Resource) string {
	t.Helper()
	js, err := protojson.Marshal(r.Message)
	if err != nil {
		t.Fatal(err)
	}
	var fields any
	if err := json.Unmarshal(js, &fields); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(readable(fields))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimPrefix(out, []byte("---\n")))
}

func readable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, field := range v {
			v[k] = readable(field)
			if text, ok := field.(string); ok && k == "address" {
				v[k] = addressText(text)
			}
			if list, ok := field.([]any); ok && k == "addresses" {
				v[k] = slices.Collect(func(yield func(any) bool) {
					for _, item := range list {
						if text, ok := item.(string); ok {
							item = addressText(text)
						}
						if !yield(item) {
							return
						}
					}
				})
			}
		}
	case []any:
		for i := range v {
			v[i] = readable(v[i])
		}
	}
	return v
}

func addressText(encoded string) string {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if addr, ok := netip.AddrFromSlice(raw); err == nil && ok {
		return addr.String()
	}
	return encoded
}
