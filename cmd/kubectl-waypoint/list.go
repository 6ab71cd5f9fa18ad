package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

func newList(cl *cluster) *cobra.Command {
	var everywhere bool
	var o output
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List waypoints",
		Example: `  kubectl waypoint list -n shop
  kubectl waypoint list -A -o json`,
		Args: cobra.NoArgs,
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, _ []string) error {
			listing, err := c.Listing(cmd.Context(), scope(c, everywhere))
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), listing)
		}),
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "those of all namespaces")
	o.register(cmd, table, asJSON, asYAML)
	return cmd
}

// scope is the namespace to look in; all of them if empty.
func scope(c *kubectl.Cluster, everywhere bool) string {
	if everywhere {
		return ""
	}
	return c.Namespace
}

func newDelete(cl *cluster) *cobra.Command {
	var d kubectl.Deletion
	cmd := &cobra.Command{
		Use:   "delete NAME... | --all | --revision REVISION",
		Short: "Delete waypoints of a namespace",
		Long: `Deletes Gateways of waypoints; what was made of them goes with them. Their services are reached
without a waypoint from then on, so that nobody enforces the policies of these services. Labels
that still ask for the waypoint are named.`,
		Example: `  kubectl waypoint delete waypoint -n shop
  kubectl waypoint delete --all -n shop`,
		Args: func(_ *cobra.Command, args []string) error {
			switch all := d.All || d.Revision != ""; {
			case all && len(args) > 0:
				return errors.New("names and --all or --revision exclude each other")
			case !all && len(args) == 0:
				return errors.New("name the waypoints to delete, or give --all or --revision")
			}
			return nil
		},
		ValidArgsFunction: cl.waypoints(100),
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, args []string) error {
			d.Names, d.Out, d.Err = args, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.Delete(cmd.Context(), d)
		}),
	}
	cmd.Flags().BoolVar(&d.All, "all", false, "all waypoints of the namespace")
	cmd.Flags().StringVarP(&d.Revision, "revision", "r", "", "all waypoints of a revision")
	return cmd
}
