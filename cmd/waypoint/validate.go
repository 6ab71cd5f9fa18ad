package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/files"
)

func newValidate() *cobra.Command {
	var m manifests
	var output string
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate --config PATH",
		Short: "Check manifests without serving them",
		Long: `Reads manifests as 'waypoint run' does and reports what is wrong with them, by file, line,
object and field. An object that would be refused is an error; what is legal but does nothing
here is a warning.

Exits 0 if nothing is refused, 1 if something is; with --strict also if there are warnings.`,
		Example: `  waypoint validate --config mesh/
  waypoint validate --config mesh/ --strict
  waypoint validate --config mesh/routes.yaml --output json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runValidate(cmd, &m, output, strict) },
	}
	m.register(cmd.Flags())
	cmd.Flags().StringVar(&output, "output", "text", "text or json")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 1 if there are warnings, too")
	return cmd
}

func runValidate(cmd *cobra.Command, m *manifests, output string, strict bool) error {
	if m.config == "" {
		return cli.Usagef("--config is needed: a folder or file of manifests")
	}
	if err := checkGateway(m.gateway); err != nil {
		return err
	}
	if err := cli.OneOf("output", output, "text", "json"); err != nil {
		return err
	}
	report, err := files.Validate(m.source())
	if err != nil {
		return err
	}
	write := report.WriteText
	if output == "json" {
		write = report.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if report.Rejected > 0 || strict && len(report.Problems) > 0 {
		return cli.ErrFaults
	}
	return nil
}
