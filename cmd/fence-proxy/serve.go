package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/telemetry"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve clients (the default)", Args: cobra.NoArgs,
	}
	path := cmd.Flags().String("config", "", "configuration `file`; without it an embedded store and a sample rule are served")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		source := config.NewSource(*path, cmd.Flags())
		cfg, err := source.Load()
		if err != nil {
			return err
		}
		oneThread()
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		reload := make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
		sends, err := telemetry.Start(ctx, telemetry.Options{Settings: telemetry.Settings(cfg.Telemetry), Name: cfg.Name, Version: version})
		if err != nil {
			return err
		}
		defer closeTelemetry(sends)
		level := new(slog.LevelVar)
		log := slog.New(sends.Logger(newLogger(cmd.ErrOrStderr(), cfg.Log, level).Handler()))
		redis.SetLogger(driverLog{log})
		mindLimit(memlimit.FromCgroup, log)
		for _, note := range cfg.Notes() {
			log.Info("note", "config", note)
		}
		log.Info("starting", "version", version, "config", cfg)
		sends.Say(log)
		p, err := app.Start(ctx, cfg, version, log, app.Sending(sends))
		if err != nil {
			return err
		}
		p.Follow(app.Reloading{Source: source, Now: reload, Level: level})
		return p.Serve(ctx)
	}
	return cmd
}

// lastTelemetry is how long a collector may take to take what is left at the end.
const lastTelemetry = 2 * time.Second

func closeTelemetry(t *telemetry.Telemetry) {
	ctx, cancel := context.WithTimeout(context.Background(), lastTelemetry)
	defer cancel()
	t.Close(ctx)
}

// oneThread lets one thread run the proxy's code, unless GOMAXPROCS says otherwise. One keeps up
// with a Redis, whose commands run in one thread too; more of them mostly wake each other up, at
// half as much CPU time again for each command.
func oneThread() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// newLogger returns the logger that a configuration asks for; level may be changed later.
func newLogger(w io.Writer, c config.Log, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.Level)) // checked when it was loaded
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// driverLog takes the lines of the Redis client library into the log.
type driverLog struct{ log *slog.Logger }

// Printf implements the library's logger.
func (d driverLog) Printf(ctx context.Context, format string, v ...any) {
	d.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}
