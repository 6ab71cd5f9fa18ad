package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
)

// TestWrongUsage: exit code 2, the flag by its name, and what was expected.
func TestWrongUsage(t *testing.T) {
	pems := []string{"--cert", "c", "--key", "k", "--root", "r"}
	run := func(more ...string) []string {
		return append(append([]string{"run", "--config", "."}, pems...), more...)
	}
	tunnel := func(more ...string) []string { return append(append([]string{"tunnel"}, pems...), more...) }
	explain := func(more ...string) []string {
		return append([]string{"explain", "--config", ".", "--from", clientID, "--to", "10.0.0.1:80"}, more...)
	}
	tests := []struct {
		name string
		args []string
		says []string
	}{
		{"no such command", []string{"serve"}, []string{`unknown command "serve"`, "waypoint --help"}},
		{"no such flag", []string{"version", "--long"}, []string{"--long"}},
		{"an argument too many", []string{"run", "mesh/"}, []string{"--config mesh/", "waypoint run --help"}},
		{"an argument of a command without manifests", []string{"version", "x"}, []string{`"x"`, "no arguments"}},

		{"run: no configuration", []string{"run"}, []string{"--config is needed", "folder or file", "--xds"}},
		{"run: two configurations", run("--xds", "a:1"), []string{"--config and --xds exclude each other"}},
		{"run: --state-dir", run("--state-dir", "state"), []string{"--state-dir belong to --xds"}},
		{"run: --xds without --gateway", []string{"run", "--xds", "a:1"}, []string{"--gateway NAMESPACE/NAME is needed with --xds"}},
		{"run: --xds", []string{"run", "--xds", "a", "--gateway", "shop/waypoint"}, []string{"--xds", "HOST:PORT"}},
		{"run: no certificates", []string{"run", "--config", "."}, []string{"waypoint certs --out certs --id spiffe://cluster.local/ns/default/sa/waypoint", "--cert certs/cert.pem"}},
		{"run: a certificate without a key", []string{"run", "--config", ".", "--cert", "c"}, []string{"--cert, --key and --root belong together"}},
		{"run: a CA without a token", []string{"run", "--config", ".", "--ca", "a:1", "--ca-root", "r"}, []string{"--ca, --ca-root and --ca-token belong together"}},
		{"run: files and a CA", run("--ca", "a:1"), []string{"exclude each other"}},
		{"run: a CA and an agent", []string{"run", "--config", ".", "--ca", "a:1", "--workload-api", "/s"}, []string{"exclude each other"}},
		{"run: --ca", []string{"run", "--config", ".", "--ca", "istiod", "--ca-root", "r", "--ca-token", "t"}, []string{"--ca", "HOST:PORT"}},
		{"run: --cluster-id", run("--cluster-id", "c"), []string{"--cluster-id belongs to --ca"}},
		{"run: --cert-ttl", run("--cert-ttl", "0s"), []string{"--cert-ttl", "a second at least"}},
		{"run: --workload-api", []string{"run", "--config", ".", "--workload-api", "agent.sock"}, []string{"--workload-api", "unix:///PATH"}},
		{"run: --identity", []string{"run", "--config", ".", "--workload-api", "/s", "--identity", "me"}, []string{"--identity", "spiffe://"}},
		{"run: --identity of another mesh", []string{"run", "--config", ".", "--workload-api", "/s", "--identity", "spiffe://other/ns/a/sa/b"}, []string{"--identity", "--trust-domain cluster.local"}},
		{"run: --identity of files", run("--identity", clientID), []string{"--identity belongs to --ca or --workload-api"}},
		{"run: --gateway", run("--gateway", "waypoint"), []string{"--gateway", "NAMESPACE/NAME"}},
		{"run: --access-log", run("--access-log", "xml"), []string{"--access-log", "off, text, json"}},
		{"run: --log-format", run("--log-format", "xml"), []string{"--log-format", "text, json"}},
		{"run: --log-level", run("--log-level", "loud"), []string{"--log-level", "debug, info, warn, error"}},
		{"run: --client-headers", run("--client-headers", "maybe"), []string{"--client-headers", "on, off"}},
		{"run: --task-mode", run("--task-mode", "threads"), []string{"--task-mode", "coroutines, goroutines"}},
		{"run: --listen", run("--listen", "15008"), []string{"--listen", "HOST:PORT or :PORT"}},
		{"run: a port that is none", run("--listen", ":99999"), []string{"--listen", "from 0 to 65535"}},
		{"run: --status", run("--status", "x"), []string{"--status"}},
		{"run: --metrics", run("--metrics", "x"), []string{"--metrics"}},
		{"run: --admin", run("--admin", "x"), []string{"--admin"}},
		{"run: --drain-delay", run("--drain-delay", "-1s"), []string{"--drain-delay", "must not be negative"}},
		{"run: a duration without a unit", run("--idle-timeout", "5"), []string{"--idle-timeout", "missing unit"}},
		{"run: --handshake-timeout", run("--handshake-timeout", "0s"), []string{"--handshake-timeout", "must be positive"}},
		{"run: --trace-sampling", run("--trace-sampling", "101"), []string{"--trace-sampling", "from 0 to 100"}},
		{"run: --max-connections", run("--max-connections", "-1"), []string{"--max-connections"}},
		{"run: --max-header-bytes", run("--max-header-bytes", "10"), []string{"--max-header-bytes", "from 1024"}},
		{"run: --max-header-bytes above a window", run("--max-header-bytes", "262145"), []string{"--max-header-bytes", "to 262144"}},
		{"run: --max-headers", run("--max-headers", "1"), []string{"--max-headers", "from 10"}},
		{"run: --otlp-endpoint", run("--otlp-endpoint", "collector"), []string{"--otlp-endpoint", "http://HOST:PORT"}},
		{"run: --trusted-hops", run("--trusted-hops", "waypoint"), []string{"--trusted-hops", "spiffe://"}},

		{"validate: no configuration", []string{"validate"}, []string{"--config is needed"}},
		{"validate: --output", []string{"validate", "--config", ".", "--output", "xml"}, []string{"--output", "text, json"}},
		{"validate: --gateway", []string{"validate", "--config", ".", "--gateway", "x"}, []string{"--gateway", "NAMESPACE/NAME"}},

		{"explain: nobody to ask", []string{"explain"}, []string{"one of --config and --admin is needed"}},
		{"explain: two to ask", explain("--admin", "http://x"), []string{"--config and --admin exclude each other"}},
		{"explain: no client", []string{"explain", "--config", "."}, []string{"--from is needed"}},
		{"explain: no target", []string{"explain", "--config", ".", "--from", clientID}, []string{"--to is needed"}},
		{"explain: a method alone", explain("GET"), []string{"METHOD and URL"}},
		{"explain: --from", []string{"explain", "--config", ".", "--from", "me", "--to", "a:1"}, []string{"--from", "spiffe://"}},
		{"explain: --to", []string{"explain", "--config", ".", "--from", clientID, "--to", "a"}, []string{"--to", "host:port"}},
		{"explain: --from-ip", explain("--from-ip", "here"), []string{"--from-ip", "here"}},
		{"explain: --header", explain("-H", "x-canary", "GET", "/"), []string{"-H", "'name: value'"}},
		{"explain: --output", explain("--output", "xml"), []string{"--output", "text, json"}},

		{"tunnel: no waypoint", tunnel(), []string{"--waypoint is needed", "15008"}},
		{"tunnel: nothing to carry", tunnel("--waypoint", "a:1"), []string{"--forward LOCAL=TARGET or --socks5 LOCAL"}},
		{"tunnel: no certificates", []string{"tunnel", "--waypoint", "a:1", "--socks5", ":0"}, []string{"--cert, --key and --root are needed"}},
		{"tunnel: --waypoint", tunnel("--waypoint", "127.0.0.1", "--socks5", ":0"), []string{"--waypoint", "HOST:PORT"}},
		{"tunnel: --waypoint-id", tunnel("--waypoint", "127.0.0.1:1", "--socks5", ":0", "--waypoint-id", "x"), []string{"--waypoint-id", "spiffe://"}},
		{"tunnel: --forward without a target", tunnel("--waypoint", "a:1", "--forward", ":80"), []string{"--forward", "LOCAL=TARGET"}},
		{"tunnel: --forward to no port", tunnel("--waypoint", "a:1", "--forward", ":80=b"), []string{"--forward", "host:port"}},
		{"tunnel: --forward from no port", tunnel("--waypoint", "a:1", "--forward", "80=b:80"), []string{"--forward", "HOST:PORT or :PORT"}},
		{"tunnel: --socks5", tunnel("--waypoint", "a:1", "--socks5", "1080"), []string{"--socks5", "HOST:PORT or :PORT"}},

		{"certs: nothing said", []string{"certs"}, []string{"--out and --id are needed"}},
		{"certs: --id", []string{"certs", "--out", "x", "--id", "waypoint"}, []string{"--id", "spiffe://"}},
		{"certs: --ttl", []string{"certs", "--out", "x", "--id", clientID, "--ttl", "0s"}, []string{"--ttl", "must be positive"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { waypoint(t, tt.args...).want(t, cli.ExitUsage, tt.says...) })
	}
}

func TestVersionFlag(t *testing.T) {
	waypoint(t, "--version").want(t, cli.ExitOK, "waypoint version "+version)
}

func TestHelp(t *testing.T) {
	waypoint(t).want(t, cli.ExitOK, "Available Commands:", "waypoint certs --out")
	for _, cmd := range newRoot().Commands() {
		t.Run(cmd.Name(), func(t *testing.T) {
			says := []string{"Usage:"}
			if cmd.HasLocalFlags() {
				says = append(says, "Examples:", "  waypoint "+cmd.Name())
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { says = append(says, "--"+f.Name, environmentName(f.Name)) })
			waypoint(t, cmd.Name(), "--help").want(t, cli.ExitOK, says...)
		})
	}
}

// valid is a value that each type of flag takes and none has by default.
var valid = map[string]string{
	"string": "from-outside", "stringSlice": "from,outside", "stringArray": "from-outside", "duration": "1m7s", "int": "4711", "float64": "47.11", "bool": "true",
}

// TestEveryFlagHasItsVariable: the variable holds, and the flag wins over it.
func TestEveryFlagHasItsVariable(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			t.Run(cmd.Name()+" --"+f.Name, func(t *testing.T) {
				value, ok := valid[f.Value.Type()]
				if !ok {
					t.Fatalf("no value of type %s is known to this test", f.Value.Type())
				}
				t.Setenv("WAYPOINT_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), value)
				read := valueOf(t, cmd.Name(), f.Name)
				if read == f.DefValue || !strings.Contains(read, strings.Split(value, ",")[0]) {
					t.Errorf("the value is %s, expected %s", read, value)
				}
				if over := valueOf(t, cmd.Name(), f.Name, "--"+f.Name+"="+f.DefValue); over == read {
					t.Errorf("the variable wins over the flag")
				}
			})
		})
	}
}

// valueOf is what a flag of a command is worth on a command line.
func valueOf(t *testing.T, command, flag string, args ...string) string {
	t.Helper()
	root := newRoot()
	cmd, _, err := root.Find([]string{command})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := readEnvironment(cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	return cmd.Flags().Lookup(flag).Value.String()
}

func TestBadVariable(t *testing.T) {
	t.Setenv("WAYPOINT_DRAIN_DELAY", "soon")
	waypoint(t, "run").want(t, cli.ExitUsage, "WAYPOINT_DRAIN_DELAY", "--drain-delay", `"soon"`)
}

func TestEnvironmentSetsUpARun(t *testing.T) {
	t.Setenv("WAYPOINT_CONFIG", t.TempDir())
	waypoint(t, "run").want(t, cli.ExitUsage, "--cert, --key and --root are needed")
}

func TestVersion(t *testing.T) {
	waypoint(t, "version").want(t, cli.ExitOK, "waypoint "+version, "commit "+commit, "go1.")
}
