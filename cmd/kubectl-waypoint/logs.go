package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

// levels of a waypoint's own log.
var levels = []string{"debug", "info", "warn", "error"}

func newLogs(cl *cluster) *cobra.Command {
	var p pod
	var level string
	o := kubectl.LogOptions{Tail: -1}
	cmd := &cobra.Command{
		Use:   "logs [WAYPOINT]",
		Short: "Show the logs of a waypoint's pods, or change what they log",
		Long: `Shows the logs of all pods of a waypoint. With --level it has all of them log at that level
first, until it is set again or they are replaced.

Pods that come later are not followed. --level needs the right to create pods/portforward.`,
		Example: `  kubectl waypoint logs -n shop --tail 20
  kubectl waypoint logs -n shop --level debug -f
  kubectl waypoint logs -n shop --level info --tail 0`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cl.waypoints(1),
		PreRunE: func(*cobra.Command, []string) error {
			if level == "" {
				return nil
			}
			return cli.OneOf("level", level, levels...)
		},
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, args []string) error {
			pods, err := c.PodsOf(cmd.Context(), first(args), p.name)
			if err != nil {
				return err
			}
			if level != "" {
				if err := c.SetLevel(cmd.Context(), pods, p.port, level, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			return c.Logs(cmd.Context(), pods, o, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on as they are written")
	f.Int64Var(&o.Tail, "tail", o.Tail, "so many lines of each pod; -1: all")
	f.DurationVar(&o.Since, "since", 0, "those of the last, such as 10m; 0: all")
	f.StringVar(&level, "level", "", "have the pods log at this level: debug, info, warn or error")
	completeWith(cmd, "level", levels...)
	p.register(cmd)
	cmd.Flag("pod").Usage = "of one pod; default: of all"
	return cmd
}
