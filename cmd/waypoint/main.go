// Command waypoint is the L7 gateway of an ambient mesh, and the tools of those
// who use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // it failed, or faults were found
	exitUsage  = 2 // it was called wrongly
)

func main() {
	os.Exit(execute(context.Background(), newRoot()))
}

// execute runs a command line and turns its error into an exit code. Commands that
// serve end with ctx.
func execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, usage := errors.AsType[usageError](err)
	switch {
	case usage:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
		fmt.Fprintf(cmd.ErrOrStderr(), "Run '%s --help' for the flags and examples.\n", cmd.CommandPath())
		return exitUsage
	case errors.Is(err, errFaults): // the report has been printed
		return exitFailed
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
	return exitFailed
}

// usageError is a fault in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// errFaults ends a command that did its work and found what it looked for.
var errFaults = errors.New("faults were found")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "waypoint",
		Short:         "The L7 gateway of an ambient mesh",
		Long:          rootHelp,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs), // what is no command
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newRun(), newValidate(), newExplain(), newTunnel(), newCerts(), newVersion())
	for _, cmd := range root.Commands() {
		bindEnvironment(cmd)
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
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
