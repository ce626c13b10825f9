package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain KEY", Short: "Say which rule guards a key, and how", Args: exactArgs(1),
	}
	path := cmd.Flags().String("config", "", "configuration `file`; without it the built-in default")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Load(*path, nil)
		if err != nil {
			return err
		}
		return explain(cmd.OutOrStdout(), cfg, args[0])
	}
	return cmd
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
	row("wait", "%s, then -%s", rule.Text(r.Wait), r.LockedError)
	row("lease", "%s, renewed at a third, never past max_hold %s", rule.Text(r.Lease), rule.Text(r.MaxHold))
	row("ends", "at the commit (linger %s), or after %s without a guarded command", rule.Text(r.Linger), rule.Text(r.Idle))
	row("record", "%s", strings.Join(tokenstore.NewRecord(0, r.Name, session).Keys(), " "))
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
