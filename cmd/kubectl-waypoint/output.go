package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/kubectl"
)

// output is how a command prints: for people, or as data.
type output struct{ format string }

// Formats of output.
const (
	table    = "table"
	asJSON   = "json"
	asYAML   = "yaml"
	plain    = "text"
	flagName = "output"
)

// register adds --output; the first format is the default.
func (o *output) register(cmd *cobra.Command, formats ...string) {
	usage := formats[0]
	for _, f := range formats[1:] {
		usage += " or " + f
	}
	cmd.Flags().StringVarP(&o.format, flagName, "o", formats[0], usage)
	completeWith(cmd, flagName, formats...)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.OneOf(flagName, o.format, formats...); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// textual can be shown to people.
type textual interface{ WriteText(io.Writer) error }

// print writes a value in the format asked for.
func (o *output) print(w io.Writer, value textual) error {
	if o.format == table {
		return value.WriteText(w)
	}
	return o.data(w, value)
}

// data writes a value as JSON or YAML.
func (o *output) data(w io.Writer, value any) error {
	if o.format == asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	}
	text, err := kubectl.YAML(value)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
