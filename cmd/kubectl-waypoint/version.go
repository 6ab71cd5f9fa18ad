package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
)

// Set by the linker.
var (
	version = "unknown"
	commit  = "unknown"
)

func newVersion() *cobra.Command { return cli.NewVersion("kubectl-waypoint", version, commit) }
