package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/demo"
)

func newDemo() *cobra.Command {
	o := demo.Default()
	cmd := &cobra.Command{
		Use: "demo", Short: "Race agents with and without the fence and show what was lost", Args: exactArgs(0),
		Long: `demo starts a Redis in memory and has agents race for one session: first straight at Redis, then
each through a proxy of its own, one of them being paused for too long. It counts what became of their updates.

With --upstream it uses a Redis of yours: it writes only under a random prefix and cleans up.`,
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Agents, "agents", o.Agents, "`number` of agents that race")
	flags.IntVar(&o.Updates, "updates", o.Updates, "`number` of updates that each agent makes")
	flags.DurationVar(&o.Think, "think", o.Think, "`time` that an agent thinks between its read and its write")
	flags.StringVar(&o.Upstream, "upstream", o.Upstream, "the Redis to race on: redis://…, unix:///path or embedded:, as `URL`")
	flags.BoolVar(&o.Observe, "observe", o.Observe, "observe the first race, and guard the second by the rules that were found")
	verbose := flags.BoolP("verbose", "v", false, "show the proxies' logs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Check(); err != nil {
			return usageError{err}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)() // a second signal ends it at once

		logging.Disable() // of go-redis, whose remarks would stand between ours
		o.Out = cmd.OutOrStdout()
		if *verbose {
			o.Log = newLogger(cmd.ErrOrStderr(), config.Log{Level: slog.LevelInfo.String()}, new(slog.LevelVar))
		}
		_, err := demo.Run(ctx, o)
		return err
	}
	return cmd
}
