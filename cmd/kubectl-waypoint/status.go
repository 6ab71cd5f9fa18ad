package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

func newStatus(cl *cluster) *cobra.Command {
	var everywhere bool
	var mesh kubectl.Mesh
	var o output
	cmd := &cobra.Command{
		Use:   "status [WAYPOINT]",
		Short: "Tell what became of waypoints, and what goes around them",
		Long: `Tells of one waypoint, or of all of a namespace: its conditions and pods, the services that ask
for it and whether they have it, its routes and policies and what became of them, what goes
around it and why, and what in its namespaces does nothing at all.

What is said of services, routes and policies is what the controller says of them, by the same
code, on the objects as they are now: it is right before the controller has written it, and
without a controller. Kinds that you may not list in all namespaces are named at the end.`,
		Example: `  kubectl waypoint status -n shop
  kubectl waypoint status strict -n shop -o yaml
  kubectl waypoint status -A`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cl.waypoints(1),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if everywhere && len(args) > 0 {
				return cli.Usagef("a waypoint has one namespace: name it by --namespace, or give --all-namespaces alone")
			}
			return nil
		},
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, args []string) error {
			gateways, err := c.Chosen(cmd.Context(), first(args), everywhere)
			if err != nil {
				return err
			}
			status, err := c.Status(cmd.Context(), gateways, mesh)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), status)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&everywhere, "all-namespaces", "A", false, "all waypoints of all namespaces")
	f.StringVar(&mesh.TrustDomain, "trust-domain", "cluster.local", "trust domain of the mesh")
	f.StringVar(&mesh.RootNamespace, "root-namespace", "istio-system", "namespace whose policies hold for all")
	o.register(cmd, table, asJSON, asYAML)
	return cmd
}
