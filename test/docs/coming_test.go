package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
)

const comingPage = root + "/docs/coming-from-istio.md"

var quoted = regexp.MustCompile("`([^`]+)`")

// TestComingFromIstio: the page names every field that docs/fields.md has, and
// promises of none what that page denies.
func TestComingFromIstio(t *testing.T) {
	coming, fields := sections(read(t, comingPage)), sections(read(t, root+"/docs/fields.md"))
	seen := 0
	for kind, section := range fields {
		promised := verdicts(t, kind, coming[kind])
		for _, row := range rows(section) {
			field, use := strings.Trim(row[0], "`"), row[1]
			if len(row) < 3 || !slices.Contains([]string{"used", "refused", "does nothing"}, use) {
				continue // for others, or the head of a table
			}
			seen++
			switch verdict := promised[field]; {
			case verdict == "":
				t.Errorf("%s: %s of %s, which docs/fields.md has, is missing", comingPage, field, kind)
			case verdict == "better" && use != "used", verdict == "same" && use == "refused":
				t.Errorf("%s: %s of %s is %q, and in docs/fields.md %q", comingPage, field, kind, verdict, use)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d fields found in docs/fields.md: has its form changed?", seen)
	}
}

// istioKinds are those whose every field has to be named, whether it is read or not.
var istioKinds = map[string]protoreflect.ProtoMessage{
	"VirtualService":        &networking.VirtualService{},
	"DestinationRule":       &networking.DestinationRule{},
	"ServiceEntry":          &networking.ServiceEntry{},
	"AuthorizationPolicy":   &security.AuthorizationPolicy{},
	"RequestAuthentication": &security.RequestAuthentication{},
	"Telemetry":             &telemetry.Telemetry{},
	"WasmPlugin":            &extensions.WasmPlugin{},
}

func TestEveryFieldOfIstio(t *testing.T) {
	coming := sections(read(t, comingPage))
	for kind, message := range istioKinds {
		named := map[string]bool{}
		for field := range verdicts(t, kind, coming[kind]) {
			for part := range strings.SplitSeq(strings.TrimPrefix(field, "spec."), ".") {
				named[strings.TrimSuffix(part, "[]")] = true
			}
		}
		for _, field := range fieldNames(message.ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{}) {
			if !named[field] {
				t.Errorf("%s: %s of %s is missing", comingPage, field, kind)
			}
		}
	}
}

// fieldNames lists the fields of a message and of those in it.
func fieldNames(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) (names []string) {
	if seen[m.FullName()] || !strings.HasPrefix(string(m.FullName()), "istio.") {
		return nil
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		names = append(names, f.JSONName())
		if f.Message() != nil && !f.IsMap() {
			names = append(names, fieldNames(f.Message(), seen)...)
		}
	}
	return names
}

// verdicts are those of a section, by the fields in the first column.
func verdicts(t *testing.T, kind, section string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, row := range rows(section) {
		if len(row) != 3 || row[0] == "field" || row[0] == "key" || strings.HasPrefix(row[0], "---") {
			continue
		}
		if !slices.Contains([]string{"same", "better", "not yet", "no"}, row[1]) {
			t.Errorf("%s: %s: %q is none of the words", comingPage, kind, row[1])
		}
		for _, q := range quoted.FindAllStringSubmatch(row[0], -1) {
			if all[q[1]] == "" {
				all[q[1]] = row[1]
			}
		}
	}
	return all
}

// sections splits a page by its headings of the second level.
func sections(page string) map[string]string {
	all := map[string]string{}
	for section := range strings.SplitSeq(page, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		all[title] = body
	}
	return all
}

// rows are the lines of tables, cell by cell.
func rows(section string) (all [][]string) {
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		all = append(all, cells)
	}
	return all
}
