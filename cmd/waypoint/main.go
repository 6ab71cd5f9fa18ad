// Command waypoint is the L7 gateway of an ambient mesh, and the tools of those
// who use it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Execute(context.Background(), newRoot()))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "waypoint",
		Short:         "The L7 gateway of an ambient mesh",
		Long:          rootHelp,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.UsageArgs(cobra.NoArgs), // what is no command
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(newRun(), newValidate(), newExplain(), newTunnel(), newCerts(), newVersion())
	for _, cmd := range root.Commands() {
		bindEnvironment(cmd)
		cmd.Args = cli.UsageArgs(cmd.Args)
	}
	return root
}

// noArguments is cobra.NoArgs for people who forget a flag.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("config") != nil:
		return fmt.Errorf("%q is no flag; for manifests write --config %s", args[0], args[0])
	}
	return fmt.Errorf("%q is no flag, and there are no arguments", args[0])
}

const rootHelp = `Waypoint terminates the HBONE tunnels of an ambient mesh, routes and authorises
the requests inside, and tunnels them on to their destination.

To try it without a cluster, on a folder of manifests:

  waypoint validate --config mesh/
  waypoint certs --out certs --id spiffe://cluster.local/ns/default/sa/waypoint
  waypoint run --config mesh/ --cert certs/cert.pem --key certs/key.pem --root certs/ca.pem`
