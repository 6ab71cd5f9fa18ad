package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/ask"
	"github.com/waypoint-mesh/waypoint/internal/explain"
	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

func newExplain(cl *cluster) *cobra.Command {
	var q ask.Flags
	var question explain.Question
	var p pod
	var o output
	var waypoint string
	cmd := &cobra.Command{
		Use:   "explain --from spiffe://... --to TARGET [METHOD URL]",
		Short: "Tell what a running waypoint would do with a request, and why",
		Long: `Asks a running waypoint which service and protocol a request is for, which policy and rule
allows or denies it, which route and rule it follows, what filters do to it, and which endpoints
may get it. Flags and answer are those of 'waypoint explain'. Without METHOD and URL the question
is about a TCP connection.

It needs the right to create pods/portforward in the waypoint's namespace.`,
		Example: `  kubectl waypoint explain -n shop --from spiffe://cluster.local/ns/shop/sa/web \
    --to cart.shop.svc.cluster.local:80 GET /items -H 'x-canary: 1'

  kubectl waypoint explain -n db --name strict --from spiffe://cluster.local/ns/shop/sa/web \
    --to mysql.db.svc.cluster.local:3306 -o json`,
		Args: ask.Args,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			question, err = q.Question(args)
			return err
		},
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, _ []string) error {
			admin, err := p.admin(cmd.Context(), c, waypoint)
			if err != nil {
				return err
			}
			defer admin.Close()
			answer, err := ask.Running(cmd.Context(), admin.URL, question)
			if err != nil {
				return err
			}
			return ask.Print(cmd.OutOrStdout(), answer, o.format == asJSON)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&waypoint, "name", "", "waypoint to ask; default: the namespace's only one, or "+kubectl.DefaultName)
	complete(cmd, "name", cl.waypoints(1))
	q.Register(cmd.Flags())
	p.register(cmd)
	o.register(cmd, plain, asJSON)
	return cmd
}
