package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/flags.md")

// TestDocs keeps the page and the program one thing.
func TestDocs(t *testing.T) {
	const path, begin, end = "../../docs/flags.md", "<!-- flags: written by `make docs` -->\n", "<!-- end of flags -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has lost the lines %q and %q that the commands stand between", path, begin, end)
	}
	var want strings.Builder
	for _, cmd := range newRoot().Commands() {
		section(&want, cmd)
	}
	want.WriteString("\n")
	switch {
	case was == want.String():
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the commands in %s are not those that there are: run `make docs`", path)
	}
}

// section writes the help of a command as a section of the page.
func section(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n    %s\n\n", cmd.CommandPath(), cmd.Short, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	if cmd.Long != "" {
		fmt.Fprintf(b, "%s\n\n", cmd.Long)
	}
	if cmd.HasLocalFlags() {
		b.WriteString("| flag | environment | default | meaning |\n|---|---|---|---|\n")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { row(b, f) })
		b.WriteString("\n")
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
}

func row(b *strings.Builder, f *pflag.Flag) {
	if f.Name == "help" {
		return
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name += "`, `-" + f.Shorthand
	}
	byDefault := ""
	if f.DefValue != "" && f.DefValue != "[]" {
		byDefault = "`" + shortened(f.DefValue) + "`"
	}
	environment := environmentName(f.Name)
	meaning := strings.TrimSuffix(f.Usage, " ("+environment+")") // the help has it there
	fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", name, environment, byDefault, strings.ReplaceAll(meaning, "|", `\|`))
}

// shortened writes 1h0m0s as 1h.
func shortened(value string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(value, zero) {
			value = value[:len(value)-2]
		}
	}
	return value
}
