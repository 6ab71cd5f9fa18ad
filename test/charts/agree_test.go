package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestFlags: what the chart hands to the controller is what it takes. The page of
// flags is held to the program by a test beside that.
func TestFlags(t *testing.T) {
	page := read(t, "../../docs/flags.md")
	_, controller, found := strings.Cut(page, "\n## waypoint-controller\n")
	if !found {
		t.Fatal("docs/flags.md has no section waypoint-controller")
	}
	flags := regexp.MustCompile(`(?m)^ +- (--[a-z-]+)=`).FindAllStringSubmatch(render(t, "--values=testdata/full.values.yaml"), -1)
	if len(flags) < 8 {
		t.Fatalf("only %d flags found", len(flags))
	}
	for _, f := range flags {
		if !strings.Contains(controller, "| `"+f[1]+"` |") {
			t.Errorf("waypoint-controller has no flag %s", f[1])
		}
	}
}

// TestImages: the two images are called the same by the chart, by what makes them, by the
// Dockerfile and by the lab that stands in for a registry.
func TestImages(t *testing.T) {
	names := regexp.MustCompile(`example\.invalid/([a-z-]+):dev`).FindAllStringSubmatch(render(t, "--values=testdata/plain.values.yaml"), -1)
	if len(names) != 2 {
		t.Fatalf("images %v, want two", names)
	}
	made, dockerfile := read(t, "../../tools/images/main.go"), read(t, "../../deployments/Dockerfile")
	for _, n := range names {
		if !strings.Contains(made, `{"`+n[1]+`", `) {
			t.Errorf("tools/images makes no image %s", n[1])
		}
		if !strings.Contains(dockerfile, " AS "+n[1]+"\n") {
			t.Errorf("the Dockerfile makes no image %s", n[1])
		}
		if program := inLab(t, n[0]); program != n[1] {
			t.Errorf("in the lab, %s runs %q, want %s", n[0], program, n[1])
		}
	}
}

// inLab finds what the lab runs for an image: the program in the image, by its name.
func inLab(t *testing.T, image string) string {
	t.Helper()
	var table []struct {
		Match string
		Files map[string]string
	}
	if err := json.Unmarshal([]byte(read(t, "../meshlab/images.json")), &table); err != nil {
		t.Fatal(err)
	}
	for _, entry := range table {
		if regexp.MustCompile(entry.Match).MatchString(image) {
			for path := range entry.Files {
				return filepath.Base(path)
			}
		}
	}
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSchema: what the schema allows is in values.yaml, where people look for it. The other
// way round helm sees to, as the schema allows nothing else.
func TestSchema(t *testing.T) {
	var s schema
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &s); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	delete(s.Properties, "global") // of charts that have this one in them
	s.compare(t, "", values)
}

type schema struct{ Properties map[string]schema }

func (s schema) compare(t *testing.T, path string, values map[string]any) {
	t.Helper()
	for key, below := range s.Properties {
		value, ok := values[key]
		if !ok {
			t.Errorf("values.yaml does not have %s%s, which the schema allows", path, key)
			continue
		}
		if object, isObject := value.(map[string]any); isObject && len(object) > 0 && !strings.HasPrefix(path+key, "controller.resources") {
			below.compare(t, path+key+".", object)
		}
	}
}
