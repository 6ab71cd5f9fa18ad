package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
)

// run runs a command line without a cluster.
func run(t *testing.T, args ...string) (code int, out, stderr string) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	var o, e bytes.Buffer
	root := newRoot()
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetArgs(args)
	code = cli.Execute(t.Context(), root)
	return code, o.String(), e.String()
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string // on standard error
	}{
		"no such command":     {[]string{"restart"}, 2, "restart"},
		"no such flag":        {[]string{"list", "--everywhere"}, 2, "Run 'kubectl waypoint list --help'"},
		"no such format":      {[]string{"list", "-o", "xml"}, 2, "none of table, json, yaml"},
		"no such traffic":     {[]string{"generate", "--for", "x"}, 2, "none of service, workload, all, none"},
		"a reserved name":     {[]string{"apply", "--name", "none"}, 2, `"none" is what services are labelled`},
		"an argument":         {[]string{"apply", "waypoint"}, 2, "waypoint"},
		"nothing to delete":   {[]string{"delete"}, 2, "name the waypoints to delete"},
		"two ways to delete":  {[]string{"delete", "a", "--all"}, 2, "exclude each other"},
		"everything and one":  {[]string{"status", "a", "-A"}, 2, "a waypoint has one namespace"},
		"no client":           {[]string{"explain", "--to", "a:80"}, 2, "--from is needed"},
		"half a request":      {[]string{"explain", "--from", "spiffe://a/b", "--to", "a:80", "GET"}, 2, "METHOD and URL"},
		"no such level":       {[]string{"logs", "--level", "loud"}, 2, "none of debug, info, warn, error"},
		"no cluster":          {[]string{"list", "--server", "http://127.0.0.1:1"}, 1, "the API server does not answer"},
		"a context of no one": {[]string{"list", "--context", "x"}, 1, `context "x" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := run(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, want %d and %q in\n%s%s", code, c.code, c.want, out, stderr)
			}
		})
	}
}

func TestGenerate(t *testing.T) {
	code, out, _ := run(t, "generate", "-n", "shop", "--name", "", "-r", "canary", "--for", "workload")
	for _, want := range []string{"namespace: shop", "name: waypoint", "istio.io/rev: canary", "istio.io/waypoint-for: workload"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
	if _, out, _ = run(t, "generate", "-o", "json"); strings.Contains(out, "namespace") || !strings.HasPrefix(out, "{") {
		t.Errorf("without a namespace, as JSON:\n%s", out)
	}
}

func TestCompletion(t *testing.T) {
	if got := arguments([]string{"/usr/bin/" + completer, "status", ""}); !slices.Equal(got, []string{"__complete", "status", ""}) {
		t.Errorf("kubectl's question is taken for %q", got)
	}
	if got := arguments([]string{"/usr/bin/kubectl-waypoint", "status"}); !slices.Equal(got, []string{"status"}) {
		t.Errorf("a command line is taken for %q", got)
	}
	for want, args := range map[string][]string{
		"explain":        {"e"},
		"workload\n":     {"apply", "--for", ""},
		"yaml\n":         {"status", "-o", ""},
		"debug\n":        {"logs", "--level", ""},
		":4\nCompletion": {"status", "--server", "http://127.0.0.1:1", ""}, // no cluster: nothing, and no files
	} {
		if _, out, stderr := run(t, append([]string{cobra.ShellCompRequestCmd}, args...)...); !strings.Contains(out+stderr, want) {
			t.Errorf("%q: no %q in %q %q", args, want, out, stderr)
		}
	}
}

// TestHelp: whoever asks for help gets an example, and the page has every flag.
func TestHelp(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot().Commands() {
		if cmd.Name() == "version" || cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.Name())
		}
		_, section, ok := strings.Cut(string(page), "\n## "+cmd.Name()+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !ok {
			t.Errorf("docs/kubectl.md has no section on %s", cmd.Name())
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(section, "--"+f.Name) {
				t.Errorf("docs/kubectl.md says nothing of %s --%s", cmd.Name(), f.Name)
			}
		})
	}
}
