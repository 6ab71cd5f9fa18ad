package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// ours is the path of this module.
const ours = "github.com/waypoint-mesh/waypoint"

// pkg is what the go command tells of one package.
type pkg struct {
	Dir        string
	ImportPath string
	Doc        string
	GoFiles    []string
	Imports    []string
	Deps       []string
	Error      *struct{ Err string }
}

// name is the package's path within the module, without internal/.
func (p pkg) name() string { return shortName(p.ImportPath) }

func shortName(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, ours+"/"), "internal/")
}

// packages asks the go command for every package of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	// A program with a profile would be listed with packages of its own, named after it.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-pgo=off",
		"-json=Dir,ImportPath,Doc,GoFiles,Imports,Deps,Error", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("output of go list: %v", err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		if len(p.GoFiles) > 0 { // else it has tests only, which may import what they like
			all = append(all, p)
		}
	}
}

// within reports whether path is prefix or lies below it.
func within(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// arrowOf finds the line of the table that a package comes under: its own, or
// that of the nearest package above it.
func arrowOf(name string) (found arrow, ok bool) {
	for _, a := range arrows {
		if within(name, a.from) && len(a.from) >= len(found.from) {
			found, ok = a, true
		}
	}
	return found, ok
}

func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		a, ok := arrowOf(p.name())
		if !ok {
			t.Errorf("%s has no line in the table of arrows: add it to internal/archtest/rules_test.go with what it may import and why, then run `make docs`", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if within(imported, ours) {
				checkArrow(t, p, a, shortName(imported))
			}
		}
	}
}

func checkArrow(t *testing.T, p pkg, a arrow, imported string) {
	to, ok := arrowOf(imported)
	if !ok || to.from == a.from || slices.Contains(a.to, anything) || slices.Contains(a.to, to.from) {
		return // an unknown target is reported as a package of its own
	}
	t.Errorf("%s imports %s, but %s (%s) may import only: %s. Move what it needs to where an arrow leads, or take what it needs as an interface or a value from whoever wires it",
		p.name(), imported, a.from, a.why, orNothing(a.to))
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing of ours"
	}
	return strings.Join(names, ", ")
}

// TestArrowsPointDown keeps the table itself readable from top to bottom, which
// also means that it has no cycle.
func TestArrowsPointDown(t *testing.T) {
	above := []string{anything}
	for _, a := range arrows {
		for _, to := range a.to {
			if !slices.Contains(above, to) {
				t.Errorf("%s may import %s, which has no line above it", a.from, to)
			}
		}
		above = append(above, a.from)
	}
}

func moduleOf(path string) (found module, ok bool) {
	for _, m := range modules {
		if within(path, m.prefix) && len(m.prefix) >= len(found.prefix) {
			found, ok = m, true
		}
	}
	return found, ok
}

// foreign reports whether an import path is neither ours nor of the standard
// library, whose paths have no dot in their first element.
func foreign(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") && !within(path, ours)
}

func TestModules(t *testing.T) {
	for _, p := range packages(t) {
		a, _ := arrowOf(p.name())
		if slices.Contains(free, a.from) {
			continue
		}
		for _, imported := range slices.DeleteFunc(p.Imports, func(path string) bool { return !foreign(path) }) {
			switch m, ok := moduleOf(imported); {
			case !ok:
				t.Errorf("%s imports %s, which nobody may import yet: add it to modules in internal/archtest/rules_test.go, with its users and the reason that the standard library does not do", p.name(), imported)
			case !slices.Contains(m.users, a.from):
				t.Errorf("%s imports %s, which only %s may: %s", p.name(), imported, strings.Join(m.users, ", "), m.why)
			}
		}
	}
}

func TestLinks(t *testing.T) {
	for _, p := range packages(t) {
		for _, l := range links {
			if p.name() != l.binary {
				continue
			}
			if i := slices.IndexFunc(p.Deps, func(dep string) bool { return within(dep, l.barred) }); i >= 0 {
				t.Errorf("%s links %s: %s. `go mod why %s` tells through what", l.binary, p.Deps[i], l.why, p.Deps[i])
			}
		}
	}
}
