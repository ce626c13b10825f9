package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Validate a configuration file", Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(args[0], nil)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, note := range cfg.Notes() {
				fmt.Fprintln(out, "note:", note)
			}
			fmt.Fprintf(out, "%s: ok, %d rules\n", args[0], len(cfg.Rules))
			return nil
		},
	}
}

// exactArgs makes a wrong number of arguments a usage error.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}
