package admin

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/")

// TestDocs keeps the page and the ports one thing.
func TestDocs(t *testing.T) {
	const path, begin, end = "../../docs/admin.md", "<!-- pages: written by `make docs` -->\n", "<!-- end of pages -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has lost the lines %q and %q that the tables stand between", path, begin, end)
	}
	o := options()
	want := table("Status port: 15021 (`--status`)", statusPages(o.Ready)) +
		table("Metrics port: 15020 (`--metrics`)", metricsPages(o.Metrics)) +
		table("Admin port: 127.0.0.1:15000 (`--admin`)", adminPages(o)) + "\n"
	switch {
	case was == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tables in %s are not the pages that there are: run `make docs`", path)
	}
}

func table(title string, pages []page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| | path | what |\n|---|---|---|\n", title)
	for _, p := range pages {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", strings.Join(p.methods, ", "), strings.ReplaceAll(p.show, "|", `\|`), p.doc)
	}
	return b.String()
}
