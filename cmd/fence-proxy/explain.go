package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/admin"
	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/status"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain KEY", Short: "Say which rule guards a key, and how", Args: exactArgs(1),
		Long: `explain says which rule of a configuration guards a key, and how. With --admin it asks a running proxy, which also says who holds
the key's session, who waits, and what mode auto has learnt.`,
	}
	to := addAdminFlags(cmd.Flags())
	db := cmd.Flags().Int("db", 0, "the key's `database`, with --admin")
	asJSON := cmd.Flags().Bool("json", false, "with --admin: print JSON: docs/admin-api.md")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("admin") {
			return explainRunning(cmd, to, args[0], *db, *asJSON)
		}
		if *asJSON || cmd.Flags().Changed("db") {
			return usageError{errors.New("--json and --db need --admin, the address of a running proxy")}
		}
		cfg, err := config.Load(*to.config, nil)
		if err != nil {
			return err
		}
		return explain(cmd.OutOrStdout(), cfg, args[0])
	}
	return cmd
}

// explainRunning asks a running proxy about a key.
func explainRunning(cmd *cobra.Command, to adminFlags, key string, db int, asJSON bool) error {
	client, err := to.client(cmd.Flags())
	if err != nil {
		return err
	}
	defer client.Close()
	query := url.Values{"key": {key}, "db": {strconv.Itoa(db)}}
	if asJSON {
		return printRaw(cmd, client, "explain", query)
	}
	e, err := client.Explain(cmd.Context(), query)
	if err != nil {
		return err
	}
	return printExplanation(cmd.OutOrStdout(), &e)
}

func printExplanation(out io.Writer, e *admin.Explanation) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("key", "%s", e.Key)
	row("guarded", "%t: %s", e.Guarded, e.Why)
	if e.Rule == "" {
		return table.Flush()
	}
	row("rule", "%s", e.Rule)
	row("session", "%s", status.Printable(e.Session))
	row("mode", "%s", e.Mode)
	for _, name := range []string{"owner", "writes_per_read", "wait", "lease", "max_hold", "idle", "linger"} {
		if text := e.Terms[name]; text != "" {
			row(name, "%s", text)
		}
	}
	printRecord(row, e)
	for _, l := range e.Learned {
		does := "looks"
		if l.Locks {
			does = "locks"
		}
		row("learned", "%s of %s %s: %d%% of %d reads were written, after %s", l.Command, l.Client, does, l.Percent, l.Reads, status.Span(l.Delay))
	}
	return table.Flush()
}

// printRecord says what the store says.
func printRecord(row func(name, format string, args ...any), e *admin.Explanation) {
	r := e.Record
	if r == nil {
		row("record", "can't be read: %s", e.Trouble)
		return
	}
	who := func(p status.Party) string {
		return fmt.Sprintf("%s of proxy %s", cmp.Or(p.Name, p.Client, p.Owner), p.Proxy)
	}
	holder := "nobody"
	if h := r.Holder; h != nil {
		holder = fmt.Sprintf("%s under grant %d since %s, %s of its lease left", who(*h), h.Grant, h.Since.UTC().Format(time.RFC3339), status.Span(r.LeaseLeft))
	}
	row("held by", "%s", holder)
	line := make([]string, len(r.Waiters))
	for i, w := range r.Waiters {
		line[i] = who(w)
	}
	row("in line", "%d%s", r.Waiting, prefixed(": ", strings.Join(line, ", ")))
	row("grants", "newest %d, last stored %d, write %d", r.Grant, r.StoredGrant, r.StoredSeq)
	row("record", "%s", strings.Join(e.Keys, " "))
}

// prefixed is text with something before it, unless it is empty.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func explain(out io.Writer, cfg *config.Config, key string) error {
	if strings.HasPrefix(key, tokenstore.Prefix) {
		fmt.Fprintf(out, "%s is reserved for fence records: clients are refused with FENCEDENIED\n", key)
		return nil
	}
	r := cfg.Set.Match([]byte(key))
	if r == nil {
		fmt.Fprintf(out, "%s is not guarded: no rule's prefix fits, so it passes through\n", key)
		return nil
	}
	if r.Mode == rule.ModePass {
		fmt.Fprintf(out, "%s is not guarded: rule %q exempts the prefix %q\n", key, r.Name, r.Prefix)
		return nil
	}
	session := string(r.AppendSession(nil, []byte(key)))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("key", "%s", key)
	row("rule", "%s (prefix %q is the longest that fits)", r.Name, r.Prefix)
	row("session", "%s", session)
	row("mode", "%s", r.Mode)
	row("owner", "%s", ownerText(r))
	if len(r.Readers) > 0 {
		row("readers", "%s: their reads take no session", strings.Join(r.Readers, ", "))
	}
	row("writes_per_read", "%s", r.WritesPerRead)
	row("scripts", "%s those that name keys of the rule and declare none", r.Scripts)
	row("wait", "%s, then -%s", rule.Text(r.Wait), r.LockedError)
	row("lease", "%s, renewed at a third, never past max_hold %s", rule.Text(r.Lease), rule.Text(r.MaxHold))
	row("ends", "at the commit (linger %s), or after %s without a guarded command", rule.Text(r.Linger), rule.Text(r.Idle))
	if d := r.Durability; d.Replicas > 0 {
		row("durability", "%s", d)
	}
	row("record", "%s", strings.Join(tokenstore.NewRecord(app.AreaOf(cfg, r, 0, []byte(key)), r.Name, session).Keys(), " "))
	return table.Flush()
}

// ownerText says whose reads and writes belong together.
func ownerText(r *rule.Rule) string {
	client := "all connections with the same address, ACL user, library and name"
	if r.ClientBy == rule.ByName {
		client = "all connections with the same name"
	}
	switch r.Owner {
	case rule.OwnerAuto:
		return "auto: each connection; once its client turns out to pool them, " + client
	case rule.OwnerClient:
		return "client: " + client
	case rule.OwnerProxy:
		return "proxy: all clients of this proxy"
	default:
		return "connection: each connection"
	}
}
