// Command waypoint-controller deploys the waypoints that Gateways ask for, gives
// them their configuration, and says on the objects what became of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/controller"
)

// Set by the linker.
var (
	version = "unknown"
	commit  = "unknown"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a fault in how the command was called.
type usageError struct{ error }

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := execute(ctx, newRoot())
	cancel()
	os.Exit(code)
}

func execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
	if _, usage := errors.AsType[usageError](err); usage {
		fmt.Fprintf(cmd.ErrOrStderr(), "Run '%s --help' for the flags.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "waypoint-controller",
		Short: "Deploys and configures the waypoints that Gateways ask for",
		Long: `Runs until it is told to end. Replicas share the work: each serves waypoints their
configuration, one of them, the leader, writes to the API server.`,
		Args:          cobra.NoArgs,
		Version:       version + ", commit " + commit,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := o.settings(cmd)
			if err != nil {
				return usageError{err}
			}
			return controller.Run(cmd.Context(), settings)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.Flags().SortFlags = false
	o.register(root.Flags())
	return root
}
