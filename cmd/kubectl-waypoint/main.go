// Command kubectl-waypoint is a plugin of kubectl: with it on the PATH,
// `kubectl waypoint` makes waypoints, tells what became of them, and asks them.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	kubectl.Quiet()
	root := newRoot()
	root.SetArgs(arguments(os.Args))
	code := cli.Execute(ctx, root)
	cancel()
	os.Exit(code)
}

// completer is the name by which kubectl calls a plugin to complete its arguments;
// a link of that name to this program is all that it takes.
const completer = "kubectl_complete-waypoint"

// arguments are those of a command line, of which the first is the program.
func arguments(line []string) []string {
	if filepath.Base(line[0]) == completer {
		return append([]string{cobra.ShellCompRequestCmd}, line[1:]...)
	}
	return line[1:]
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-waypoint",
		Short: "Make waypoints, see what became of them, and ask them",
		Long: `Makes waypoints of Gateways, tells which services, routes and policies they have and what goes
around them, and asks running ones. It acts with the rights of your kubeconfig.

Whoever knows 'istioctl waypoint' finds the same commands and flags here.`,
		Example: `  # A waypoint for the services of namespace shop, which is ready when the command ends
  kubectl waypoint apply -n shop --enroll-namespace --wait

  # What it does, and what goes around it
  kubectl waypoint status -n shop

  # What would become of a request
  kubectl waypoint explain -n shop --from spiffe://cluster.local/ns/shop/sa/web \
    --to cart.shop.svc.cluster.local:80 GET /items`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl waypoint"},
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.UsageArgs(cobra.NoArgs), // what is no command
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(cli.FlagError)
	cl := newCluster(root)
	root.AddCommand(newGenerate(cl), newApply(cl), newList(cl), newStatus(cl), newDelete(cl), newExplain(cl), newConfig(cl), newLogs(cl), newVersion())
	for _, cmd := range root.Commands() {
		cmd.Args = cli.UsageArgs(cmd.Args)
	}
	return root
}
