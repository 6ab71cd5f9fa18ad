// Package cli is what the commands of this product have in common: their exit codes,
// and how a fault in the call of a command is told from a fault in its work. A
// command returns an error, [Execute] prints it and makes the exit code of it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	ExitOK     = 0
	ExitFailed = 1 // it failed, or faults were found
	ExitUsage  = 2 // it was called wrongly
)

// Execute runs a command line and turns its error into an exit code. Commands that
// serve end with ctx.
func Execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	_, usage := errors.AsType[usageError](err)
	switch {
	case usage:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
		fmt.Fprintf(cmd.ErrOrStderr(), "Run '%s --help' for the flags and examples.\n", cmd.CommandPath())
		return ExitUsage
	case errors.Is(err, ErrFaults): // the report has been printed
		return ExitFailed
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
	return ExitFailed
}

// ErrFaults ends a command that did its work and found what it looked for.
var ErrFaults = errors.New("faults were found")

// usageError is a fault in how a command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage makes a usage error of err; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Usagef makes a usage error, as fmt.Errorf makes an error.
func Usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// FlagUsage makes a usage error of one that a flag's value led to; nil stays nil.
func FlagUsage(flag string, err error) error {
	if err == nil {
		return nil
	}
	return Usagef("--%s: %w", flag, err)
}

// OneOf wants the value of a flag to be one of those allowed.
func OneOf(flag, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return Usagef("--%s: %q is none of %s", flag, value, strings.Join(allowed, ", "))
}

// UsageArgs makes a wrong number of arguments a usage error.
func UsageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		return Usage(check(cmd, args))
	}
}

// FlagError makes a flag that cannot be parsed a usage error; it is for
// cobra.Command.SetFlagErrorFunc.
func FlagError(_ *cobra.Command, err error) error { return Usage(err) }
