package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pages are those for people who run waypoints.
var pages = []string{
	"README.md", "deployments/README.md", "docs/installation.md", "docs/operations.md", "docs/coming-from-istio.md",
	"docs/getting-started.md", "docs/kubectl.md", "docs/troubleshooting.md", "docs/certificates.md", "docs/configuration.md",
}

var (
	fenced     = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```")
	indented   = regexp.MustCompile(`(?m)^    (.*)\n`)
	longFlag   = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z0-9-]*)`)
	inlineFlag = regexp.MustCompile("`(--[a-z][a-z0-9-]*)[^`]*`")
	setValue   = regexp.MustCompile(`(?:--set[ =]|` + "`)" + `((?:image|mesh|gatewayClass|controller|webhook)\.[A-Za-z.]+)`)
	metric     = regexp.MustCompile("[`(](waypoint_[a-z_]+)")
	ourFile    = regexp.MustCompile("`((?:deployments|docs|test|examples|internal|tools)/[a-zA-Z0-9_./-]+)`")
)

// commands are the lines of a page that are to be typed.
func commands(page string) (lines []string) {
	var text strings.Builder
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		text.WriteString(block[1])
	}
	for _, line := range indented.FindAllStringSubmatch(page, -1) {
		text.WriteString(line[1] + "\n")
	}
	for line := range strings.Lines(strings.ReplaceAll(text.String(), "\\\n", " ")) {
		line, _, _ = strings.Cut(line, " #")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// TestCommands: what pages tell people to type exists.
func TestCommands(t *testing.T) {
	seen := map[string]int{}
	for _, name := range pages {
		for _, line := range commands(read(t, root+"/"+name)) {
			words := strings.Fields(line)
			var fault string
			switch {
			case len(words) < 2:
				continue
			case words[0] == "make":
				fault = checkMake(t, words[1:])
			case filepath.Base(words[0]) == "waypoint":
				fault = checkWaypoint(t, words[1], line)
			case words[0] == "kubectl" && words[1] == "waypoint" && len(words) > 2:
				fault = checkPlugin(t, words[2], line)
			default:
				continue
			}
			seen[filepath.Base(words[0])]++
			if fault != "" {
				t.Errorf("%s: %s: %s", name, line, fault)
			}
		}
	}
	for _, tool := range []string{"make", "waypoint", "kubectl"} {
		if seen[tool] < 5 {
			t.Errorf("only %d commands of %s found: has the form of the pages changed?", seen[tool], tool)
		}
	}
}

func checkMake(t *testing.T, targets []string) string {
	t.Helper()
	makefile := read(t, root+"/Makefile")
	for _, target := range targets {
		if !strings.Contains(target, "=") && !strings.Contains(makefile, "\n"+target+":") {
			return "there is no such target"
		}
	}
	return ""
}

func checkWaypoint(t *testing.T, command, line string) string {
	t.Helper()
	section, known := sections(read(t, root+"/docs/flags.md"))["waypoint "+command]
	if !known {
		return "there is no such command"
	}
	for _, flag := range longFlag.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(section, "`"+flag[1]+"`") {
			return "it has no flag " + flag[1]
		}
	}
	return ""
}

func checkPlugin(t *testing.T, command, line string) string {
	t.Helper()
	source := pluginSource(t)
	if !regexp.MustCompile(`Use: +"` + command + `[ "]`).MatchString(source) {
		return "there is no such command"
	}
	for _, flag := range longFlag.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(source, `"`+flag[1][2:]+`"`) {
			return "it has no flag " + flag[1]
		}
	}
	return ""
}

// pluginSource is all of the plugin's commands: its flags are literals in it.
func pluginSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"/cmd/kubectl-waypoint/*.go", "/cmd/internal/*/*.go"} {
		files, err := filepath.Glob(root + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no source of the plugin: %v", err)
		}
		for _, f := range files {
			all.WriteString(read(t, f))
		}
	}
	return all.String()
}

// othersFlags are flags of other programs that pages speak of.
var othersFlags = []string{"--create-namespace", "--set", "--concurrency"}

// TestNames: flags, values of the chart, metrics and files that pages speak of exist.
func TestNames(t *testing.T) {
	flags, plugin := read(t, root+"/docs/flags.md"), pluginSource(t)
	metrics := read(t, root+"/docs/metrics.md") + controllerMetrics(t)
	values := chartValues(t)
	for _, name := range pages {
		page := read(t, root+"/"+name)
		for _, found := range inlineFlag.FindAllStringSubmatch(page, -1) {
			f := found[1]
			if !strings.Contains(flags, "`"+f+"`") && !strings.Contains(plugin, `"`+f[2:]+`"`) && !slices.Contains(othersFlags, f) {
				t.Errorf("%s: nothing has a flag %s", name, f)
			}
		}
		for _, found := range setValue.FindAllStringSubmatch(page, -1) {
			if !hasValue(values, strings.TrimRight(found[1], ".")) {
				t.Errorf("%s: the chart has no value %s", name, found[1])
			}
		}
		for _, found := range metric.FindAllStringSubmatch(page, -1) {
			base := strings.TrimSuffix(found[1], "_bucket")
			if !strings.Contains(metrics, base) {
				t.Errorf("%s: there is no metric %s", name, found[1])
			}
		}
		for _, found := range ourFile.FindAllStringSubmatch(page, -1) {
			if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func chartValues(t *testing.T) (values map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, root+"/deployments/chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// hasValue looks for a path; below an empty map anything goes.
func hasValue(values map[string]any, path string) bool {
	first, rest, deeper := strings.Cut(path, ".")
	value, ok := values[first]
	below, isMap := value.(map[string]any)
	switch {
	case !ok || !deeper:
		return ok
	case !isMap:
		return false
	}
	return len(below) == 0 || hasValue(below, rest)
}

var metricName = regexp.MustCompile(`"_?([a-z]+(?:_[a-z]+)*)"`)

// controllerMetrics are the controller's own, as its source names them.
func controllerMetrics(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, found := range metricName.FindAllStringSubmatch(read(t, root+"/internal/controller/metrics.go"), -1) {
		all.WriteString("waypoint_controller_" + found[1] + "\n")
	}
	return all.String()
}
