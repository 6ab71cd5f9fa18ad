package archtest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/architecture.md")

const (
	page  = "../../docs/architecture.md"
	begin = "<!-- arrows: written by `make docs` -->\n"
	end   = "<!-- end of arrows -->\n"
)

// TestDocs keeps the page and the rules one thing: the table in the page is the
// one that is enforced.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has lost the lines %q and %q that the table stands between", page, begin, end)
	}
	want := table()
	switch {
	case was == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is not the one that is enforced: run `make docs`", page)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| package | may import | what it is |\n|---|---|---|\n")
	for _, a := range arrows {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.from, orNothing(a.to), a.why)
	}
	b.WriteString("\n| module | imported by | why |\n|---|---|---|\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.prefix, strings.Join(m.users, ", "), m.why)
	}
	b.WriteString("\n| binary | must not link | why |\n|---|---|---|\n")
	for _, l := range links {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", l.binary, shortName(l.barred), l.why)
	}
	b.WriteString("\n")
	return b.String()
}
