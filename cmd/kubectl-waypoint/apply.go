package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

// wanted are the flags that say what a waypoint is to be like.
type wanted struct{ kubectl.Wanted }

func (w *wanted) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.Name, "name", kubectl.DefaultName, "name of the waypoint")
	f.StringVar(&w.Class, "class", kubectl.DefaultClass, "GatewayClass that serves it")
	f.StringVar(&w.For, "for", "", "which traffic it takes: service, workload, all or none; default: what its class says, else service")
	f.StringVarP(&w.Revision, "revision", "r", "", "revision of the control plane that is to serve it")
	completeWith(cmd, "for", kubectl.Traffic...)
}

func (w *wanted) check() error {
	if w.Name == "" {
		w.Name = kubectl.DefaultName // as istioctl takes it
	}
	if w.Name == "none" {
		return cli.Usagef(`--name: "none" is what services are labelled with that want no waypoint`)
	}
	if w.For == "" {
		return nil
	}
	return cli.OneOf("for", w.For, kubectl.Traffic...)
}

func newGenerate(cl *cluster) *cobra.Command {
	var w wanted
	var o output
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Print the Gateway of a waypoint, to be kept in files",
		Long: `Prints the Gateway that 'apply' would apply, and asks no cluster. Without --namespace it names
none, and belongs where it is applied.`,
		Example: `  kubectl waypoint generate --for all > waypoint.yaml

  kubectl waypoint generate -n shop | kubectl apply --server-side -f -`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return w.check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			w.Namespace = *cl.flags.Namespace
			return o.data(cmd.OutOrStdout(), w.Manifest())
		},
	}
	w.register(cmd)
	o.register(cmd, asYAML, asJSON)
	return cmd
}

func newApply(cl *cluster) *cobra.Command {
	var w wanted
	var a kubectl.Apply
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make a waypoint, or change one",
		Long: `Applies the Gateway of a waypoint, server-side and as field manager kubectl-waypoint: what others
have set stays, and where they have set what is asked for to something else, nothing is changed.

With --enroll-namespace the namespace is labelled so that its services use the waypoint, after
the waypoint is ready if --wait is given too.`,
		Example: `  # A waypoint for the namespace's services, ready when the command ends
  kubectl waypoint apply -n shop --enroll-namespace --wait

  # One that takes calls to pod addresses as well
  kubectl waypoint apply -n shop --for all

  # Another one beside it, for the services that are labelled with its name
  kubectl waypoint apply -n shop --name strict`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return w.check() },
		RunE: cl.run(func(cmd *cobra.Command, c *kubectl.Cluster, _ []string) error {
			a.Wanted = w.Wanted
			a.Namespace = c.Namespace
			a.Out, a.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if wait {
				a.Wait = timeout
			}
			return a.Run(cmd.Context(), c)
		}),
	}
	w.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&a.Enroll, "enroll-namespace", false, "label the namespace, so that its services use the waypoint")
	f.BoolVar(&a.Overwrite, "overwrite", false, "with --enroll-namespace: also where the namespace has another waypoint")
	f.BoolVarP(&wait, "wait", "w", false, "wait until the waypoint is ready")
	f.DurationVar(&timeout, "waypoint-timeout", 90*time.Second, "for how long to wait")
	return cmd
}
