package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
)

// bindEnvironment gives every flag of cmd an environment variable, which holds
// unless the flag is set, and names it in the help.
func bindEnvironment(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		f.Usage = fmt.Sprintf("%s (%s)", f.Usage, environmentName(f.Name))
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := readEnvironment(cmd.Flags()); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

func readEnvironment(flags *pflag.FlagSet) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		value, ok := os.LookupEnv(name)
		if !ok || f.Changed || first != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = cli.Usagef("environment variable %s: %q is not valid for --%s: %w", name, value, f.Name, err)
		}
	})
	return first
}

// environmentName returns WAYPOINT_DRAIN_DELAY for drain-delay.
func environmentName(flag string) string {
	return "WAYPOINT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
