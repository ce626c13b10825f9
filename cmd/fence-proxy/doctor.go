package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/doctor"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Connect to Redis and say what a deployment lacks", Args: exactArgs(0),
		Long: `doctor connects to the Redis of a configuration, and to its lock provider, and says line by line what is as it should be and what is
not, with what to do about it: the server and its settings, who may write guarded keys around the proxy, the rights of the
proxy's user, clocks, fence records, and whether the rules fit the keys that are there. It changes nothing.

Levels: ok; unsure (Redis does not let this user ask); warn (works, at a price); fail (something does not work, or updates can be lost).
The exit status is 0 without a fail, 1 with one, 2 for a bad command line or configuration.`,
	}
	path := cmd.Flags().String("config", "", "configuration `file`")
	cmd.Flags().String("upstream", "", "the Redis, in place of the file's, as `URL`")
	operator := cmd.Flags().String("operator", os.Getenv("FENCE_OPERATOR_URL"), "the same Redis with a user who may ask more than the proxy's (ACL LIST, CONFIG GET), as `URL`; or FENCE_OPERATOR_URL")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		logging.Disable() // of go-redis, whose remarks would stand between the findings
		patient, discharge, err := app.Patient(cfg, *operator)
		if errors.Is(err, app.ErrEmbedded) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		defer discharge()
		found := doctor.Examine(cmd.Context(), patient)
		if *asJSON {
			err = printFindingsAsJSON(cmd.OutOrStdout(), found)
		} else {
			err = printFindings(cmd.OutOrStdout(), found)
		}
		if err == nil && !doctor.Healthy(found) {
			return &statusError{status: 1}
		}
		return err
	}
	return cmd
}

func printFindingsAsJSON(out io.Writer, found []doctor.Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Healthy  bool             `json:"healthy"`
		Findings []doctor.Finding `json:"findings"`
	}{doctor.Healthy(found), found})
}

func printFindings(out io.Writer, found []doctor.Finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range found {
		what := f.What
		if f.Node != "" {
			what = f.Node + ": " + what
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Level, f.Check, what)
		if f.Remedy != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Remedy)
		}
	}
	fmt.Fprintln(table, doctor.Summary(found))
	return table.Flush()
}
