package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/flags.md")

// TestDocs keeps the page and the program one thing.
func TestDocs(t *testing.T) {
	const path, begin, end = "../../docs/flags.md", "<!-- controller: written by `make docs` -->\n", "<!-- end of controller -->\n"
	t.Setenv("POD_NAMESPACE", "") // it is the default of a flag
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has lost the lines %q and %q that the flags stand between", path, begin, end)
	}
	want := "\n" + table() + "\n"
	switch {
	case was == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the flags in %s are not those that there are: run `make docs`", path)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	newRoot().Flags().VisitAll(func(f *pflag.Flag) {
		byDefault := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			byDefault = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, byDefault, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return b.String()
}
