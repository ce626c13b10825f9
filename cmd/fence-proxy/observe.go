package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/observe"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func newObserve() *cobra.Command {
	cmd := &cobra.Command{
		Use: "observe", Short: "Watch all traffic, enforce nothing, and report the updates that are lost", Args: exactArgs(0),
		Long: `observe passes everything on as it is, needs no rules, and keeps what it sees in memory: nothing is written to
Redis. When it ends (interrupted, or after --for) it prints which keys are read and written back, by whom, how long
that takes, which updates were lost, and rules that keep that from happening.

Point the agents at it as at any fence-proxy, all at one: what does not come through it is not seen.`,
	}
	flags := cmd.Flags()
	path := flags.String("config", "", "configuration `file`, for all but its rules")
	config.AddFlags(flags)
	limit := flags.Duration("for", 0, "`time` after which it ends; 0s: when it is interrupted")
	turn := flags.Duration("turn", observe.DefaultTurn, "`time` that a command may wait for another client's on the same key, so that their order is known")
	asJSON := flags.Bool("json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path, flags)
		switch {
		case err != nil:
			return err
		case *limit < 0:
			return usageError{fmt.Errorf("--for: %v has passed: write a time such as 1h", *limit)}
		case *turn < 0:
			return usageError{fmt.Errorf("--turn: %v is negative: write a time such as %v", *turn, observe.DefaultTurn)}
		case cfg.Upstream.URL == config.Embedded && !flags.Changed("upstream"):
			return usageError{errors.New("--upstream: which Redis is there to observe? write redis://HOST:6379")}
		}
		cfg.Rules, cfg.Set = nil, new(rule.Set)
		if !flags.Changed("admin") {
			cfg.Admin = ""
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)() // a second signal ends it at once
		report, err := observed(ctx, *limit, cmd, cfg, observe.New(*turn))
		if err != nil {
			return err
		}
		if *asJSON {
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(report)
		}
		return report.Write(cmd.OutOrStdout())
	}
	return cmd
}

// observed serves until ctx ends, or for a time if one is given, and reports.
func observed(ctx context.Context, limit time.Duration, cmd *cobra.Command, cfg *config.Config, observer *observe.Observer) (*observe.Report, error) {
	oneThread()
	log := newLogger(cmd.ErrOrStderr(), cfg.Log, new(slog.LevelVar))
	redis.SetLogger(driverLog{log})
	p, err := app.Start(ctx, cfg, version, log, app.Observed(observer))
	if err != nil {
		return nil, err
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := p.Serve(ctx); err != nil {
		return nil, err
	}
	return observer.Report(), nil
}
