package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

// cluster are the flags by which every command reaches an API server: those of
// kubectl.
type cluster struct {
	flags *genericclioptions.ConfigFlags
	root  *cobra.Command
}

func newCluster(root *cobra.Command) *cluster {
	cl := &cluster{genericclioptions.NewConfigFlags(true), root}
	cl.flags.AddFlags(root.PersistentFlags())
	complete(root, "namespace", cl.namespaces)
	return cl
}

func (cl *cluster) connect() (*kubectl.Cluster, error) {
	return kubectl.Connect(cl.flags, "kubectl-waypoint/"+version, cl.root.ErrOrStderr())
}

// run makes a command of what is done with a cluster.
func (cl *cluster) run(do func(cmd *cobra.Command, c *kubectl.Cluster, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := cl.connect()
		if err == nil {
			err = do(cmd, c, args)
		}
		return kubectl.Diagnose(err)
	}
}

// completeTimeout bounds what a user waits for after a tabulator.
const completeTimeout = 3 * time.Second

// candidates completes from what a cluster holds. A cluster that does not answer
// completes nothing.
func (cl *cluster) candidates(cmd *cobra.Command, list func(context.Context, *kubectl.Cluster) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	c, err := cl.connect()
	if err != nil {
		cobra.CompErrorln(err.Error())
		return nil
	}
	names, err := list(ctx, c)
	if err != nil {
		cobra.CompErrorln(kubectl.Diagnose(err).Error())
	}
	return names
}

// waypoints completes names of waypoints, at most so many.
func (cl *cluster) waypoints(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := cl.candidates(cmd, func(ctx context.Context, c *kubectl.Cluster) (names []string, err error) {
			list, err := c.Waypoints(ctx, c.Namespace)
			for _, g := range list {
				names = append(names, g.Name)
			}
			return names, err
		})
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
	}
}

func (cl *cluster) namespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := cl.candidates(cmd, func(ctx context.Context, c *kubectl.Cluster) ([]string, error) { return c.Namespaces(ctx) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// services completes NAMESPACE/NAME of the Services in the cluster's namespace.
func (cl *cluster) services(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := cl.candidates(cmd, func(ctx context.Context, c *kubectl.Cluster) ([]string, error) { return c.Services(ctx) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// complete says how the value of a flag is completed; the flag is there, so nothing
// can go wrong.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

func completeWith(cmd *cobra.Command, flag string, values ...string) {
	complete(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
