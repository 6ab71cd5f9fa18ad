package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

func newCerts() *cobra.Command {
	var out, id string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "certs --out DIR --id spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT",
		Short: "Make a certificate, and a throw-away CA if there is none",
		Long: `Writes ca.pem, ca-key.pem, cert.pem and key.pem into a folder. A CA that is in the
folder already is used again, so that several identities can trust each other: copy
ca.pem and ca-key.pem into the next folder first. Not for production.`,
		Example: `  # For a waypoint, and for a client that calls through it
  waypoint certs --out wp --id spiffe://cluster.local/ns/default/sa/waypoint
  mkdir client && cp wp/ca*.pem client/
  waypoint certs --out client --id spiffe://cluster.local/ns/default/sa/client`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" || id == "" {
				return cli.Usagef("--out and --id are needed")
			}
			who, err := identity.Parse(id)
			if err != nil {
				return cli.Usagef("--id: %w", err)
			}
			if ttl <= 0 {
				return cli.Usagef("--ttl: must be positive, got %v", ttl)
			}
			if err := certs.WriteDir(out, who, ttl); err != nil {
				return err
			}
			file := func(name string) string { return filepath.Join(out, name) }
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Wrote a certificate for %s, valid for %v. Use it with\n  --cert %s --key %s --root %s\n",
				who, ttl, file(certs.CertFile), file(certs.KeyFile), file(certs.CAFile))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write to")
	cmd.Flags().StringVar(&id, "id", "", "SPIFFE identity of the certificate")
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long the certificate is valid")
	return cmd
}
