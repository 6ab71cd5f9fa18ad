package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

// pod are the flags that say which pod of a waypoint is asked.
type pod struct {
	name string
	port int
}

func (p *pod) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.name, "pod", "", "pod to ask; default: the first that is ready")
	cmd.Flags().IntVar(&p.port, "admin-port", kubectl.AdminPort, "port of --admin in the pod")
}

// admin reaches the pod of a waypoint, of the only one if it is not named.
func (p *pod) admin(ctx context.Context, c *kubectl.Cluster, waypoint string) (*kubectl.Admin, error) {
	g, err := c.Waypoint(ctx, waypoint)
	if err != nil {
		return nil, err
	}
	ready, err := c.ReadyPod(ctx, g, p.name)
	if err != nil {
		return nil, err
	}
	return c.Admin(ctx, ready, p.port)
}

// first is the argument of a command that takes one or none.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
