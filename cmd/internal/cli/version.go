package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// NewVersion makes the command that says which program this is.
func NewVersion(program, version, commit string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\ncommit %s\n%s %s/%s\n",
				program, version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
