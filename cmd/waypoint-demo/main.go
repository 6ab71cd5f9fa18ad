// Command waypoint-demo shows a waypoint at work: it builds a mesh on the loopback
// network of this machine, with applications, node proxies and clients of the test
// kit and a real waypoint process configured by the manifests under examples/mesh,
// and plays steps in it, each with what was expected and what was seen.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, as those of every command of ours.
const (
	exitOK     = 0
	exitFailed = 1 // a step was not as expected, or could not be played
	exitUsage  = 2
)

// errDiffers ends a demo that was played, and of which something was not as expected.
var errDiffers = errors.New("not everything was as expected")

func main() {
	// When the terminal or whoever reads our output has gone, everything has to end in order, too.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer cancel()
	context.AfterFunc(ctx, cancel) // a second Ctrl-C ends us at once
	err := newCommand().ExecuteContext(ctx)
	var failed failure
	switch {
	case err == nil:
		os.Exit(exitOK)
	case errors.Is(err, errDiffers): // it was printed
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "waypoint-demo: interrupted; everything that it started has ended")
	case errors.As(err, &failed):
		fmt.Fprintf(os.Stderr, "waypoint-demo: %v\n", err)
	default:
		fmt.Fprintf(os.Stderr, "waypoint-demo: %v\nRun 'waypoint-demo --help' for the flags and examples.\n", err)
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// options are the flags.
type options struct {
	keep     bool
	output   string
	waypoint string
	config   string
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "waypoint-demo",
		Short: "Watch a waypoint at work, on this machine alone",
		Long: `Starts a mesh on the loopback addresses 127.66.0.0/24: applications that speak HTTP, gRPC, TCP
and TLS, a node proxy for each pod, clients, and a real waypoint process that serves a copy of the
manifests under examples/mesh. Then it plays steps, and prints for each what was expected and what
was seen; at the end, what the waypoint told of it in metrics, access log and traces.

Nothing outside of those addresses and a temporary folder is touched, and all of it is gone
afterwards. Exits 0 if everything was as expected, 1 if not.`,
		Example: `  make demo                          # build, and play
  bin/waypoint-demo --keep           # leave it up afterwards, with curl lines to try
  bin/waypoint-demo --output json    # for programs`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.output != "text" && o.output != "json" {
				return fmt.Errorf("--output: %q is neither text nor json", o.output)
			}
			return run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.keep, "keep", false, "leave everything up after the steps, until Ctrl-C, and print what to try")
	f.StringVar(&o.output, "output", "text", "text or json")
	f.StringVar(&o.waypoint, "waypoint", "bin/waypoint", "the waypoint to show")
	f.StringVar(&o.config, "config", "examples/mesh", "folder of the manifests that it serves a copy of")
	return cmd
}
