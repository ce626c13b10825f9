package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func newPresets() *cobra.Command {
	return &cobra.Command{
		Use: "presets [NAME]", Short: "List the presets, or print the rules that one stands for",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MaximumNArgs(1)(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPresets(cmd.OutOrStdout())
			}
			p, err := config.Preset(args[0])
			if err != nil {
				return usageError{err}
			}
			printPreset(cmd.OutOrStdout(), p)
			return nil
		},
	}
}

func listPresets(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range rule.Presets() {
		var guarded []string
		for _, r := range p.Rules {
			if r.Guards() {
				guarded = append(guarded, strconv.Quote(r.Prefix)+" "+string(r.Mode))
			}
		}
		if len(guarded) == 0 {
			guarded = []string{strconv.Quote(p.Rules[0].Prefix) + " pass"}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Name, p.Software, strings.Join(guarded, ", "))
	}
	return table.Flush()
}

// printPreset writes a preset as a configuration has it; options with their default are left out.
func printPreset(out io.Writer, p rule.Preset) {
	fmt.Fprintf(out, "# %s\nrules:\n", p.Software)
	for _, r := range p.Rules {
		fmt.Fprintf(out, "  # %s\n", r.Why)
		fmt.Fprintf(out, "  - name: %q\n    prefix: %q\n", r.Name, r.Prefix)
		if r.Session != "" {
			fmt.Fprintf(out, "    session: %q\n", r.Session)
		}
		fmt.Fprintf(out, "    mode: %s\n", r.Mode)
		if r.WritesPerRead != rule.Default().WritesPerRead {
			fmt.Fprintf(out, "    writes_per_read: %s\n", r.WritesPerRead)
		}
	}
}
