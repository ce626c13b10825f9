package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/webhook"
)

func newWebhook() *cobra.Command {
	cmd := &cobra.Command{
		Use: "webhook", Short: "Add the sidecar to pods that ask for it (Kubernetes)", Args: cobra.NoArgs,
		Long: `A mutating admission webhook: pods with the annotation fence-proxy/inject: "true" get the sidecar, and their Redis
URL points at it. The Helm chart installs it, and writes the template.`,
	}
	var o webhook.Options
	log := config.Log{Level: "info", Format: "text"}
	flags := cmd.Flags()
	flags.StringVar(&o.Listen, "listen", ":8443", "where the API server connects, with TLS: `host:port`")
	flags.StringVar(&o.Certificate, "certificate", "/etc/fence-proxy/tls/tls.crt", "certificate, a PEM `file` that is read again when it changes")
	flags.StringVar(&o.Key, "key", "/etc/fence-proxy/tls/tls.key", "its key, a PEM `file`")
	flags.StringVar(&o.Template, "template", "/etc/fence-proxy/injector.yaml", "what is added to pods, a YAML `file` that is read again when it changes")
	flags.BoolVar(&o.Events, "events", true, "store an event for each pod that asks and is skipped")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "`file` that says where to store events; without it the pod's service account")
	flags.DurationVar(&o.Drain, "drain", 5*time.Second, "`time` that it goes on serving after SIGTERM")
	flags.StringVar(&log.Level, "log-level", log.Level, "least `level` that is logged: debug, info, warn or error")
	flags.StringVar(&log.Format, "log-format", log.Format, "text or json, as `format`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		level := new(slog.LevelVar)
		if err := level.UnmarshalText([]byte(log.Level)); err != nil {
			return usageError{err}
		}
		o.Log = newLogger(cmd.ErrOrStderr(), log, level)
		o.Log.Info("starting", "version", version, "template", o.Template)
		s, err := webhook.Start(ctx, o)
		if err != nil {
			return err
		}
		return s.Serve(ctx)
	}
	return cmd
}
