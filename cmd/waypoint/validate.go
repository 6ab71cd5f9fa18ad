package main

import (
	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

func newValidate() *cobra.Command {
	var config, gateway, output, trustDomain string
	cmd := &cobra.Command{
		Use:   "validate --config PATH",
		Short: "Check manifests without serving them",
		Long: `Reads manifests as 'waypoint run' does and reports what is wrong with them, by file, line,
object and field. An object that would be refused is an error; what is legal but does nothing
here is a warning.

Exits 0 if nothing is refused, 1 if something is.`,
		Example: `  waypoint validate --config mesh/
  waypoint validate --config mesh/routes.yaml --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config == "" {
				return usagef("--config is needed: a folder or file of manifests")
			}
			if err := oneOf("output", output, "text", "json"); err != nil {
				return err
			}
			report, err := files.Validate(files.Options{
				Path: config, Gateway: gateway, Translate: translate.Options{TrustDomain: trustDomain},
			})
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
			if report.Rejected > 0 {
				return errFaults
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "folder (recursive) or file of Kubernetes manifests")
	cmd.Flags().StringVar(&gateway, "gateway", "", "as which waypoint, NAMESPACE/NAME; default: the only Gateway of class waypoint")
	cmd.Flags().StringVar(&trustDomain, "trust-domain", "cluster.local", "trust domain of the mesh")
	cmd.Flags().StringVar(&output, "output", "text", "text or json")
	return cmd
}
