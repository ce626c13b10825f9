package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func newMigrate() *cobra.Command {
	var m tokenstore.Migration
	cmd := &cobra.Command{
		Use: "migrate --config FILE [flags]", Short: "Give the sessions at the Redis to the configured lock provider", Args: exactArgs(0),
		Long: `migrate goes through the fence records at the Redis, in all of its databases, and gives those of another lock provider
to the one that the configuration names. From then on no write under an earlier grant is applied: a client that has read
before reads again. Proxies that still use the former provider are refused with FENCEDOWN on these sessions.

Give all proxies the new configuration first. Until a session's record is migrated, proxies with the new provider
refuse commands on it with FENCEDOWN; so run migrate when the first of them serves, and again when the last does.

A session that is held is left alone and named, unless --force is given. The exit status is 0 when no record is left,
75 when some are held, 69 if Redis could not be asked.`,
	}
	path := cmd.Flags().String("config", "", "configuration `file`")
	cmd.Flags().StringVar(&m.Rule, "rule", "", "only the sessions of the rule with this `name`")
	cmd.Flags().BoolVar(&m.Dry, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&m.Force, "force", false, "sessions that are held as well: their holders' writes are refused")
	cmd.Flags().BoolVar(&m.Again, "reset", false, "sessions of the configured provider as well: when it was set up anew, and counts its grants anew")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path, nil)
		if err != nil {
			return err
		}
		if m.Rule != "" && m.Rule != rule.Unguarded && ruleOf(cfg, m.Rule) == nil {
			return usageError{fmt.Errorf("--rule: the configuration has no rule %q", m.Rule)}
		}
		m.TTL = func(name string) time.Duration {
			if r := ruleOf(cfg, name); r != nil {
				return r.RecordTTL
			}
			return rule.ForUnguarded().RecordTTL
		}
		return migrate(cmd, cfg, m)
	}
	return cmd
}

func ruleOf(cfg *config.Config, name string) *rule.Rule {
	for _, r := range cfg.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func migrate(cmd *cobra.Command, cfg *config.Config, m tokenstore.Migration) error {
	store, _, err := openStore(cmd, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	databases, err := store.Databases(cmd.Context())
	if err != nil {
		return &statusError{exitUnavailable, err}
	}
	out := cmd.OutOrStdout()
	moved, held := 0, 0
	for _, db := range databases {
		err := store.Migrate(cmd.Context(), db, m, func(r tokenstore.Moved) {
			if !r.Holder.Held() {
				moved++
				return
			}
			held++
			fmt.Fprintf(out, "%v (provider %s) is held by client %q of proxy %s since %s (grant %d): left alone\n",
				r.Record, r.From, r.Holder.Client, r.Holder.Proxy, r.Holder.Since.UTC().Format(time.RFC3339), r.Holder.Grant)
		})
		if err != nil {
			return &statusError{exitUnavailable, fmt.Errorf("%d sessions migrated, then: %w", moved, err)}
		}
	}
	verb := "migrated"
	if m.Dry {
		verb = "to migrate"
	}
	fmt.Fprintf(out, "%d sessions %s to lock provider %s, %d held and left alone\n", moved, verb, cfg.Lock.Provider, held)
	if held > 0 {
		return &statusError{exitTempFail, errors.New("some sessions are held: run it again when they are free, or with --force")}
	}
	return nil
}
