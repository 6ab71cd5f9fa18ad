package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

func newConfig(cl *cluster) *cobra.Command {
	var p pod
	var o output
	var service string
	cmd := &cobra.Command{
		Use:   "config [WAYPOINT]",
		Short: "Show the configuration that a running waypoint has",
		Long: `Shows the configuration in force in a pod of a waypoint: services with their ports, endpoints,
routes and policies, and what was rejected and why. As JSON or YAML it is the whole of it, as
docs/admin.md describes it for /snapshot; the table has a line for each port.

It needs the right to create pods/portforward in the waypoint's namespace.`,
		Example: `  kubectl waypoint config -n shop
  kubectl waypoint config -n shop --service shop/cart -o yaml
  kubectl waypoint config waypoint -n shop --pod waypoint-6f7d-x2v -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cl.waypoints(1),
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, args []string) error {
			admin, err := p.admin(cmd.Context(), c, first(args))
			if err != nil {
				return err
			}
			defer admin.Close()
			raw, err := admin.Snapshot(cmd.Context(), service)
			if err != nil {
				return err
			}
			snapshot, err := kubectl.ReadSnapshot(raw, service != "")
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), snapshot)
		}),
	}
	cmd.Flags().StringVar(&service, "service", "", "of one service alone: NAMESPACE/NAME or NAMESPACE/HOSTNAME")
	complete(cmd, "service", cl.services)
	p.register(cmd)
	o.register(cmd, table, asJSON, asYAML)
	return cmd
}
