package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/ask"
	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/explain"
	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// asked is the command line of `waypoint explain`.
type asked struct {
	manifests
	ask.Flags
	admin  string
	output string
}

func newExplain() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use:   "explain (--config PATH | --admin URL) --from spiffe://... --to TARGET [METHOD URL]",
		Short: "Tell what would happen to a request, and why",
		Long: `Tells which service and protocol a request is for, which policy and rule allows or denies it,
which route and rule it follows, what filters do to it, which endpoints may get it, and why not
the others: by the engines of the data path itself. Asks manifests, or a running waypoint through
its admin port. Without METHOD and URL the question is about a TCP connection.`,
		Example: `  waypoint explain --config mesh/ --from spiffe://cluster.local/ns/default/sa/client \
    --to 10.0.0.1:8080 GET /reviews/1 -H 'x-canary: 1'

  waypoint explain --admin http://127.0.0.1:15000 --from spiffe://cluster.local/ns/default/sa/client \
    --to mysql.db.svc.cluster.local:3306`,
		Args: ask.Args,
		RunE: func(cmd *cobra.Command, args []string) error { return runExplain(cmd, &a, args) },
	}
	f := cmd.Flags()
	a.manifests.register(f)
	a.Register(f)
	f.StringVar(&a.admin, "admin", "", "URL, or HOST:PORT, of a running waypoint's admin port")
	f.StringVar(&a.output, "output", "text", "text or json")
	return cmd
}

func runExplain(cmd *cobra.Command, a *asked, args []string) error {
	question, err := a.complete(args)
	if err != nil {
		return err
	}
	answer, err := a.ask(cmd.Context(), question)
	if err != nil {
		return err
	}
	return ask.Print(cmd.OutOrStdout(), answer, a.output == "json")
}

// complete checks the flags and makes the question of them.
func (a *asked) complete(args []string) (explain.Question, error) {
	switch {
	case a.config == "" && a.admin == "":
		return explain.Question{}, cli.Usagef("one of --config and --admin is needed: manifests, or a running waypoint")
	case a.config != "" && a.admin != "":
		return explain.Question{}, cli.Usagef("--config and --admin exclude each other: manifests are asked, or a running waypoint")
	}
	question, err := a.Question(args)
	if err == nil {
		err = checkGateway(a.gateway)
	}
	if err == nil {
		err = cli.OneOf("output", a.output, "text", "json")
	}
	return question, err
}

func (a *asked) ask(ctx context.Context, question explain.Question) (*explain.Answer, error) {
	if a.admin != "" {
		return ask.Running(ctx, a.admin, question)
	}
	var store mesh.Store
	if err := files.New(a.source(), &store).Load(); err != nil {
		return nil, unclearGateway(err)
	}
	return explain.Explain(store.Load(), question)
}
