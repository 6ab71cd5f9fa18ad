package telemetry

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/")

// labelDocs say where the value of each label comes from.
var labelDocs = [labelCount]string{
	reporter:                     "`waypoint`",
	sourceWorkload:               "workload (Deployment or the like) at the client's address",
	sourceCanonicalService:       "its canonical service",
	sourceCanonicalRevision:      "its canonical revision, else `latest`",
	sourceWorkloadNamespace:      "namespace in the client's certificate, else of the workload at its address",
	sourcePrincipal:              "SPIFFE URI in the client's certificate",
	sourceApp:                    "label `app` of the client's workload",
	sourceVersion:                "label `version` of the client's workload",
	sourceCluster:                "cluster of the client's workload",
	destinationWorkload:          "workload of the endpoint that was chosen",
	destinationWorkloadNamespace: "its namespace",
	destinationPrincipal:         "its SPIFFE URI",
	destinationApp:               "its label `app`",
	destinationVersion:           "its label `version`",
	destinationService:           "host name of the destination service; the canonical service of a workload that was called by its own address",
	destinationCanonicalService:  "canonical service of the endpoint's workload",
	destinationCanonicalRevision: "its canonical revision, else `latest`",
	destinationServiceName:       "name of the destination service",
	destinationServiceNamespace:  "namespace of the destination service",
	destinationCluster:           "cluster of the endpoint's workload",
	requestProtocol:              "`http`, `grpc` or `tcp`",
	responseFlags:                "what went wrong, in Envoy's letters, `-` if nothing did",
	connectionSecurityPolicy:     "`mutual_tls`, or `none`",
	responseCode:                 "status sent to the client, `0` if there was none",
	grpcResponseStatus:           "status of a gRPC call, else empty",
}

func TestDocsOfMetrics(t *testing.T) {
	var families, labels, own strings.Builder
	families.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range istioFamilies {
		fmt.Fprintf(&families, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labelSet(f), f.help)
	}
	labels.WriteString("| label | on | value |\n|---|---|---|\n")
	for i, name := range labelNames {
		fmt.Fprintf(&labels, "| `%s` | %s | %s |\n", name, labelUse(i), labelDocs[i])
	}
	own.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range ownFamilies() {
		fmt.Fprintf(&own, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labelValues(f), f.help)
	}
	checkPage(t, "metrics.md", map[string]string{"istio": families.String(), "labels": labels.String(), "own": own.String()})
}

func labelSet(f *family) string {
	switch len(f.labels) {
	case httpLabels:
		return "all"
	case tcpLabels:
		return "those of TCP"
	case messageLabels:
		return "those of both ends"
	}
	return "`" + strings.Join(f.labels, "`, `") + "`"
}

func labelUse(i int) string {
	switch {
	case i < messageLabels:
		return "all"
	case i < tcpLabels:
		return "requests, TCP"
	}
	return "requests"
}

func labelValues(f *family) string {
	if len(f.labels) == 0 {
		return ""
	}
	var values []string
	for _, metric := range stats {
		for _, s := range metric {
			if s.family == f {
				values = append(values, s.labelValues...)
			}
		}
	}
	if len(values) == 0 {
		return "`" + strings.Join(f.labels, "`, `") + "`"
	}
	return fmt.Sprintf("`%s`: %s", f.labels[0], strings.Join(values, ", "))
}

func TestDocsOfAccessLog(t *testing.T) {
	var format []string
	table := "| JSON key | in text | meaning |\n|---|---|---|\n"
	for _, f := range fields {
		shown := strings.ToUpper(f.key)
		switch f.style {
		case quoted:
			shown = `"` + shown + `"`
		case bracketed:
			shown = "[" + shown + "]"
		case opening:
			shown = `"` + shown
		case closing:
			shown += `"`
		case bare, number:
		}
		format = append(format, shown)
		table += fmt.Sprintf("| `%s` | yes | %s |\n", f.key, f.doc)
	}
	for _, f := range jsonFields {
		table += fmt.Sprintf("| `%s` | no | %s |\n", f.key, f.doc)
	}
	checkPage(t, "access-log.md", map[string]string{
		"format": "```\n" + strings.Join(format, " ") + "\n```\n",
		"fields": table,
		"sample": "```\n" + textLine(request()) + "```\n\n```json\n" + jsonLine(request()) + "```\n",
	})
	if n := len(splitFields(t, textLine(request()))); n != 25 {
		t.Errorf("a line has %d fields: docs/access-log.md says 25", n)
	}
	checkFlags(t)
}

func checkFlags(t *testing.T) {
	text, err := os.ReadFile("../../docs/access-log.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Response flags")
	rows := regexp.MustCompile("(?m)^\\| `[A-Z]+` \\|").FindAllString(section, -1)
	known := 0
	for bit := range 32 {
		letters := flow.Flags(1 << bit).String()
		if letters == "-" {
			continue
		}
		known++
		if !slices.Contains(rows, "| `"+letters+"` |") {
			t.Errorf("docs/access-log.md does not tell of the flag %s", letters)
		}
	}
	if len(rows) != known {
		t.Errorf("docs/access-log.md tells of %d flags, there are %d", len(rows), known)
	}
}

// The page of traces is written by hand; it has to name each attribute that a
// span can have, and no other.
func TestDocsOfTracing(t *testing.T) {
	text, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, expand(row[1])...)
	}
	f := call()
	f.Flags, f.Status, f.Retries, f.Policy, f.DryRun = flow.UpstreamReset, 503, 1, "a/b", []flow.DryRun{{Policy: "c/d"}}
	tracing := &Tracing{common: GatewayTags{"a", "b", "c", "d", "e", "f"}.attributes()}
	for _, a := range tracing.attributes(f) {
		i := slices.Index(documented, string(a.Key))
		if i < 0 {
			t.Errorf("docs/tracing.md has no row for `%s`", a.Key)
			continue
		}
		documented = slices.Delete(documented, i, i+1)
	}
	if len(documented) > 0 {
		t.Errorf("docs/tracing.md has rows for what no span has: %v", documented)
	}
}

// expand spells istio.{source,destination}_x out.
func expand(name string) []string {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	alternatives, after, _ := strings.Cut(rest, "}")
	var names []string
	for _, a := range strings.Split(alternatives, ",") {
		names = append(names, expand(before+a+after)...)
	}
	return names
}

// checkPage compares the parts of a page that stand between
// <!-- NAME: written by `make docs` --> and <!-- end of NAME -->.
func checkPage(t *testing.T, name string, parts map[string]string) {
	t.Helper()
	path := "../../docs/" + name
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for part, want := range parts {
		begin, end := "<!-- "+part+": written by `make docs` -->\n", "<!-- end of "+part+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		was, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has lost the lines %q and %q that a table stands between", path, begin, end)
		}
		want = "\n" + want + "\n"
		if was != want && !*update {
			t.Errorf("%s: what is written of %s is not what the code does: run `make docs`", path, part)
		}
		page = before + begin + want + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
