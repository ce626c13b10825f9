// Command fence-proxy is the sidecar that makes shared agent context in Redis safe.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
)

// version is set when the binary is built.
var version = "dev"

// usageExit is the exit code for a bad command line or configuration.
const usageExit = 2

func main() {
	root := newRoot()
	if err := root.Execute(); err != nil {
		var own *statusError
		if !errors.As(err, &own) || own.err != nil {
			fmt.Fprintln(os.Stderr, "fence-proxy:", err)
		}
		os.Exit(exitCode(err))
	}
}

// newRoot is the command line. Without a sub-command it serves.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "fence-proxy",
		Short: "Makes shared agent context in Redis safe: locks, fences and passes on",
		Long: `fence-proxy stands between agents and their Redis. On the keys that a rule guards it takes the
session's lock when a read-modify-write sequence starts, and has the store refuse every write that
comes too late. Everything else passes through.

Without a configuration it serves an embedded in-memory store, for trying out.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	serve := newServe()
	root.Flags().AddFlagSet(serve.Flags())
	root.RunE = serve.RunE
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(serve, newCheck(), newExplain(), newDoctor(), newPresets(), newDemo(), newObserve(), newExec(), newTop(), newHolds(), newMigrate(),
		newWebhook(), newWait(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "fence-proxy", version) },
	}
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode is 2 for what the user wrote wrongly, 1 for what went wrong, and what exec has to say.
func exitCode(err error) int {
	var own *statusError
	if errors.As(err, &own) {
		return own.status
	}
	var mistake *config.Error
	var usage usageError
	if errors.As(err, &mistake) || errors.As(err, &usage) {
		return usageExit
	}
	return 1
}
