package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/fence-proxy/fence-proxy/internal/admin"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/status"
	"github.com/fence-proxy/fence-proxy/internal/top"
)

// leastInterval is how often top may ask at most.
const leastInterval = 100 * time.Millisecond

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "Show a running proxy's holds, waits and refusals, live", Args: exactArgs(0),
		Long: `top shows in the terminal what the status page shows: a few figures, the open holds, and the last refusals. q or
ctrl-c ends it. Where the output is no terminal, or with --once, it prints once.`,
	}
	to := addAdminFlags(cmd.Flags())
	of := addHoldsFlags(cmd.Flags())
	every := cmd.Flags().Duration("interval", time.Second, "`time` between two looks; at least 100ms")
	once := cmd.Flags().Bool("once", false, "print once")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, err := of.query()
		if err != nil {
			return err
		}
		if *every < leastInterval {
			return usageError{fmt.Errorf("--interval: %v is too short: write %v or more", *every, leastInterval)}
		}
		client, err := to.client(cmd.Flags())
		if err != nil {
			return err
		}
		defer client.Close()
		if out, ok := cmd.OutOrStdout().(*os.File); ok && term.IsTerminal(int(out.Fd())) && !*once {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return top.Live(ctx, os.Stdin, out, client, query, *every)
		}
		frame, err := top.Ask(cmd.Context(), client, query, of.limit)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), strings.Join(frame.Lines(0, top.Style{}), "\n"))
		return nil
	}
	return cmd
}

func newHolds() *cobra.Command {
	cmd := &cobra.Command{
		Use: "holds", Short: "List the sessions that a running proxy's clients hold", Args: exactArgs(0),
		Long: `holds lists the sessions that the clients of a running proxy hold. Those of all proxies of one Redis are listed by FENCE.LIST.`,
	}
	to := addAdminFlags(cmd.Flags())
	of := addHoldsFlags(cmd.Flags())
	asJSON := cmd.Flags().Bool("json", false, "print JSON: docs/admin-api.md")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, err := of.query()
		if err != nil {
			return err
		}
		client, err := to.client(cmd.Flags())
		if err != nil {
			return err
		}
		defer client.Close()
		if *asJSON {
			return printRaw(cmd, client, "holds", query)
		}
		var frame top.Frame
		if frame.Holds, err = client.Holds(cmd.Context(), query); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), strings.Join(frame.Table(), "\n"))
		if more := frame.Holds.Total - len(frame.Holds.Items); more > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d more: --limit shows up to 500\n", more)
		}
		return nil
	}
	return cmd
}

// printRaw prints an answer as JSON that people can read, too.
func printRaw(cmd *cobra.Command, client *admin.Client, path string, query url.Values) error {
	text, err := client.Raw(cmd.Context(), path, query)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(text)
}

// adminFlags say where a running proxy's admin address is.
type adminFlags struct{ config *string }

func addAdminFlags(flags *pflag.FlagSet) adminFlags {
	flags.String("admin", "", "admin address of the proxy, `host:port` or unix:///path; that of the configuration unless given")
	return adminFlags{flags.String("config", "", "configuration `file` that has the address")}
}

func (a adminFlags) client(flags *pflag.FlagSet) (*admin.Client, error) {
	only := pflag.NewFlagSet("", pflag.ContinueOnError)
	if f := flags.Lookup("admin"); f.Changed {
		only.AddFlag(f)
	}
	cfg, err := config.Load(*a.config, only)
	if err != nil {
		return nil, err
	}
	network, address := cfg.AdminAddress()
	if address == "" {
		return nil, usageError{fmt.Errorf("the configuration has no admin address: give one with --admin")}
	}
	return admin.NewClient(network, address), nil
}

// holdsFlags say which holds are wanted.
type holdsFlags struct {
	text, rule, sort string
	up               bool
	limit            int
}

func addHoldsFlags(flags *pflag.FlagSet) *holdsFlags {
	h := &holdsFlags{}
	flags.StringVar(&h.text, "filter", "", "only those with this `text` in the session's name, or the client's name or address")
	flags.StringVar(&h.rule, "rule", "", "only those of this `rule`")
	flags.StringVar(&h.sort, "sort", "age", "sort by `what`: "+strings.Join(status.Sorts, ", "))
	flags.BoolVar(&h.up, "asc", false, "the least first")
	flags.IntVar(&h.limit, "limit", 50, "list so many at most; up to 500")
	return h
}

// query is that of /api/v1/holds.
func (h *holdsFlags) query() (url.Values, error) {
	if !slices.Contains(status.Sorts, h.sort) {
		return nil, usageError{fmt.Errorf("--sort: %q is not known: write %s", h.sort, strings.Join(status.Sorts, ", "))}
	}
	if h.limit < 0 || h.limit > 500 {
		return nil, usageError{fmt.Errorf("--limit: %d is not from 0 to 500", h.limit)}
	}
	query := url.Values{"sort": {h.sort}, "order": {"desc"}, "limit": {strconv.Itoa(h.limit)}}
	if h.up {
		query.Set("order", "asc")
	}
	if h.text != "" {
		query.Set("q", h.text)
	}
	if h.rule != "" {
		query.Set("rule", h.rule)
	}
	return query, nil
}
